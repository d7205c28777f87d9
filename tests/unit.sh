#!/usr/bin/env bash
# "unit.sh CARGO…": the tests of the workspace, as `cargo test --workspace` has them, with two test
# programs at a time: most tests wait for a program, and the last one of each would leave a processor
# idle. Prints what a program said when it has ended.
set -euo pipefail
cd "$(dirname "$0")/.."
root=$PWD
logs=$root/target/unit
rm -rf "$logs"
mkdir -p "$logs"

# The folder that cargo starts each program in, and the program; those with the most tests first.
"$@" test --locked --workspace --no-run --message-format json 2>/dev/null |
    sed -nE 's/.*"manifest_path":"([^"]*)\/Cargo.toml".*"profile":\{[^}]*"test":true.*"executable":"([^"]+)".*/\1 \2/p' >"$logs/programs"
[ -s "$logs/programs" ] || { echo "error: cargo names no test program" >&2; exit 1; }

# A program's log appears whole, and its status is kept beside it.
run() {
    local log=$logs/${2##*/} status=0
    (cd "$1" && CARGO_MANIFEST_DIR=$1 "$2") >"$log.txt" 2>&1 || status=$?
    [ $status -eq 0 ] || touch "$log.failed"
    flock "$logs/programs" sh -c 'echo "     Running $1"; cat "$2"' - "$2" "$log.txt"
}
export logs
export -f run
export RUST_TEST_THREADS=${RUST_TEST_THREADS:-4}
longest=' .*/deps/(winimg|machines)-'
grep -E "$longest" "$logs/programs" >"$logs/order"
grep -vE "$longest" "$logs/programs" >>"$logs/order"
xargs -a "$logs/order" -P 2 -L 1 bash -c 'run "$@"' -

failed=("$logs"/*.failed)
if [ -e "${failed[0]}" ]; then
    for program in "${failed[@]}"; do
        echo
        sed -n '/^failures:$/,$p' "${program%.failed}.txt"
        echo "error: ${program##*/}" >&2
    done
    exit 1
fi
