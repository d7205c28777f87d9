#!/usr/bin/env bash
# Makes target/tools/openstack, once: Keystone and Glance from PyPI in a venv, and what a cloud of theirs starts from.
set -euo pipefail

root=$(cd "$(dirname "$0")/../.." && pwd)
here=$root/tests/openstack
made=$root/target/tools/openstack
mkdir -p "$made"
exec 9>"$made.lock"
flock 9

# is_made FOLDER FILE…: by these files as they are.
is_made() {
    [ -e "$1/made-by" ] && [ "$(cat "${@:2}" | sha256sum)" = "$(cat "$1/made-by")" ]
}

if ! is_made "$made/venv" "$here/requirements.txt"; then
    rm -rf "$made/venv" "$made/cloud"
    python3 -m venv "$made/venv" || { echo "python3-venv is missing: tests/install-packages.sh installs it" >&2; exit 3; }
    "$made/venv/bin/pip" install -q --disable-pip-version-check --require-hashes -r "$here/requirements.txt"
    sha256sum <"$here/requirements.txt" >"$made/venv/made-by"
fi
if ! is_made "$made/cloud" "$here/cloud.py"; then
    rm -rf "$made/cloud"
    "$made/venv/bin/python" "$here/cloud.py" make "$made/cloud"
    sha256sum <"$here/cloud.py" >"$made/cloud/made-by"
fi
