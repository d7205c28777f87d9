# One initrd for Setup and for the installed system: the Rust program as init, and the NTFS, FAT and WIM tools.
set -euo pipefail
mkdir -p "$work/initrd"/{modules,bin,dev,proc,sys,tmp,run,boot,etc}
# What Windows has in-box: AHCI, IDE, NVMe, USB storage, CD, UDF.
module_group inbox ata_piix ahci sd_mod sr_mod isofs udf fuse button evdev
module_group nvme nvme
module_group usb xhci_pci usb_storage vfat nls_cp437 nls_ascii nls_iso8859_1
module_group efi efivarfs vfat nls_cp437 nls_ascii nls_iso8859_1
# What it does not: each list is loaded when a driver package for it is.
module_group viostor virtio_pci virtio_blk
module_group vioscsi virtio_pci virtio_scsi
module_group vioser virtio_pci virtio_console
# Network cards: e1000e is in-box, the others come with a driver package too.
module_group e1000e e1000e
module_group netkvm virtio_pci virtio_net
module_group vmxnet3 vmxnet3

install -s -m 755 "$programs/standin-init" "$work/initrd/init"
if [ -n "$table" ]; then
    install -m 644 "$table" "$work/initrd/programs.json"
fi
for tool in ntfs-3g mkntfs ntfsresize ntfsfix mkfs.fat wimlib-imagex; do
    cp "$(readlink -f "$(PATH=$PATH:/usr/sbin:/sbin command -v "$tool")")" "$work/initrd/bin/$tool"
done
# Nothing here needs libstdc++: ICU alone does, which is replaced below.
for program in "$work/initrd/init" "$work"/initrd/bin/*; do
    ldd "$program" | sed -n 's/.*=> \(\/[^ ]*\).*/\1/p; s/^\t\(\/lib64[^ ]*\).*/\1/p'
done | sort -u | grep -v -e libicu -e libstdc++ >"$work/libraries"
while read -r library; do
    install -D -m 755 "$(readlink -f "$library")" "$work/initrd$library"
done <"$work/libraries"

# libxml2 links ICU (36 MB with its data and libstdc++) for encodings that a WIM's XML never has: a library with the
# same name whose functions all fail stands in for it.
libxml=$(grep libxml2 "$work/libraries")
icu=$(ldd "$libxml" | sed -n 's/.*\(libicuuc\.so\.[0-9]*\) =>.*/\1/p')
if [ -n "$icu" ]; then
    nm -D --undefined-only "$libxml" | sed -n 's/.* \([uU][A-Za-z]*_[A-Za-z_]*_[0-9]*\).*/int \1(void) { return 0; }/p' >"$work/icu.c"
    gcc -shared -fPIC -Wl,-soname,"$icu" -o "$work/initrd/lib/x86_64-linux-gnu/$icu" "$work/icu.c"
fi
(
    cd "$work/initrd"
    find . -exec touch -h -d "@$SOURCE_DATE_EPOCH" {} +
    find . | sort | cpio --quiet --reproducible -R 0:0 -o -H newc
) | zstd -q -10 -T2 >"$work/initrd.img"
