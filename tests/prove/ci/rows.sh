#!/usr/bin/env bash
# "rows.sh [ROWS]": the jobs of real-windows.yml, one for a release and a row each, as JSON for a matrix: "jobs=[…]" in GITHUB_OUTPUT. ROWS are words as `prove
# --rows` takes them (docs/prove.md); without any, the jobs of each night.
set -euo pipefail
: "${GITHUB_OUTPUT:?}"
wanted=${1:-}
releases=(2019 2022 2025)
own=(uefi-virtio uefi-nvme uefi-ahci bios-virtio bios-nvme bios-ahci uefi-virtio-trusted)
# Of the shipped recipes, which are for one release: those that differ most.
shipped=(capi-openstack capi-ova wmco-byoh)
shipped_for=2022

jobs=()
add() { jobs+=("{\"release\":\"$1\",\"row\":\"$2\"}"); }
# A row of each release: the word itself, or those whose names hold it.
add_own() {
    local row release found=1
    for row in "${own[@]}"; do
        if [ "$row" = "$1" ] || { [[ " ${own[*]} " != *" $1 "* ]] && [[ $row == *"$1"* ]]; }; then
            found=0
            for release in "${releases[@]}"; do add "$release" "$row"; done
        fi
    done
    return $found
}

if [ -z "$wanted" ]; then
    for row in "${own[@]}"; do add_own "$row"; done
    for row in "${shipped[@]}"; do add "$shipped_for" "$row"; done
else
    IFS=', ' read -r -a words <<<"$wanted"
    for word in "${words[@]}"; do
        [[ $word =~ ^[a-z0-9-]+$ ]] || {
            echo "error: $word is no row, nor a part of one's name" >&2
            echo "  cure: words of small letters, digits and hyphens, such as uefi-virtio,capi-ova" >&2
            exit 2
        }
        # Any other word is for `prove` to judge, among the shipped recipes.
        add_own "$word" || add "$shipped_for" "$word"
    done
fi
# Two words may name one row.
mapfile -t jobs < <(printf '%s\n' "${jobs[@]}" | awk '!seen[$0]++')
(IFS=,; echo "jobs=[${jobs[*]}]") >>"$GITHUB_OUTPUT"
