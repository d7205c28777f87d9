#!/usr/bin/env bash
# "record.sh DIR": beside what pack.sh packed there: the SBOM of the program (CycloneDX, by cargo-cyclonedx), SHA256SUMS and the provenance. Ends with 3 where
# cargo-cyclonedx cannot be had.
set -euo pipefail
dist=$(cd "${1:?usage: record.sh DIR}" && pwd)
cd "$(dirname "$0")/.."
cyclonedx=0.5.9
tools=$PWD/target/tools
version=$(release/version.sh)
SOURCE_DATE_EPOCH=$(release/version.sh epoch)
export SOURCE_DATE_EPOCH LC_ALL=C

if [ "$(cat "$tools/cyclonedx" 2>/dev/null)" != "$cyclonedx" ]; then
    cargo install cargo-cyclonedx --version "$cyclonedx" --locked --debug --root "$tools" --target-dir "$tools/build" ||
        { printf 'error: cargo cannot install cargo-cyclonedx %s\n  cure: try again where crates.io is reached\n' "$cyclonedx" >&2; exit 3; }
    rm -rf "$tools/build"
    echo "$cyclonedx" >"$tools/cyclonedx"
fi
# It writes a file beside each Cargo.toml of the workspace; the tool's is taken.
name=sbom-of-$$
trap 'find . -name "$name.json" -not -path "./target/*" -delete' EXIT
"$tools/bin/cargo-cyclonedx" cyclonedx --quiet --format json --spec-version 1.5 --target all --no-build-deps --override-filename "$name"
cp "$name.json" "$dist/winimg-$version.cdx.json"

cd "$dist"
rm -f ./*.sigstore.json ./*.intoto.json
find . -type f ! -name SHA256SUMS -printf '%P\n' | sort | xargs sha256sum >SHA256SUMS
cd "$OLDPWD"
release/provenance.py "$dist/SHA256SUMS" >"$dist/winimg-$version.intoto.json"
ls -l "$dist"
