#!/usr/bin/env bash
# "build.sh TARGET": winimg for x86_64-linux or aarch64-linux, static, or x86_64-windows, as target/release-bin/winimg-TARGET[.exe].
#
# Rust's standard library for each comes from rustup. C is compiled and linked by Zig over musl for Linux, and by MinGW for Windows. Paths of this machine are
# not in the binaries.
set -euo pipefail
cd "$(dirname "$0")/.."
target=${1:?usage: build.sh x86_64-linux|aarch64-linux|x86_64-windows}
tools=$PWD/target/tools
into=$PWD/target/release-bin
mkdir -p "$into"

sysroot=$(rustc --print sysroot)
export RUSTFLAGS="--remap-path-prefix=$PWD=/winimg --remap-path-prefix=${CARGO_HOME:-$HOME/.cargo}=/cargo --remap-path-prefix=$sysroot=/rust"
case $target in
    x86_64-linux | aarch64-linux)
        triple=${target%-linux}-unknown-linux-musl
        rustup target add "$triple"
        if ! cmp -s release/requirements.txt "$tools/zig/requirements.txt"; then
            rm -rf "$tools/zig"
            python3 -m venv "$tools/zig"
            "$tools/zig/bin/pip" install --quiet --disable-pip-version-check --require-hashes -r release/requirements.txt
            cp release/requirements.txt "$tools/zig/"
        fi
        PATH="$tools/zig/bin:$PATH" cargo-zigbuild zigbuild --locked --release --package winimg --target "$triple"
        cp "target/$triple/release/winimg" "$into/winimg-$target"
        ;;
    x86_64-windows)
        command -v x86_64-w64-mingw32-gcc >/dev/null || tests/install-packages.sh
        triple=x86_64-pc-windows-gnu
        rustup target add "$triple"
        # aws-lc brings its assembler's output for Windows, so that nasm is not needed.
        export AWS_LC_SYS_PREBUILT_NASM=1 CARGO_TARGET_X86_64_PC_WINDOWS_GNU_LINKER=x86_64-w64-mingw32-gcc
        cargo build --locked --release --package winimg --target "$triple"
        cp "target/$triple/release/winimg.exe" "$into/winimg-$target.exe"
        ;;
    *) echo "error: no binaries are made for $target" >&2; exit 2 ;;
esac
