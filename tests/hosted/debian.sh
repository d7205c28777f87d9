#!/usr/bin/env bash
# "debian.sh": what a bare container of Debian 12 lacks beside the packages of `make packages`: make, C and C++ compilers, Rust and Go, below HOME. The steps
# after it find them by GITHUB_PATH. tools.txt (TOOLS names another list) has the digests of what no package brings.
set -euo pipefail
: "${HOME:?}" "${GITHUB_PATH:?}"
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
list=${TOOLS:-$here/tools.txt}
if [ "$(id -u)" -ne 0 ]; then
    echo "error: this user may not install packages" >&2
    echo "  cure: run it as root, as a job's container does" >&2
    exit 2
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# fetched NAME: the file of that name in the list, with the digest that stands there.
fetched() {
    local digest address file=$work/$1
    read -r digest address < <(awk -v name="$1" '$1 == name { print $2, $3 }' "$list")
    curl --fail --location --silent --show-error --retry 3 --connect-timeout 30 --max-time 900 --output "$file" "$address"
    if ! sha256sum --check --status <<<"$digest  $file"; then
        echo "error: $address is another file" >&2
        echo "  expected: sha256:$digest" >&2
        echo "  found: sha256:$(sha256sum "$file" | cut -d' ' -f1)" >&2
        exit 1
    fi
}

apt-get update -q
DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends \
    build-essential ca-certificates cmake curl git iproute2 pkg-config procps python3 python3-venv unzip xz-utils

# The workspace belongs to the runner's user, and git reads no repository of another one unless it is told so.
git config --system --add safe.directory "$root"

# The oldest compiler that the crates promise: with a newer one's lints a push could fail that changed nothing. rust-toolchain.toml would take that.
fetched rustup-init
rust=$(sed -n 's/^rust-version = "\(.*\)"$/\1/p' "$root/Cargo.toml")
chmod +x "$work/rustup-init"
"$work/rustup-init" -y --no-modify-path --profile minimal --default-toolchain "$rust" --component clippy --component rustfmt
"$HOME/.cargo/bin/rustup" override set "$rust" --path "$root"

# A module's archive has no modes.
fetched go
python3 -m zipfile -e "$work/go" "$work/unpacked"
rm -rf "$HOME/.local/go"
mkdir -p "$HOME/.local"
mv "$work"/unpacked/golang.org/toolchain@* "$HOME/.local/go"
chmod -R a+x "$HOME/.local/go/bin" "$HOME/.local/go/pkg/tool"

printf '%s\n' "$HOME/.cargo/bin" "$HOME/.local/go/bin" >>"$GITHUB_PATH"
