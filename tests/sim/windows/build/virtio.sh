# virtio-win.iso: the folders and file names of the real driver ISO (tests/real/virtio-win.txt), with drivers that only the stand-in
# takes for drivers, catalogs of them that the demo's authority signs, and a guest agent package that is a real MSI. An INF names what the
# real one names (tests/real/virtio-win-infs.txt); its catalog lists that and the INF, nothing else.
set -euo pipefail
drivers=$work/virtio-win
mkdir -p "$drivers"/{guest-agent,data}
ca=$out/components/ca
"$repo/tests/demo/authority.sh" "$ca"

# No signature is timestamped: a timestamp's serial number is another one each time.
catalog() { # TO FILES...
    python3 "$repo/crates/trust/tests/catalog.py" "$work/unsigned.cat" "${@:2}"
    rm -f "$1"
    osslsigncode sign -h sha256 -certs "$ca/signer.pem" -key "$ca/signer.key" -st 1767225600 -in "$work/unsigned.cat" -out "$1" \
        >"$work/sign.log" 2>&1 || { cat "$work/sign.log" >&2; exit 1; }
}

named() { # FOLDER INF: the catalog and the files that the real INF names
    sed -n "s,^$1/$2.inf: ,,p" "$repo/tests/real/virtio-win-infs.txt"
}

driver() { # FOLDER INF SERVICE CLASS CLASSGUID START DEVICES...
    local folder=$1 name=$2 service=$3 class=$4 guid=$5 start=$6 os least dir file names files
    shift 6
    read -ra names <<<"$(named "$folder" "$name")"
    [ ${#names[@]} -gt 1 ] || { echo "virtio.sh: what does $folder/$name.inf name?" >&2; exit 1; }
    for os in 2k19:17763 2k22:20348 2k25:26100; do
        least=${os#*:}
        dir=$drivers/$folder/${os%:*}/amd64
        mkdir -p "$dir"
        {
            printf '; winimg stand-in (not a driver of Windows)\n[Version]\nSignature="$WINDOWS NT$"\nClass=%s\nClassGUID=%s\n' "$class" "$guid"
            printf 'Provider=%%VENDOR%%\nDriverVer=07/02/2025,100.%s.104.28500\nCatalogFile=%s\nPnpLockdown=1\n\n' "${os#2k}" "${names[0]}" | sed 's/100\.\([0-9]*\):[0-9]*/100.\1/'
            printf '[DestinationDirs]\n%s_Files=13\n\n[SourceDisksNames]\n1=%%DISK%%,,,\n\n[SourceDisksFiles]\n' "$service"
            printf '%s=1,,\n' "${names[@]:1}"
            printf '\n'
            printf '[Manufacturer]\n%%VENDOR%%=Models,NTamd64.10.0...%s\n\n[Models.NTamd64.10.0...%s]\n' "$least" "$least"
            for device in "$@"; do
                printf '%%DEVICE%%=%s_Install,PCI\\VEN_1AF4&DEV_%s\n' "$service" "$device"
            done
            printf '\n[%s_Install.NT]\nCopyFiles=%s_Files\n\n[%s_Files]\n' "$service" "$service" "$service"
            printf '%s\n' "${names[@]:1}"
            printf '\n'
            printf '[%s_Install.NT.Services]\nAddService=%s,0x00000002,%s_Service\n\n' "$service" "$service" "$service"
            printf '[%s_Service]\nDisplayName=%%DEVICE%%\nServiceType=1\nStartType=%s\nErrorControl=1\nServiceBinary=%%13%%\\%s\n\n' "$service" "$start" "${names[1]}"
            printf '[Strings]\nVENDOR="winimg stand-in"\nDISK="winimg stand-in driver disk"\nDEVICE="winimg stand-in %s"\n' "$folder"
        } | sed 's/$/\r/' >"$dir/$name.inf"
        for file in "${names[@]:1}"; do
            python3 "$repo/tests/demo/program.py" "$dir/$file" "=winimg stand-in driver: $file $least"$'\n'
        done
        files=("${names[@]:1}")
        catalog "$dir/$name.cat" "$dir/$name.inf" "${files[@]/#/$dir/}"
    done
}
driver viostor viostor viostor SCSIAdapter '{4D36E97B-E325-11CE-BFC1-08002BE10318}' 0 1001 1042
driver vioscsi vioscsi vioscsi SCSIAdapter '{4D36E97B-E325-11CE-BFC1-08002BE10318}' 0 1004 1048
driver NetKVM netkvm netkvm Net '{4D36E972-E325-11CE-BFC1-08002BE10318}' 3 1000 1041
driver vioserial vioser VirtioSerial System '{4D36E97D-E325-11CE-BFC1-08002BE10318}' 3 1003 1043
driver Balloon balloon BALLOON System '{4D36E97D-E325-11CE-BFC1-08002BE10318}' 3 1002 1045
driver viorng viorng viorng System '{4D36E97D-E325-11CE-BFC1-08002BE10318}' 3 1005 1044
for os in 2k19 2k22 2k25; do
    for folder in viostor vioscsi; do
        mkdir -p "$drivers/amd64/$os"
        cp "$drivers/$folder/$os/amd64"/* "$drivers/amd64/$os/"
    done
done

# The program: any MZ file can run as a service of the stand-in; the service's name makes it the agent.
printf 'MZ winimg stand-in agent\r\n' >"$work/qemu-ga.exe"
touch -d "@$SOURCE_DATE_EPOCH" "$work/qemu-ga.exe"
(cd "$work" && stopped wixl -a x64 -o "$drivers/guest-agent/qemu-ga-x86_64.msi" "$here/boot/qemu-ga.wxs")
# wixl makes the package code up; a random one would change the medium's digest.
code=$(msiinfo suminfo "$drivers/guest-agent/qemu-ga-x86_64.msi" | sed -n 's/^Revision number (UUID): //p')
sed -i "s/$code/{0F7D3C5B-3D53-4A0E-9E5C-6D1F00A7A102}/" "$drivers/guest-agent/qemu-ga-x86_64.msi"
# Whatever else the real medium has, as files that say what they are: tools and symbols beside the drivers, other releases.
while IFS=: read -r folder files; do
    mkdir -p "$drivers/$folder"
    for file in $files; do
        [ -e "$drivers/$folder/$file" ] || printf 'winimg stand-in: %s/%s\r\n' "$folder" "$file" >"$drivers/$folder/$file"
    done
done < <(grep -v '^#' "$repo/tests/real/virtio-win.txt")
find "$drivers" -exec touch -h -d "@$SOURCE_DATE_EPOCH" {} +
(
    cd "$drivers"
    stopped genisoimage -quiet -J -joliet-long -R -V virtio-win-0.1.302 -publisher 'winimg stand-in (not the virtio-win drivers)' \
        -o "$work/virtio-win.iso" .
)
mv "$work/virtio-win.iso" "$out/virtio-win.iso"
