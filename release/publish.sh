#!/usr/bin/env bash
# "publish.sh TAG DIR": a release of GitHub with the files of DIR, made as a draft that is published once every file is there.
set -euo pipefail
tag=${1:?usage: publish.sh TAG DIR}
dist=$(cd "${2:?usage: publish.sh TAG DIR}" && pwd)
cd "$(dirname "$0")/.."
notes=$(mktemp)
trap 'rm -f "$notes"' EXIT
release/notes.sh "$tag" >"$notes"
(cd "$dist" && sha256sum --quiet --check SHA256SUMS)
[ -s "$dist/SHA256SUMS.sigstore.json" ] || { printf 'error: SHA256SUMS is not signed\n  cure: release/sign.sh %s\n' "$dist" >&2; exit 2; }
gh release create "$tag" --draft --verify-tag --title "winimg ${tag#v}" --notes-file "$notes" "$dist"/*
gh release edit "$tag" --draft=false
