#!/usr/bin/env bash
# "install.sh FOLDER": winimg by `cargo install` from its packaged crates, as from a registry: each crate compiles from what its package holds alone.
set -euo pipefail
folder=$(realpath -m "${1:?usage: install.sh FOLDER}")
cd "$(dirname "$0")/../.."
version=$(release/version.sh)
crates=(winimg)
for crate in crates/*/; do crates+=("winimg-$(basename "$crate")"); done

cargo package --locked --no-verify --allow-dirty --target-dir "$folder/target" "${crates[@]/#/--package=}"
rm -rf "$folder/crates" "$folder/root"
mkdir -p "$folder/crates"
patches=()
for crate in "${crates[@]}"; do
    tar -C "$folder/crates" -xzf "$folder/target/package/$crate-$version.crate"
    # No registry has them yet.
    [ "$crate" = winimg ] || patches+=(--config "patch.crates-io.$crate.path='$folder/crates/$crate-$version'")
done
cargo install --debug --path "$folder/crates/winimg-$version" --root "$folder/root" --target-dir "$folder/target" "${patches[@]}"

[ "$("$folder/root/bin/winimg" --version)" = "winimg $version" ]
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
"$folder/root/bin/winimg" init recipe.toml
"$folder/root/bin/winimg" validate recipe.toml
"$folder/root/bin/winimg" schema recipe | python3 -m json.tool >/dev/null
