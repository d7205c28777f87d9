#!/bin/bash
# Compares one winimg export with the chain of programs that gives the same files: qemu-img, openssl for every digest,
# tar. Both run by turns on the same disk in the same run, so the ratios hold for this machine and this moment only.
# winimg also reads every file back, which the chain does not. Columns: seconds of the chain, of winimg, and of what no program can go
# below; processor seconds; winimg's part of the chain's seconds and processor seconds, winimg's seconds by the limit; its peak memory.
#
#   make bench-export            SIZE_GIB=8 DATA_MIB=2048 RUNS=3 PROFILE=release WORK=/var/tmp JOBS=vhd:vhd:chain_vhd
set -euo pipefail
cd "$(dirname "$0")/.."
size=${SIZE_GIB:-8} data=${DATA_MIB:-2048} runs=${RUNS:-3} profile=${PROFILE:-release}
work=$(mktemp -d "${WORK:-/var/tmp}/winimg-bench.XXXXXX")
trap 'rm -rf "$work"' EXIT
out=$work/out
TIMEFORMAT='%R %U %S'

cargo build --quiet --profile "$profile" --example export
winimg=target/$([ "$profile" = dev ] && echo debug || echo "$profile")/examples/export

# 4 MiB pieces spread over the disk: two of five incompressible, the others programs and text.
make_source() {
    local pieces=$((data / 4)) slots=$((size * 256)) i kind
    # Both writers end by SIGPIPE when head has enough.
    { openssl enc -aes-128-ctr -K 00 -iv 00 -nosalt -in /dev/zero 2>/dev/null || true; } |
        head -c $((data / 5 * 2 + 8))M > "$work/dense"
    { tar -cf - /usr/bin /usr/lib /usr/share/doc 2>/dev/null || true; } |
        head -c $((data / 5 * 3 + 8))M > "$work/files"
    truncate -s "${size}G" "$work/raw"
    for ((i = 0; i < pieces; i++)); do
        kind=$([ $((i % 5)) -lt 2 ] && echo dense || echo files)
        dd bs=4M count=1 conv=notrunc skip="$(skip "$kind" "$i")" seek=$((i * slots / pieces)) \
            if="$work/$kind" of="$work/raw" status=none
    done
    rm "$work/dense" "$work/files"
    qemu-img convert -O qcow2 "$work/raw" "$work/sealed.qcow2"
    rm "$work/raw"
}
# Where piece I of its kind begins, in pieces.
skip() {
    case $1 in
    dense) echo $(($2 / 5 * 2 + $2 % 5)) ;;
    files) echo $(($2 / 5 * 3 + $2 % 5 - 2)) ;;
    esac
}

digest() { openssl dgst -sha256 "$@" > /dev/null; }
chain_vhd() {
    qemu-img convert -O vpc -o subformat=fixed,force_size=on "$work/sealed.qcow2" "$out/chain.vhd"
    digest "$out/chain.vhd"
}
chain_ova() {
    qemu-img convert -O vmdk -o subformat=streamOptimized "$work/sealed.qcow2" "$out/chain.vmdk"
    digest "$out/chain.vmdk"
    tar -C "$out" -cf "$out/chain.ova" chain.vmdk
    digest "$out/chain.ova"
}
chain_vhdx() {
    qemu-img convert -O vhdx "$work/sealed.qcow2" "$out/chain.vhdx"
    digest "$out/chain.vhdx"
}
chain_all() {
    qemu-img convert -O raw "$work/sealed.qcow2" "$out/chain.raw"
    digest "$out/chain.raw"
    chain_vhd
    chain_ova
}
chain_more() {
    chain_all
    chain_vhdx
}
ours() { "$winimg" "$work/sealed.qcow2" "$out" "$1" > "$work/said"; }

# Wall and CPU seconds of a command, outputs brought to the disk.
timed() {
    rm -rf "$out"; mkdir "$out"; sync
    { time { "$@"; sync -f "$out"; } 2> "$work/err"; } 2>&1 || { cat "$work/err" >&2; exit 1; }
}
median() { sort -n | awk '{ a[NR] = $1 } END { print a[int((NR + 1) / 2)] }'; }

