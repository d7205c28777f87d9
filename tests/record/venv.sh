#!/usr/bin/env bash
# Makes target/record-venv, once: other people's judges of SBOMs, statements, envelopes, VHDX files and metadata, in pinned versions from PyPI.
set -euo pipefail

root=$(cd "$(dirname "$0")/../.." && pwd)
venv=$root/target/record-venv
mkdir -p "$root/target"
exec 9>"$root/target/record-venv.lock"
flock 9
want=$(cat "$root/tests/record/requirements.txt")
[ "$(cat "$venv/made" 2>/dev/null || true)" != "$want" ] || exit 0
rm -rf "$venv"
python3 -m venv "$venv" || { echo "python3-venv is missing: tests/install-packages.sh installs it" >&2; exit 3; }
"$venv/bin/pip" install -q --disable-pip-version-check -r "$root/tests/record/requirements.txt"
printf '%s\n' "$want" >"$venv/made"
