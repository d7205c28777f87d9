#!/usr/bin/env bash
# Fetches media by their names in media.txt (MEDIA names another list): FOLDER/NAME.iso each, whole or not at all.
set -euo pipefail
if [ $# -lt 2 ]; then echo "usage: $0 FOLDER NAME…" >&2; exit 2; fi
list=${MEDIA:-$(dirname "$0")/media.txt}
folder=$1
shift
mkdir -p "$folder"
for name; do
    read -r digest address < <(awk -v name="$name" '$1 == name { print $2, $3 }' "$list") || {
        echo "error: $list has no medium $name" >&2
        exit 1
    }
    file=$folder/$name.iso
    if [ -e "$file" ] && sha256sum --check --status <<< "$digest  $file"; then
        echo "$file is there already"
        continue
    fi
    curl --fail --location --silent --show-error --retry 3 --connect-timeout 30 --max-time 7200 --output "$file.part" "$address"
    if ! sha256sum --check --status <<< "$digest  $file.part"; then
        found=$(sha256sum "$file.part" | cut -d' ' -f1)
        rm "$file.part"
        echo "error: $address is another file" >&2
        echo "  expected: sha256:$digest" >&2
        echo "  found: sha256:$found" >&2
        exit 1
    fi
    mv "$file.part" "$file"
    echo "$file"
done
