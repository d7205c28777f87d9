#!/usr/bin/env bash
# Makes the boot loaders, all of them GRUB under Windows' names, and the two EFI boot images of the medium.
#   etfsboot.com              BIOS boot image of the CD: prompts only if the hard disk can be booted, as on Windows
#   efisys.bin                EFI boot image of the CD: cdboot.efi asks for a key first
#   efisys_noprompt.bin       the same without the question; the same size
#   bootmgfw.efi              UEFI loader of the installed disk
#   disk-boot.img, disk-core.img   BIOS loader of the installed disk: bytes 0..440 of sector 0, and sectors 1..
set -euo pipefail
out=${1:?usage: loaders.sh OUTPUT-DIRECTORY}
here=$(cd "$(dirname "$0")" && pwd)
mkdir -p "$out"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

common="normal test search search_fs_file search_label linux echo configfile all_video gfxterm_background halt reboot sleep"
cat >"$work/cd-efi.cfg" <<'CFG'
search --file --set=root /boot/standin/vmlinuz
linux /boot/standin/vmlinuz winimg.role=setup quiet loglevel=1 console=tty0
initrd /boot/standin/initrd
boot
CFG
cat >"$work/disk-efi.cfg" <<'CFG'
search --file --set=root /Windows/System32/ntoskrnl.exe
linux /Windows/System32/ntoskrnl.exe winimg.role=os quiet loglevel=1 console=tty0
initrd /Windows/System32/boot.sdi
boot
CFG
cp "$work/disk-efi.cfg" "$work/disk-bios.cfg"
{
    cat <<'CFG'
function start {
    search --file --set=root /boot/standin/vmlinuz
    linux /boot/standin/vmlinuz winimg.role=setup quiet loglevel=1 console=tty0
    initrd /boot/standin/initrd
    boot
}
if search --file --set=disk /bootmgr; then
    echo "Press any key to boot from CD or DVD....."
    set timeout=5
    set timeout_style=hidden
    set default=0
    menuentry fall-through { exit }
CFG
    for key in a b c d e f g h i j k l m n o p q r s t u v w x y z 0 1 2 3 4 5 6 7 8 9 space tab up down left right enter; do
        case $key in
        space | tab | up | down | left | right | enter) continue ;;
        esac
        echo "    menuentry $key --hotkey=$key { start }"
    done
    cat <<'CFG'
else
    start
fi
CFG
} >"$work/cd-bios.cfg"

grub-mkimage -O i386-pc-eltorito -o "$out/etfsboot.com" -p /boot/grub -c "$work/cd-bios.cfg" \
    biosdisk iso9660 part_msdos ntfs fat $(printf '%s ' $common | sed 's/all_video//; s/gfxterm_background//')
grub-mkimage -O x86_64-efi -o "$work/cd.efi" -p /boot/grub -c "$work/cd-efi.cfg" iso9660 fat $common
grub-mkimage -O x86_64-efi -o "$out/bootmgfw.efi" -p /boot/grub -c "$work/disk-efi.cfg" part_gpt ntfs fat $common
grub-mkimage -O i386-pc -o "$out/disk-core.img" -p /boot/grub -c "$work/disk-bios.cfg" \
    biosdisk part_msdos ntfs normal test search search_fs_file linux echo configfile
cp /usr/lib/grub/i386-pc/boot.img "$out/disk-boot.img"

efi=/usr/lib
gcc -I/usr/include/efi -I/usr/include/efi/x86_64 -DGNU_EFI_USE_MS_ABI -fpic -ffreestanding -fno-stack-protector \
    -fno-stack-check -fshort-wchar -mno-red-zone -maccumulate-outgoing-args -Wall -Werror -O2 -c "$here/cdboot.c" -o "$work/cdboot.o"
ld -nostdlib -znocombreloc -T $efi/elf_x86_64_efi.lds -shared -Bsymbolic $efi/crt0-efi-x86_64.o "$work/cdboot.o" \
    -o "$work/cdboot.so" $efi/libefi.a $efi/libgnuefi.a
objcopy -j .text -j .sdata -j .data -j .dynamic -j .dynsym -j .rel -j .rela -j '.rel.*' -j '.rela.*' -j .reloc \
    --target efi-app-x86_64 --subsystem=10 "$work/cdboot.so" "$work/cdboot.efi"

# Both images have 1440 KiB or what the loader needs, in whole MiB: Windows' own two have one size as well.
loader=$(stat -c %s "$work/cd.efi")
size=$(((loader + (1 << 20) + (1 << 20) - 1) >> 20))
image() { # NAME FIRST-PROGRAM
    rm -f "$out/$1"
    mkfs.fat -C -n EFISYS -i 57494e49 "$out/$1" $((size * 1024)) >/dev/null
    mmd -i "$out/$1" ::/EFI ::/EFI/BOOT ::/EFI/MICROSOFT ::/EFI/MICROSOFT/BOOT
    mcopy -i "$out/$1" "$2" ::/EFI/BOOT/BOOTX64.EFI
    mcopy -i "$out/$1" "$work/cd.efi" ::/EFI/MICROSOFT/BOOT/LOADER.EFI
}
find "$work" -exec touch -d '2026-01-01 00:00:00 UTC' {} +
size=$((size + (loader >> 20) + 1))
image efisys.bin "$work/cdboot.efi"
image efisys_noprompt.bin "$work/cd.efi"
