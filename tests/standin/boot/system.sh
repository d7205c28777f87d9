#!/usr/bin/env bash
# Makes the kernel and the initrd that Setup and the installed system run on, from Debian's packages.
#   vmlinuz   Debian's kernel (the newest linux-image of the release; not the cloud one, which lacks AHCI)
#   initrd    busybox, the NTFS and WIM tools, the modules, and the stand-in's own program as /sbin/standin
set -euo pipefail
out=${1:?usage: system.sh OUTPUT-DIRECTORY STANDIN-BINARY CACHE-DIRECTORY}
program=${2:?the stand-in binary}
cache=${3:?where the kernel package is kept}
here=$(cd "$(dirname "$0")" && pwd)
mkdir -p "$out" "$cache"
out=$(cd "$out" && pwd) cache=$(cd "$cache" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# The package that linux-image-amd64 stands for now.
package=$(apt-cache depends linux-image-amd64 | awk '/Depends: linux-image-/ { print $2; exit }')
[ -n "$package" ] || { echo "no linux-image package is known: run apt-get update" >&2; exit 3; }
if [ ! -e "$cache/$package/unpacked" ]; then
    rm -rf "${cache:?}/$package"
    mkdir -p "$cache/$package"
    (cd "$cache/$package" && apt-get -q download "$package" >/dev/null && dpkg -x ./*.deb . && rm -f ./*.deb && touch unpacked)
fi
kernel=$cache/$package
version=$(ls "$kernel/lib/modules")
cp "$kernel/boot/vmlinuz-$version" "$out/vmlinuz"

root=$work/root
mkdir -p "$root"/{bin,sbin,usr/bin,usr/sbin,etc,proc,sys,dev,run,tmp,mnt,lib64} "$root/lib/modules/$version"
ln -s ../lib "$root/usr/lib"
ln -s ../lib64 "$root/usr/lib64"
cp /bin/busybox "$root/bin/busybox"
cp "$program" "$root/sbin/standin"
cp "$here/init" "$root/init"
for tool in mkntfs ntfs-3g mkdosfs wimlib-imagex; do
    path=$(readlink -f "$(PATH=$PATH:/usr/sbin:/sbin command -v "$tool")")
    cp "$path" "$root/sbin/$tool"
done
# libxml2 wants ICU, and ICU its 30 MB of data, for encodings that no WIM has: a stub carries the one symbol.
libraries=$({ ldd "$root/sbin/"{mkntfs,ntfs-3g,mkdosfs,wimlib-imagex} "$root/sbin/standin" 2>/dev/null; true; } |
    awk '$3 ~ /^\// { print $3 } $1 ~ /^\// && !/:$/ { print $1 }' | sort -u)
for library in $libraries; do
    case $library in
    *libicudata*)
        symbol=$(nm -D --defined-only "$library" | awk '{ print $3 }' | grep -m1 '^icudt[0-9]*_dat')
        printf 'const char %s[64] = {0};\n' "${symbol%%@*}" >"$work/icu.c"
        gcc -shared -o "$root/lib/$(basename "$library")" -Wl,-soname,"$(basename "$library")" "$work/icu.c"
        ;;
    */ld-linux*) cp "$library" "$root/lib64/" ;;
    *) cp "$(readlink -f "$library")" "$root/lib/$(basename "$library")" ;;
    esac
done
strip --strip-unneeded "$root"/lib/*.so* "$root"/sbin/* 2>/dev/null || true

# What is in-box on Windows, and the virtio drivers, which `modprobe` loads only once their Windows driver was given.
modules="ahci ata_piix sd_mod sr_mod isofs udf vfat nls_cp437 nls_iso8859-1 nls_utf8 nls_ascii fuse loop nvme efivarfs
    xhci_pci usb_storage usbhid virtio_pci virtio_blk virtio_scsi virtio_net virtio_console"
tree=$kernel/lib/modules/$version
wanted() { # the file of a module and of all that it needs
    local file
    file=$(awk -F: -v m="/${1//_/[-_]}.ko" '$1 ~ m "$" { print; exit }' "$tree/modules.dep")
    printf '%s\n' "${file%%:*}" ${file#*:}
}
[ -e "$tree/modules.dep" ] || busybox depmod -b "$kernel" "$version"
for module in $modules; do wanted "$module"; done | sort -u | while read -r file; do
    [ -n "$file" ] || continue
    mkdir -p "$root/lib/modules/$version/$(dirname "$file")"
    cp "$tree/$file" "$root/lib/modules/$version/$file"
    strip --strip-debug "$root/lib/modules/$version/$file"
done
cp "$tree"/modules.{order,builtin,builtin.modinfo} "$root/lib/modules/$version/"
busybox depmod -b "$root" "$version"

find "$root" -exec touch -h -d '2026-01-01 00:00:00 UTC' {} +
(cd "$root" && find . -print0 | LC_ALL=C sort -z | cpio --null --quiet --reproducible -o -H newc -R 0:0) |
    zstd -q -10 -T2 >"$out/initrd"
