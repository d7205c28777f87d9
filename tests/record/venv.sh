#!/usr/bin/env bash
# Makes target/record-venv, once: other people's judges of SBOMs, statements and envelopes, in pinned versions from PyPI.
set -euo pipefail

packages=(
    'cyclonedx-python-lib[json-validation]==11.12.0'
    'in-toto-attestation==0.9.3'
    'packageurl-python==0.17.6'
    'securesystemslib[crypto]==1.6.0'
    'spdx-tools==0.8.5'
)

root=$(cd "$(dirname "$0")/../.." && pwd)
venv=$root/target/record-venv
mkdir -p "$root/target"
exec 9>"$root/target/record-venv.lock"
flock 9
want=$(printf '%s\n' "${packages[@]}")
[ "$(cat "$venv/made" 2>/dev/null || true)" != "$want" ] || exit 0
rm -rf "$venv"
python3 -m venv "$venv" || { echo "python3-venv is missing: tests/install-packages.sh installs it" >&2; exit 3; }
"$venv/bin/pip" install -q --disable-pip-version-check "${packages[@]}"
printf '%s\n' "$want" >"$venv/made"
