#!/usr/bin/env bash
# "here.sh DIR": what of a release needs no GitHub, into DIR: binaries (TARGETS names some of them), archives, packages and records, a signature with COSIGN_KEY,
# the demo by the static binary, the package on a bare Debian, and the container image. A script that ends with 3 lacks a program or the network: that
# part is left out, named at the end, and the others go on. Ends with 0 if whatever was tried went well, with 3 if nothing could be tried for want of
# the binary for x86_64-linux.
set -uo pipefail
: "${1:?usage: here.sh DIR}"
mkdir -p "$1"
dist=$(cd "$1" && pwd)
cd "$(dirname "$0")/.." || exit
read -r -a targets <<<"${TARGETS:-x86_64-linux aarch64-linux x86_64-windows}"
left=() failed=()

# part NAME COMMAND...: whether it went well.
part() {
    local name=$1 status=0
    shift
    echo "== $name"
    "$@" || status=$?
    case $status in
        0) return ;;
        3) left+=("$name") ;;
        *) failed+=("$name, with status $status") ;;
    esac
    return 1
}

demo() {
    tests/install-packages.sh || return 3
    make demo WINIMG=target/release-bin/winimg-x86_64-linux
}

# Without a registry it stands on a Debian that is made here.
image() {
    local engine=${ENGINE:-} base=${BASE:-docker.io/library/debian:bookworm-slim}
    if [ -z "$engine" ]; then
        engine=$(command -v buildah || command -v docker) || { echo "error: there is neither buildah nor docker" >&2; return 3; }
        engine=${engine##*/}
    fi
    if [ -z "${BASE:-}" ] && ! timeout 300 "$engine" pull "$base"; then
        echo "$base is not reached: a Debian of its own is made"
        base=$(release/base.sh "$engine") || return
    fi
    ENGINE=$engine BASE=$base release/image.sh build "$dist" || return 1
}

# finish STATUS: that of a run in which nothing failed.
finish() {
    local name
    for name in "${left[@]}"; do echo "left out: $name"; done
    for name in "${failed[@]}"; do echo "failed: $name"; done
    [ ${#failed[@]} = 0 ] || exit 1
    exit "$1"
}

# What is not built now is not that of another day.
rm -rf target/release-bin
for target in "${targets[@]}"; do part "the binary for $target" release/build.sh "$target"; done
# It prints its own manual and completions into every package.
if [ ! -x target/release-bin/winimg-x86_64-linux ]; then
    left+=("everything that is made with the binary for x86_64-linux")
    finish 3
fi
part "archives and packages" release/pack.sh "$dist" || finish 1
if part "records" release/record.sh "$dist"; then
    if [ "${COSIGN_KEY:-}" ]; then
        part "signatures" release/sign.sh "$dist"
    else
        left+=("signatures: COSIGN_KEY names no key")
    fi
fi
with=()
if part "the demo by the static binary" demo; then with=(--demo); fi
part "the package on a bare Debian" release/bare.sh "$dist" "${with[@]}"
part "the container image" image
finish 0
