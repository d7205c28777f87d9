#!/usr/bin/env bash
# Assembles the medium as a Windows DVD is made: install.wim and setup.exe stand in the UDF tree only, ISO9660 shows
# little, the El Torito catalog has a BIOS and an EFI entry, and the EFI entry prompts.
#   iso.sh TREE LOADERS SYSTEM OUTPUT LABEL
# TREE holds sources/ and what else the medium has; LOADERS is loaders.sh's output, SYSTEM is system.sh's.
set -euo pipefail
tree=${1:?} loaders=${2:?} system=${3:?} output=${4:?} label=${5:?}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$work/boot/standin" "$work/efi/microsoft/boot" "$work/efi/boot"
cp -a "$tree/." "$work/"
cp "$loaders/etfsboot.com" "$work/boot/etfsboot.com"
printf 'press any key\n' >"$work/boot/bootfix.bin"
cp "$loaders/efisys.bin" "$loaders/efisys_noprompt.bin" "$work/efi/microsoft/boot/"
cp "$loaders/bootmgfw.efi" "$work/efi/boot/bootx64.efi"
cp "$system/vmlinuz" "$system/initrd" "$work/boot/standin/"
printf 'This disc is a stand-in for a Windows installer. It is not Windows.\r\n' >"$work/README.TXT"
find "$work" -exec touch -h -d '2026-01-01 00:00:00 UTC' {} +
(cd "$work" && genisoimage -quiet -V "$label" -udf -allow-limited-size -allow-lowercase -l -no-bak \
    -hide sources -hide install.wim -hide setup.exe \
    -b boot/etfsboot.com -no-emul-boot -boot-load-size 4 -boot-info-table \
    -eltorito-alt-boot -e efi/microsoft/boot/efisys.bin -no-emul-boot \
    -o "$output" .)
