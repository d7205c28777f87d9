#!/bin/bash
# Runs the fuzz targets: fuzz/run.sh SECONDS [TARGET…]
#
# Builds the fuzzer and its seeds, gives each target that many seconds, two at a time, and prints a table. Ends with 1
# when a target crashes, hangs or takes too much memory; the input is kept, and its path is printed. What was found
# interesting stays in target/fuzz/corpus for the next run.
set -euo pipefail

seconds=${1:?how many seconds for each target?}
shift
root=$(cd "$(dirname "$0")/.." && pwd)
cd "$root"
made=$root/target/fuzz
export WINIMG_FUZZ_MADE=$made

# The wrapper's path is part of what cargo knows a build by: the usual ones are not built anew.
RUSTC_WORKSPACE_WRAPPER=$root/fuzz/instrument.sh cargo build --locked --quiet --workspace --bin fuzz
mkdir -p "$made/bin" "$made/crashes" "$made/logs"
cmp -s target/debug/fuzz "$made/bin/fuzz" || cp -f target/debug/fuzz "$made/bin/fuzz"

scratch=$(mktemp -d -p "$([ -w /dev/shm ] && echo /dev/shm || echo "${TMPDIR:-/tmp}")" winimg-fuzz.XXXXXX)
trap 'rm -rf "$scratch"' EXIT
export TMPDIR=$scratch
WINIMG_FUZZ=seeds "$made/bin/fuzz" 2> >(grep -v "^WARNING: Failed to find function" >&2)

# In a short run a host that stalls must not look like a hang.
patience=$((seconds < 60 ? 60 : 10))

mapfile -t known < "$made/targets"
targets=("$@")
[ ${#targets[@]} -gt 0 ] || targets=("${known[@]%% *}")

run() {
    local target=$1 longest corpus=$made/corpus/$1 code=0
    longest=$(awk -v t="$target" '$1 == t { print $2 }' "$made/targets")
    [ -n "$longest" ] || { echo "there is no target $target: ${known[*]%% *}" >&2; return 2; }
    mkdir -p "$corpus" "$made/seeds/$target" "$scratch/$target"
    # Two lives for one that dies at once would hide what kills it: no -jobs, no -fork.
    WINIMG_FUZZ=$target TMPDIR=$scratch/$target "$made/bin/fuzz" "$corpus" "$made/seeds/$target" \
        -max_total_time="$seconds" -max_len="$longest" -timeout="$patience" -rss_limit_mb=1536 -detect_leaks=0 \
        -use_value_profile=1 -print_final_stats=1 -verbosity=1 \
        -artifact_prefix="$made/crashes/$target-" > "$made/logs/$target" 2>&1 || code=$?
    echo "$code" > "$made/logs/$target.code"
    rm -rf "${scratch:?}/$target"
}

for target in "${targets[@]}"; do
    while [ "$(jobs -pr | wc -l)" -ge 2 ]; do wait -n || true; done
    run "$target" &
done
wait || true

failed=0
printf '%-14s %10s %8s %9s %7s  %s\n' target runs runs/s coverage corpus crashes
for target in "${targets[@]}"; do
    log=$made/logs/$target
    stat() { awk -v k="stat::$1:" '$1 == k { print $2 }' "$log"; }
    last() { grep -ao "$1: [0-9]*" "$log" | tail -1 | cut -d' ' -f2 || true; }
    code=$(cat "$log.code" 2> /dev/null || echo '?')
    crashes=none
    if [ "$code" != 0 ]; then
        failed=1
        crashes=$(grep -ao "Test unit written to .*" "$log" | tail -1 | cut -d' ' -f5-)
        crashes=${crashes:-"ended with $code without an input: $log"}
    fi
    printf '%-14s %10s %8s %9s %7s  %s\n' "$target" "$(stat number_of_executed_units)" "$(stat average_exec_per_sec)" \
        "$(last cov)" "$(find "$made/corpus/$target" -type f | wc -l)" "$crashes"
done
if [ $failed != 0 ]; then
    echo
    for target in "${targets[@]}"; do
        [ "$(cat "$made/logs/$target.code" 2> /dev/null)" = 0 ] && continue
        echo "== $target (run it again: WINIMG_FUZZ=$target WINIMG_FUZZ_MADE=$made $made/bin/fuzz FILE)"
        grep -aE "panicked at|out of memory|ERROR: libFuzzer|^(assertion|  left|  right)" -A 1 "$log" "$made/logs/$target" 2> /dev/null | head -8
    done
fi
exit $failed
