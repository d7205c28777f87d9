#!/usr/bin/env bash
# "parts.sh PART…": makes each part of `make test` in turn and ends with a table of their durations,
# also where one of them fails; what comes after that one is not made.
set -uo pipefail
cd "$(dirname "$0")/.."
table=target/test-parts.txt
mkdir -p target
: >"$table"
row() { printf '%-16s %3d:%02d%s\n' "$1" $(($2 / 60)) $(($2 % 60)) "${3:-}" >>"$table"; }

status=0
started=$SECONDS
for part; do
    before=$SECONDS
    "${MAKE:-make}" --no-print-directory "$part" || status=$?
    if [ $status -ne 0 ]; then
        row "$part" $((SECONDS - before)) "  failed"
        break
    fi
    row "$part" $((SECONDS - before))
done
row total $((SECONDS - started))
echo
cat "$table"
exit $status
