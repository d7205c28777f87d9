# Boot code: the EFI loaders, the El Torito images, GRUB for BIOS.
set -euo pipefail
mkdir -p "$work/boot"

# What the firmware starts is signed, as on Microsoft's media, by the key of Debian's ovmf that is there to be known: OVMF_VARS_4M.snakeoil.fd
# trusts it, and no other firmware does.
snakeoil=/usr/share/ovmf/PkKek-1-snakeoil
openssl pkey -in "$snakeoil.key" -passin pass:snakeoil -out "$work/snakeoil.key"
signed() { # FROM TO
    stopped sbsign --key "$work/snakeoil.key" --cert "$snakeoil.pem" --output "$2" "$1" 2>"$work/sbsign.log" ||
        { cat "$work/sbsign.log" >&2; exit 1; }
}
signed "$vmlinuz" "$work/boot/vmlinuz"

# The kernel's command line. No cursor and no kernel messages: a screen that waits has to look still. The kernel tries its timer for 60 ms of
# the host's clock, before it has a console, and gives up without four ticks: on a busy host an emulated timer is later than that.
quiet="quiet loglevel=0 vt.global_cursor_default=0 consoleblank=0 mitigations=off random.trust_cpu=on no_timer_check panic=0"
[ "$debug" = 0 ] || quiet="$quiet console=tty0 console=ttyS0,115200 standin.debug"

efi_program() { # OUT DEFINE...
    local name=$1
    shift
    gcc -I/usr/include/efi -I/usr/include/efi/x86_64 -DGNU_EFI_USE_MS_ABI "$@" -O2 -fpic -ffreestanding -fshort-wchar \
        -fno-stack-protector -fno-strict-aliasing -fno-tree-loop-distribute-patterns -mno-red-zone -maccumulate-outgoing-args \
        -Wall -Wextra -Werror -c -o "$work/$name.o" "$here/boot/loader.c"
    ld -nostdlib -znocombreloc -shared -Bsymbolic -T /usr/lib/elf_x86_64_efi.lds -o "$work/$name.so" \
        /usr/lib/crt0-efi-x86_64.o "$work/$name.o" -L/usr/lib -lgnuefi
    objcopy -j .text -j .sdata -j .data -j .rodata -j .dynamic -j .dynsym -j .rel -j .rela -j '.rel.*' -j '.rela.*' -j .reloc \
        --target=efi-app-x86_64 "$work/$name.so" "$work/$name"
    signed "$work/$name" "$work/boot/$name"
}
# Wide literals of C: backslashes doubled.
from_cd=('-DCHILD=L"\\boot\\standin\\vmlinuz"' "-DOPTIONS=L\"initrd=\\\\boot\\\\standin\\\\initrd standin=setup $quiet\"")
efi_program cdboot.efi -DPROMPT "${from_cd[@]}"
efi_program cdboot_noprompt.efi "${from_cd[@]}"
efi_program bootmgfw.efi -DOWN_VOLUME '-DCHILD=L"\\EFI\\Microsoft\\Boot\\standin\\vmlinuz"' \
    "-DOPTIONS=L\"initrd=\\\\EFI\\\\Microsoft\\\\Boot\\\\standin\\\\initrd standin=os $quiet\""

cat >"$work/cd.cfg" <<END
search.file /boot/standin/vmlinuz root
linux /boot/standin/vmlinuz standin=setup $quiet
initrd /boot/standin/initrd
boot
END
cat >"$work/disk.cfg" <<END
search.file /bootmgr root
linux /Boot/standin/vmlinuz standin=os $quiet
initrd /Boot/standin/initrd
boot
END
# UDF only: on a Windows medium ISO9660 shows no files.
grub-mkimage -O i386-pc-eltorito -c "$work/cd.cfg" -p / -o "$work/grub.eltorito" biosdisk udf search_fs_file linux boot
grub-mkimage -O i386-pc -c "$work/disk.cfg" -p / -o "$work/boot/core.img" biosdisk part_msdos ntfs search_fs_file linux boot
head -c 440 /usr/lib/grub/i386-pc/boot.img >"$work/boot/boot.img"
# GRUB says "Welcome to GRUB!" and the like; a Windows loader says nothing here.

gcc -c -o "$work/etfsboot.o" "$here/boot/etfsboot.S"
ld -m elf_i386 --oformat binary -Ttext 0x600 -o "$work/etfsboot.bin" "$work/etfsboot.o" 2>/dev/null ||
    { objcopy -O elf32-i386 "$work/etfsboot.o" "$work/etfsboot32.o" &&
        ld -m elf_i386 --oformat binary -Ttext 0x600 -o "$work/etfsboot.bin" "$work/etfsboot32.o"; }
[ "$(stat -c %s "$work/etfsboot.bin")" = 2048 ] || { echo "build.sh: etfsboot is not one sector" >&2; exit 1; }
cat "$work/etfsboot.bin" "$work/grub.eltorito" >"$work/boot/etfsboot.com"

efi_floppy() { # OUT LOADER
    mkfs.fat --invariant -i 57494e49 -C "$work/boot/$1" 1440 >/dev/null
    mmd -i "$work/boot/$1" ::/EFI ::/EFI/BOOT
    mcopy -i "$work/boot/$1" "$work/boot/$2" ::/EFI/BOOT/BOOTX64.EFI
}
efi_floppy efisys.bin cdboot.efi
efi_floppy efisys_noprompt.bin cdboot_noprompt.efi
