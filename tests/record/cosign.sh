#!/usr/bin/env bash
# Builds cosign from its module, which is in no Debian package. Without Go there is none, and the tests say so.
#
#   cosign.sh VERSION FILE
set -euo pipefail

command -v go >/dev/null || { echo "no Go: cosign is not built" >&2; exit 0; }
mkdir -p "$(dirname "$2")"
work=$(mktemp -d "$(dirname "$2")/.cosign.XXXXXX")
trap 'rm -rf "$work"' EXIT
CGO_ENABLED=0 GOBIN=$work GOFLAGS="${GOFLAGS-} -p=1" nice -n 5 go install -trimpath -ldflags='-s -w' "github.com/sigstore/cosign/v3/cmd/cosign@$1"
mv "$work/cosign" "$2"
