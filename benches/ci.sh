#!/bin/bash
# `.ci/run` on a clean clone of the last commit, as a machine runs it that has compiled nothing: the
# table of its parts goes to the file that is named. Quiet the machine first.
#
#   make bench-ci               WORK=/var/tmp
set -euo pipefail
cd "$(dirname "$0")/.."
table=${1:?usage: ci.sh TABLE}
clone=$(mktemp -d "${WORK:-/var/tmp}/winimg-ci.XXXXXX")
git clone --quiet . "$clone/winimg"
mkdir -p "$(dirname "$table")"
status=0
env -u CARGO_TARGET_DIR CI=true bash "$clone/winimg/.ci/run" </dev/null || status=$?
{
    printf '%s, %s processors, %s\n' "$(git rev-parse --short=12 HEAD)" "$(nproc)" "$(date -u +%F)"
    cat "$clone/winimg/target/test-parts.txt"
} | tee "$table"
if [ $status -ne 0 ]; then
    echo "the clone is kept: $clone" >&2
    exit $status
fi
rm -rf "$clone"
