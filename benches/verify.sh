#!/bin/bash
# Judges a sparse image with Windows on NTFS by a list of checks: files by their digests, values of the registry, files that have to be
# there or not. Prints, of one run on this machine: the seconds without digests, and those that digests add beside what
# `openssl dgst` takes for as many bytes on all processors. One of the files holds zeros alone, of which the image has nothing.
#
#   make bench-verify            SIZE_GIB=20 DATA_MIB=4096 CHECKS=10000 RUNS=3 PROFILE=release WORK=/var/tmp
#
# Needs root and /dev/fuse: ntfs-3g writes the image.
set -euo pipefail
cd "$(dirname "$0")/.."
size=${SIZE_GIB:-20} data=${DATA_MIB:-4096} checks=${CHECKS:-10000} runs=${RUNS:-3} profile=${PROFILE:-release}
work=$(mktemp -d "${WORK:-/var/tmp}/winimg-bench.XXXXXX")
trap 'rm -rf "$work"' EXIT
image=$work/image.raw

cargo build --quiet --profile "$profile" --example verify
winimg=target/$([ "$profile" = dev ] && echo debug || echo "$profile")/examples/verify

"$winimg" make "$image" "$size" "$data" "$checks"
fallocate --dig-holes "$image"
# What openssl hashes: the same number of bytes, one part for each processor.
cores=$(nproc)
bytes=$(awk -F '\t' '{ all += $2 } END { printf "%.0f", all }' "$work/image.list")
for ((n = 0; n < cores; n++)); do
    openssl enc -aes-128-ctr -K 00 -iv "0$n" -nosalt -in /dev/zero 2> /dev/null | head -c $((bytes / cores)) > "$work/part.$n" || true
done
sync

median() { sort -n | awk '{ a[NR] = $1 } END { print a[int((NR + 1) / 2)] }'; }
TIMEFORMAT=%R
judged() { "$winimg" judge "$image" "$1" > "$work/said"; sed -n 's/^seconds: //p' "$work/said"; }
hashed() {
    { time {
        for ((n = 0; n < cores; n++)); do openssl dgst -sha256 "$work/part.$n" > /dev/null & done
        wait
    }; } 2>&1
}

cat "$work"/part.* > /dev/null
printf '%s GiB, %s in the file; %s checks, %s MiB of files; %s processors, load %s; profile %s, %s runs, medians\n' \
    "$size" "$(du -h "$image" | cut -f1)" "$checks" "$((bytes >> 20))" "$cores" "$(cut -d' ' -f1 /proc/loadavg)" "$profile" "$runs"
judged all > /dev/null
: > "$work/facts"; : > "$work/all"; : > "$work/openssl"
for ((run = 0; run < runs; run++)); do
    judged facts >> "$work/facts"
    judged all >> "$work/all"
    hashed >> "$work/openssl"
done
awk -v facts="$(median < "$work/facts")" -v all="$(median < "$work/all")" -v openssl="$(median < "$work/openssl")" 'BEGIN {
    printf "registry and files %.2f s\n", facts
    printf "digests %.2f s, openssl on all processors %.2f s: %.3f of it\n", all - facts, openssl, (all - facts) / openssl
}'
sed -n 's/^VmHWM:/peak memory:/p' "$work/said"
