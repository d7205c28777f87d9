#!/usr/bin/env bash
# "toolchain.sh DIR": a Rust compiler that can build for Windows, unpacked below DIR and installed nowhere.
#
# rustup's targets do not come from Debian. Its security archive has a current compiler with the source of the standard
# library (rustc-web, cargo-web, rust-web-src), and cargo builds that source for the target: -Zbuild-std. apt checks the
# packages with Debian's keys. Ends with 3 where that archive cannot be had.
set -euo pipefail
dir=${1:?usage: toolchain.sh DIR}
mkdir -p "$dir"
dir=$(cd "$dir" && pwd)

packages=(rustc-web cargo-web libstd-rust-web-dev rust-web-src)
version() { apt-cache policy "$1" | awk '/Candidate:/ && $2 != "(none)" { print $2 }'; }
# apt's lists may be missing, or older than the archive.
refresh() { if [ "$(id -u)" -eq 0 ]; then apt-get update -q; else sudo apt-get update -q; fi; }
[ -n "$(version rustc-web)" ] || refresh || true
[ -n "$(version rustc-web)" ] || { echo "apt knows no rustc-web: winimg.exe is built on Debian, with its security archive" >&2; exit 3; }
std=$(apt-cache depends "libstd-rust-web-dev=$(version libstd-rust-web-dev)" | awk '/Depends: libstd-rust-web-/ { print $2; exit }')
llvm=$(apt-cache depends "$std=$(version "$std")" | awk '/Depends: libllvm/ { print $2; exit }')
packages+=("$std" "$llvm")
# cargo's own libraries, where the machine does not have them
for library in $(apt-cache depends "cargo-web=$(version cargo-web)" | awk '/Depends: lib/ { print $2 }'); do
    dpkg-query -W -f '${db:Status-Status}' "$library" 2>/dev/null | grep -q '^installed' || packages+=("$library")
done
case " ${packages[*]} " in
*" libgit2-1.5 "*) packages+=(libmbedtls14 libmbedx509-1 libmbedcrypto7 libhttp-parser2.9) ;;
esac

stamp=$(for package in "${packages[@]}"; do echo "$package $(version "$package")"; done)
if [ "$(cat "$dir/stamp" 2>/dev/null)" = "$stamp" ]; then exit 0; fi
rm -rf "$dir/root" "$dir/debs" "$dir/stamp"
mkdir -p "$dir/root" "$dir/debs"
if ! (cd "$dir/debs" && apt-get -q -o APT::Sandbox::User=root -o Acquire::Retries=3 download "${packages[@]}"); then
    [ -z "${REFRESHED:-}" ] || { echo "rustc-web cannot be downloaded from Debian's security archive" >&2; exit 3; }
    refresh || true
    REFRESHED=1 exec "$0" "$dir"
fi
for deb in "$dir"/debs/*.deb; do dpkg -x "$deb" "$dir/root"; done
rm -rf "$dir/debs"
echo "$stamp" >"$dir/stamp"
