#!/usr/bin/env bash
# What action.yml runs: fetches a release, proves it by the release's SHA256SUMS (and by its provenance, where cosign is there) and puts winimg into PATH.
set -euo pipefail
refuse() {
    printf '::error::%s\n  cure: %s\n' "$1" "$2"
    exit 2
}
: "${REPOSITORY:?}" "${VERSION:?}" "${RUNNER_TEMP:?}" "${GITHUB_PATH:?}" "${GITHUB_OUTPUT:?}"
[[ $VERSION =~ ^v[0-9]+\.[0-9]+\.[0-9]+$ ]] || refuse "$VERSION is no release of winimg" "use the action by a tag such as v0.1.0, or give it 'version'"
case ${RUNNER_OS:-Linux}-${RUNNER_ARCH:-X64} in
    Linux-X64) name=winimg-${VERSION#v}-x86_64-linux file=$name.tar.gz ;;
    Linux-ARM64) name=winimg-${VERSION#v}-aarch64-linux file=$name.tar.gz ;;
    Windows-X64) name=winimg-${VERSION#v}-x86_64-windows file=$name.zip ;;
    *) refuse "no binary of winimg is made for $RUNNER_OS on $RUNNER_ARCH" "take a runner with Linux or Windows" ;;
esac

command -v gh >/dev/null || refuse "there is no gh, by which a release is fetched, of a private repository too" "install GitHub's CLI on the runner; hosted runners have it"
folder=$RUNNER_TEMP/winimg-$VERSION
mkdir -p "$folder"
gh release download "$VERSION" --repo "$REPOSITORY" --dir "$folder" --clobber --pattern "$file" --pattern 'SHA256SUMS*'
grep -qxE "[0-9a-f]{64} [ *]$file" "$folder/SHA256SUMS" || refuse "SHA256SUMS of $VERSION does not list $file" "take another release"
(cd "$folder" && grep -E " [ *]$file\$" SHA256SUMS | sha256sum --quiet --check) || refuse "$file is not the file that SHA256SUMS lists" "do not use it; report it"
if command -v cosign >/dev/null; then
    cosign verify-blob --bundle "$folder/SHA256SUMS.sigstore.json" "$folder/SHA256SUMS" \
        --certificate-oidc-issuer https://token.actions.githubusercontent.com \
        --certificate-identity "https://github.com/$REPOSITORY/.github/workflows/release.yml@refs/tags/$VERSION" ||
        refuse "SHA256SUMS of $VERSION was not signed by $REPOSITORY's release workflow" "do not use it; report it"
else
    echo "cosign is not there: the signature of SHA256SUMS was not judged"
fi
case $file in
    *.zip) (cd "$folder" && unzip -q -o "$file") ;;
    *) tar -C "$folder" -xzf "$folder/$file" ;;
esac
if [ "${HOST_PACKAGES:-false}" = true ]; then
    sudo=$([ "$(id -u)" -eq 0 ] || echo sudo)
    $sudo apt-get update -q
    $sudo env DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends qemu-system-x86 qemu-utils ovmf swtpm swtpm-tools
    # Hosted runners have KVM, and keep its device for root.
    if [ -e "${DEVICE:-/dev/kvm}" ]; then
        "$(dirname "$0")/../tests/prove/ci/kvm.sh"
    else
        echo "::warning::this runner has no KVM: a Windows takes many hours"
    fi
fi
echo "$folder/$name" >>"$GITHUB_PATH"
echo "version=$("$folder/$name/winimg" --version)" >>"$GITHUB_OUTPUT"
