#!/usr/bin/env bash
# "sign.sh DIR": signs SHA256SUMS, and the provenance for each file, by cosign: as the workflow that runs it, or with COSIGN_KEY (and COSIGN_PASSWORD),
# which also leaves Sigstore's log alone. Each bundle lies beside what it signs.
set -euo pipefail
dist=$(cd "${1:?usage: sign.sh DIR}" && pwd)
cd "$(dirname "$0")/.."
cosign=${COSIGN:-$PWD/target/tools/bin/cosign}
[ -x "$cosign" ] || make "$cosign"
[ -x "$cosign" ] || { printf 'error: there is no cosign\n  cure: install Go, which builds it\n' >&2; exit 3; }
version=$(release/version.sh)
(cd "$dist" && sha256sum --quiet --check SHA256SUMS)

how=(--yes)
if [ "${COSIGN_KEY:-}" ]; then
    how+=(--key "$COSIGN_KEY" --tlog-upload=false --use-signing-config=false)
fi
"$cosign" sign-blob "${how[@]}" --bundle "$dist/SHA256SUMS.sigstore.json" "$dist/SHA256SUMS" >/dev/null
"$cosign" attest-blob "${how[@]}" --statement "$dist/winimg-$version.intoto.json" --bundle "$dist/winimg-$version.intoto.sigstore.json" >/dev/null
