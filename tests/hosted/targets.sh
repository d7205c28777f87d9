#!/usr/bin/env bash
# "targets.sh": what `make nightly` makes, as JSON for a matrix of jobs: "targets=[…]" in GITHUB_OUTPUT. The Makefile has the only list.
set -euo pipefail
: "${GITHUB_OUTPUT:?}"
cd "$(dirname "$0")/../.."
make --silent --no-print-directory nightly-targets |
    python3 -c 'import json, sys; print("targets=" + json.dumps(sys.stdin.read().split()))' >>"$GITHUB_OUTPUT"
