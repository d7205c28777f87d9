#!/usr/bin/env bash
# Puts Azurite, Azure Storage's emulator, into target/azurite, once: as npm's lock beside this has it. Of that, what `npm ci` does
# not read is left out: jq 'del(.packages[] | .license, .engines, .funding, .deprecated, .bin)'.
set -euo pipefail

root=$(cd "$(dirname "$0")/../../.." && pwd)
here=$root/tests/publish/azurite
there=$root/target/azurite
mkdir -p "$there"
exec 9>"$there/lock"
flock 9
cmp -s "$here/package-lock.json" "$there/made" && exit 0
cp "$here/package.json" "$here/package-lock.json" "$there/"
npm ci --prefix "$there" --ignore-scripts --no-audit --no-fund --loglevel error >&2
cp "$here/package-lock.json" "$there/made"
