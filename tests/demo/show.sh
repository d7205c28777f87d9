#!/usr/bin/env bash
# Names what the demo left.
set -euo pipefail
out=${1:?usage: show.sh OUTPUT-DIRECTORY}
echo
echo "The demo's artifacts, made from the stand-in installer (not Windows):"
for file in demo.raw demo.vhd demo.ova demo.ami/import-image.json manifest.json sbom.cdx.json sbom.spdx.json provenance.intoto.json packer-manifest.json; do
    [ -e "$out/$file" ] || { echo "missing: $out/$file" >&2; exit 1; }
    du -h --apparent-size "$out/$file" | awk -v used="$(du -h "$out/$file" | cut -f1)" '{ printf "  %-40s %8s, %8s on disk\n", $2, $1, used }'
done
