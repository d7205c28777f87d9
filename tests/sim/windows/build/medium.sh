# install.wim, and the medium: UDF holds everything, ISO9660 shows a README, as on Microsoft's media. Of one release and
# channel; $iso is its file below $out.
set -euo pipefail
images=$work/images
wim=$work/medium/sources/install.wim
rm -rf "$images" "$work/medium"
mkdir -p "$images" "$work/medium"/{boot/standin,efi/boot,efi/microsoft/boot,sources,support}
suffix= eval_word= datacenter=DataCenter
if [ "$retail" = 0 ]; then
    suffix=Eval eval_word=" Evaluation" datacenter=Datacenter
fi

add_image() { # VERB NAME EDITION TITLE INSTALLATIONTYPE FLAGS
    local verb=$1 name="Windows Server $year $2" edition=$3$suffix title="Windows Server $year $4" kind=$5 flags=$6
    local root=$images/$2
    "$programs/standin-image" "$root" --product "Windows Server $year ${3#Server}$eval_word" --edition "$edition" --kind "$kind" \
        --build "$build" --revision "$revision" --release "$release"
    find "$root" -exec touch -h -d "@$SOURCE_DATE_EPOCH" {} +
    local properties=(
        DISPLAYNAME="$title" DISPLAYDESCRIPTION="$title" FLAGS="$flags"
        CREATIONTIME/HIGHPART=0x01D79A00 CREATIONTIME/LOWPART=0x00000000
        LASTMODIFICATIONTIME/HIGHPART=0x01D79A00 LASTMODIFICATIONTIME/LOWPART=0x00000000
        WINDOWS/ARCH=9 WINDOWS/PRODUCTNAME="Microsoft Windows Operating System" WINDOWS/EDITIONID="$edition"
        WINDOWS/INSTALLATIONTYPE="$kind" WINDOWS/PRODUCTTYPE=ServerNT WINDOWS/PRODUCTSUITE=Enterprise
        WINDOWS/LANGUAGES/LANGUAGE=en-US WINDOWS/LANGUAGES/DEFAULT=en-US
        WINDOWS/VERSION/MAJOR=10 WINDOWS/VERSION/MINOR=0 WINDOWS/VERSION/BUILD="$build"
        WINDOWS/VERSION/SPBUILD="$revision" WINDOWS/VERSION/SPLEVEL=0 WINDOWS/SYSTEMROOT=WINDOWS
    )
    local arguments=() property
    for property in "${properties[@]}"; do
        arguments+=(--image-property "$property")
    done
    if [ "$verb" = capture ]; then
        arguments+=(--compress=LZX)
    fi
    stopped wimlib-imagex "$verb" "$root" "$wim" "$name" "$name" --no-acls --threads=2 "${arguments[@]}" >/dev/null
}
add_image capture SERVERSTANDARDCORE ServerStandard "Standard$eval_word" "Server Core" "ServerStandard${suffix}Core"
add_image append SERVERSTANDARD ServerStandard "Standard$eval_word (Desktop Experience)" Server "ServerStandard$suffix"
add_image append SERVERDATACENTERCORE ServerDatacenter "Datacenter$eval_word" "Server Core" "Server$datacenter${suffix}Core"
add_image append SERVERDATACENTER ServerDatacenter "Datacenter$eval_word (Desktop Experience)" Server "Server$datacenter$suffix"
# The WIM's GUID is random; it names nothing here.
printf 'winimg-stand-in!' | dd of="$wim" bs=1 seek=24 conv=notrunc status=none

medium=$work/medium
cp "$work/boot/vmlinuz" "$medium/boot/standin/vmlinuz"
cp "$work/initrd.img" "$medium/boot/standin/initrd"
cp "$work/boot/etfsboot.com" "$work/boot/core.img" "$work/boot/boot.img" "$medium/boot/"
cp "$work/boot/bootmgfw.efi" "$medium/efi/boot/bootx64.efi"
cp "$work/boot"/{efisys.bin,efisys_noprompt.bin,cdboot.efi,cdboot_noprompt.efi} "$medium/efi/microsoft/boot/"
printf 'winimg stand-in (not Windows)\r\n' | tee "$medium/boot/bootfix.bin" "$medium/bootmgr" "$medium/bootmgr.efi" \
    "$medium/setup.exe" "$medium/sources/boot.wim" >/dev/null
printf '[AutoRun.Amd64]\r\nopen=setup.exe\r\n' >"$medium/autorun.inf"
channel=Retail vl=1
[ "$retail" = 1 ] || channel=eval vl=0
printf '[EditionID]\r\n\r\n[Channel]\r\n%s\r\n\r\n[VL]\r\n%s\r\n' "$channel" "$vl" >"$medium/sources/EI.CFG"
printf '[Available UI Languages]\r\nen-US = 3\r\n\r\n[Fallback Languages]\r\nen-US = en-us\r\n' >"$medium/sources/lang.ini"
printf 'This disc contains a "UDF" file system and requires an operating system\r\nthat supports the ISO-13346 "UDF" file system specification.\r\n\r\nwinimg stand-in (not Windows)\r\n' \
    >"$medium/README.TXT"
# Whatever else a real medium has.
while IFS=: read -r folder files; do
    mkdir -p "$medium/$folder"
    for file in $files; do
        [ -e "$medium/$folder/$file" ] || printf 'winimg stand-in (not Windows)\r\n' >"$medium/$folder/$file"
    done
done < <(grep -v '^#' "$repo/tests/real/windows-medium.txt")
find "$medium" -exec touch -h -d "@$SOURCE_DATE_EPOCH" {} +

label=SSS_X64FREE_EN-US_DV9
[ "$retail" = 1 ] || label=SSS_X64FREE_EN-US_DV9_EVAL
(
    cd "$medium"
    stopped genisoimage -quiet -udf -allow-limited-size -V "$label" -sysid '' -publisher 'winimg stand-in (not Windows)' -preparer '' \
        -hide boot -hide efi -hide sources -hide support -hide setup.exe -hide autorun.inf -hide bootmgr -hide bootmgr.efi \
        -b boot/etfsboot.com -no-emul-boot -boot-load-size 4 -boot-info-table -c boot/boot.cat \
        -eltorito-alt-boot -e efi/microsoft/boot/efisys.bin -no-emul-boot -boot-load-size 1 \
        -o "$work/standin.iso" .
) 2>"$work/genisoimage.log" || { cat "$work/genisoimage.log" >&2; exit 1; }
mv "$work/standin.iso" "$out/$iso"