# What no program can go below: reading what the file holds, one SHA-256 stream over each flat disk and over each file, and all those streams
# on all processors. A raw disk and a fixed VHD share their stream; an OVA is hashed as a whole and, for its manifest, its disk.
rate=$(openssl speed -mr -seconds 2 -bytes 1048576 -evp sha256 2> /dev/null | sed -n 's/^+F:[0-9]*:[^:]*:\([0-9.]*\)$/\1/p')
# Seconds that a job has as its limit, by what winimg said of its files.
limit() {
    awk -v rate="$rate" -v read="$read_s" -v cores="$(nproc)" '
        function stream(bytes) { all += bytes; if (bytes > longest) longest = bytes }
        $1 ~ /\.(raw|vhd)$/ { if (!flat) stream($2); flat = 1; next }
        $1 ~ /\.ova$/ { stream($2); stream($2); next }
        $1 !~ /^VmHWM/ { stream($2) }
        END {
            limit = read
            if (longest / rate > limit) limit = longest / rate
            if (all / rate / cores > limit) limit = all / rate / cores
            print limit
        }' "$work/said"
}
# The most that a job may take: of the usual chain, or of its limit.
goal() {
    case $1 in
    vhd) echo '1.15 limit' ;;
    ova) echo '0.10 chain' ;;
    raw+vhd+ova) echo '0.15 chain' ;;
    raw+vhd+vhdx+ova) echo '0.17 chain' ;;
    *) echo '- -' ;;
    esac
}

make_source
cat "$work/sealed.qcow2" > /dev/null
printf '%s: %s GiB, %s in the file; %s processors, load %s; profile %s, %s runs, medians\n' \
    "$(qemu-img --version | head -1)" "$size" "$(du -h "$work/sealed.qcow2" | cut -f1)" "$(nproc)" \
    "$(cut -d' ' -f1 /proc/loadavg)" "$profile" "$runs"
read_s=$({ time cat "$work/sealed.qcow2" > /dev/null; } 2>&1 | cut -d' ' -f1)
printf 'reading the file %.1f s, one SHA-256 stream over the disk %.1f s\n' "$read_s" "$(awk -v s="$size" -v r="$rate" 'BEGIN { print s * 2 ^ 30 / r }')"
printf '%-18s %9s %9s %9s %9s %9s %7s %7s %7s %7s  %s\n' \
    job 'chain s' 'winimg s' 'limit s' 'chain CPU' 'our CPU' chain CPU limit MiB goal
for job in ${JOBS:-vhd:vhd:chain_vhd vhdx:vhdx:chain_vhdx ova:ova:chain_ova raw+vhd+ova:raw,vhd,ova:chain_all \
    raw+vhd+vhdx+ova:raw,vhd,vhdx,ova:chain_more}; do
    IFS=: read -r name formats chain <<< "$job"
    : > "$work/chain"; : > "$work/ours"
    for ((run = 0; run < runs; run++)); do
        timed "$chain" >> "$work/chain"
        timed ours "$formats" >> "$work/ours"
    done
    cw=$(awk '{ print $1 }' "$work/chain" | median) ow=$(awk '{ print $1 }' "$work/ours" | median)
    cc=$(awk '{ print $2 + $3 }' "$work/chain" | median) oc=$(awk '{ print $2 + $3 }' "$work/ours" | median)
    peak=$(awk '/^VmHWM/ { print $2 / 1024 }' "$work/said")
    read -r most of <<< "$(goal "$name")"
    awk -v n="$name" -v cw="$cw" -v ow="$ow" -v cc="$cc" -v oc="$oc" -v lim="$(limit)" -v peak="$peak" -v most="$most" -v of="$of" 'BEGIN {
        is = of == "chain" ? ow / cw : ow / lim
        goal = most == "-" ? "-" : sprintf("%s of the %s: %s", most, of, is <= most ? "met" : "not met")
        if (peak > 64) goal = goal "; more than 64 MiB"
        printf "%-18s %9.1f %9.1f %9.1f %9.1f %9.1f %7.3f %7.3f %7.2f %7.0f  %s\n", n, cw, ow, lim, cc, oc, ow / cw, oc / cc, ow / lim, peak, goal
    }'
done
