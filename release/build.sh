#!/usr/bin/env bash
# "build.sh TARGET": winimg for x86_64-linux or aarch64-linux, static, or x86_64-windows, as target/release-bin/winimg-TARGET[.exe].
#
# Rust's standard library for each comes from rustup. C is compiled and linked by Zig over musl for Linux, and by MinGW for Windows. Paths of this machine are
# not in the binaries. Ends with 3 where something of this is missing and cannot be had.
set -euo pipefail
cd "$(dirname "$0")/.."
target=${1:?usage: build.sh x86_64-linux|aarch64-linux|x86_64-windows}
tools=$PWD/target/tools
into=$PWD/target/release-bin
case $target in
    x86_64-linux | aarch64-linux) triple=${target%-linux}-unknown-linux-musl ;;
    x86_64-windows) triple=x86_64-pc-windows-gnu ;;
    *) echo "error: no binaries are made for $target" >&2; exit 2 ;;
esac
mkdir -p "$into"

lacks() {
    printf 'error: %s is not built: %s\n  cure: %s\n' "$target" "$1" "$2" >&2
    exit 3
}
command -v rustup >/dev/null || lacks "there is no rustup, which brings Rust's standard library for it" "install Rust by rustup"
rustup target list --installed | grep -qx "$triple" || rustup target add "$triple" ||
    lacks "rustup cannot fetch $triple" "try again where static.rust-lang.org is reached"

sysroot=$(rustc --print sysroot)
export RUSTFLAGS="--remap-path-prefix=$PWD=/winimg --remap-path-prefix=${CARGO_HOME:-$HOME/.cargo}=/cargo --remap-path-prefix=$sysroot=/rust"
case $target in
    *-linux)
        if ! cmp -s release/requirements.txt "$tools/zig/requirements.txt"; then
            rm -rf "$tools/zig"
            python3 -m venv "$tools/zig" || lacks "there is no venv of Python, in which Zig is installed" "install python3-venv"
            "$tools/zig/bin/pip" install --quiet --disable-pip-version-check --require-hashes -r release/requirements.txt ||
                lacks "pip cannot fetch Zig" "try again where PyPI is reached"
            cp release/requirements.txt "$tools/zig/"
        fi
        PATH="$tools/zig/bin:$PATH" cargo-zigbuild zigbuild --locked --release --package winimg --target "$triple"
        cp "target/$triple/release/winimg" "$into/winimg-$target"
        ;;
    *-windows)
        if ! command -v x86_64-w64-mingw32-gcc >/dev/null; then
            sudo=()
            if [ "$(id -u)" -ne 0 ]; then sudo=(sudo); fi
            { "${sudo[@]}" apt-get update -q && "${sudo[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends gcc-mingw-w64-x86-64; } ||
                lacks "there is no MinGW, which links it" "install Debian's gcc-mingw-w64-x86-64"
        fi
        # aws-lc brings its assembler's output for Windows, so that nasm is not needed.
        export AWS_LC_SYS_PREBUILT_NASM=1 CARGO_TARGET_X86_64_PC_WINDOWS_GNU_LINKER=x86_64-w64-mingw32-gcc
        cargo build --locked --release --package winimg --target "$triple"
        cp "target/$triple/release/winimg.exe" "$into/winimg-$target.exe"
        ;;
esac
