#!/bin/bash
# Builds the demo three times: from nothing, again with nothing changed, and with another version of its last component.
# Prints the times, and the last two as shares of the first. One run on one machine: the shares hold for it alone.
#
#   make bench-resume            WORK=/var/tmp
set -euo pipefail
cd "$(dirname "$0")/.."
work=$(mktemp -d "${WORK:-/var/tmp}/winimg-resume.XXXXXX")
trap 'rm -rf "$work"' EXIT
export WINIMG_CACHE_DIR=$work/cache

# NAME OPTION...: the wall time in milliseconds goes to $took, what was said to NAME.log.
build() {
    local name=$1 began
    shift
    began=$(date +%s%3N)
    target/debug/winimg build recipes/demo.toml --output "$work/out" "$@" >"$work/$name.log" 2>&1 ||
        { cat "$work/$name.log" >&2; exit 1; }
    took=$(($(date +%s%3N) - began))
}
# A build that started a machine wrote its firmware's first words.
machines() { grep -cE ' (install|boot) …$' "$work/$1.log" || true; }
row() { awk -v n="$1" -v t="$2" -v f="$3" -v m="$4" 'BEGIN { printf "%-38s %8.1f s %8.3f   %s\n", n, t / 1000, t / f, m }'; }

build first
first=$took
build unchanged
unchanged=$took
build changed --var site_agent_version=1.1.0
changed=$took
grep -hE 'resuming from|site agent' "$work/changed.log" | sed 's/^/    /'
printf '%-38s %10s %8s   %s\n' build time share 'installed or booted'
row 'from nothing' "$first" "$first" "$(machines first)"
row 'nothing changed' "$unchanged" "$first" "$(machines unchanged)"
row 'another version of the last component' "$changed" "$first" "$(machines changed)"
