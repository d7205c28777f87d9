#!/usr/bin/env bash
# "changed.sh dependencies|windows": says and ends with 0 if the change concerns that check, and ends
# with 1 if it does not. The change is what differs from BASE, which a pipeline sets to the commit
# before the push; without it, from the last commit that is a day older than this one: a night has
# checked that. Where history does not reach so far, everything counts as changed.
set -euo pipefail
cd "$(dirname "$0")/.."
base=${BASE:-}
if [ -z "$base" ] || ! git cat-file -e "$base^{commit}" 2>/dev/null; then
    base=$(git rev-list -1 --before=$(($(git log -1 --format=%ct) - 86400)) HEAD)
fi
list() {
    if [ -n "$base" ]; then git diff --name-only --diff-filter=d "$base"; else git ls-files; fi
}

case ${1:?} in
    dependencies) found=$(list | grep -xE 'Cargo.lock|deny.toml' || true) ;;
    windows)
        found=$(list | grep -E '^(src|crates|tests/sim)/.*\.rs$' |
            xargs -r grep -lE 'cfg\(.*(windows|unix)|windows_sys' || true)
        ;;
    *) echo "usage: $0 dependencies|windows" >&2; exit 2 ;;
esac
if [ -z "$found" ]; then
    echo "$1: nothing of it has changed since ${base:0:12}"
    exit 1
fi
echo "$1: changed since ${base:-the beginning}: $(head -n 3 <<<"$found" | paste -sd ' ')"
