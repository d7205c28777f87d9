#!/usr/bin/env bash
# Formats, lints and tests the crates whose files differ from the main branch (BASE names another), or are not committed.
# What starts builds and machines is left to `make test`.
set -euo pipefail
cd "$(dirname "$0")/.."
cargo=${CARGO:-cargo}
quick=(evidence:: export_record:: house:: media_answer:: packs:: parity:: release:: release_profile:: shipped:: upgrade::)

base=${BASE:-$(git rev-parse --verify --quiet --abbrev-ref main || echo origin/main)}
declare -A changed=()
add() { for package in "$@"; do changed[$package]=1; done; }
while IFS= read -r path; do
    case $path in
        crates/*)
            crate=${path#crates/} crate=${crate%%/*}
            # A crate that was removed has no tests.
            if [ -d "crates/$crate" ]; then add "winimg-$crate"; fi ;;
        fuzz/*) add winimg-fuzz ;;
        tests/prove/* | docs/*) add winimg winimg-prove ;;
        tests/sim/hyperv/*) add fake-hyperv ;;
        tests/sim/qemu/*) add fake-qemu ;;
        tests/sim/scripted/*) add winimg-scripted ;;
        tests/sim/windows/*) add winimg-standin ;;
        tests/support/* | Cargo.toml | Cargo.lock)
            add winimg winimg-test-support
            for crate in crates/*/; do add "winimg-$(basename "$crate")"; done ;;
        .github/* | action.yml | release/*) add winimg ;;
        .* | Makefile | nightly.mk | LICENSE | CHANGELOG.md | benches/* | deny.toml) ;;
        *) add winimg ;;
    esac
done < <(git diff --name-only "$(git merge-base HEAD "$base")"; git ls-files --others --exclude-standard)

"$cargo" fmt --all --check
if [ ${#changed[@]} = 0 ]; then
    echo "no crate differs from $base"
    exit
fi
packages=("${!changed[@]}")
echo "changed since $base: ${packages[*]}"
export CLIPPY_ARGS=--cap-lints=warn RUSTC_WORKSPACE_WRAPPER=${CLIPPY_DRIVER:-$(rustup which clippy-driver)}
"$cargo" build --locked "${packages[@]/#/--package=}" --bins --tests --examples
"$cargo" build --locked "${packages[@]/#/--package=}" --bins --tests --examples --message-format short 2>&1 |
    tests/warnings.sh
if [ "${changed[winimg]:-}" ]; then
    unset 'changed[winimg]'
    packages=("${!changed[@]}")
    "$cargo" test --locked --package winimg --lib
    "$cargo" test --locked --package winimg --test winimg --test machines -- "${quick[@]}"
fi
if [ ${#packages[@]} != 0 ]; then
    "$cargo" test --locked "${packages[@]/#/--package=}"
fi
