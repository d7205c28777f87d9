#!/usr/bin/env bash
# "pictures.sh WINIMG DEMO": the pictures of docs/pictures, from pages of real builds: the demo in DEMO, two clones of it, and a
# Setup that stops because its answer file partitions an UEFI machine as one with a BIOS.
set -euo pipefail
winimg=$(realpath "$1") demo=$(realpath "$2")
cd "$(dirname "$0")/../.."
chromium=$(command -v chromium || command -v chromium-browser || command -v google-chrome)
# Its path is seen in a picture.
refused=/tmp/example
mkdir "$refused"
trap 'rm -rf "$refused"' EXIT
mkdir -p docs/pictures

"$winimg" try "$demo" --as vsphere --settle 20s
sed 's/{{#if uefi}}/{{#if bios}}/' unattend/autounattend.xml >"$refused/answer.xml"
status=0
"$winimg" build recipes/demo.toml --output "$refused/out" --set "setup.answer_file=$refused/answer.xml" --set setup.lint=warn || status=$?
[ "$status" = 6 ] || { echo "a Setup that stops ends with 6, not $status" >&2; exit 1; }

NODE_PATH=$PWD/target/pages/npm/node_modules node tests/pages/pictures.js "$chromium" docs/pictures \
    "report-built=$demo/report.html" "report-timeline=$demo/report.html#timeline" "report-failed=$refused/out/report.html" \
    "disk-usage=$demo/report.html#usage" "try=$demo/try/vsphere.html"
