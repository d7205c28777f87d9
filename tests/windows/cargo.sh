#!/usr/bin/env bash
# "cargo.sh DIR ARGUMENTS...": cargo with DIR's compiler (toolchain.sh), for 64-bit Windows and into DIR's own target folder.
set -euo pipefail
dir=$(cd "${1:?usage: cargo.sh DIR ARGUMENTS...}" && pwd)
shift
here=$(cd "$(dirname "$0")" && pwd)
root=$dir/toolchain/root
verb=$1
shift

# Debian's compiler has no clippy.
unset RUSTC_WORKSPACE_WRAPPER
export RUSTC=$root/usr/bin/rustc LD_LIBRARY_PATH=$root/usr/lib/x86_64-linux-gnu:$root/usr/lib
# -Zbuild-std is not stable yet; of the language nothing unstable is used.
export RUSTC_BOOTSTRAP=1
export CARGO_TARGET_DIR=$dir/target CARGO_PROFILE_DEV_DEBUG=false CARGO_INCREMENTAL=0
export CARGO_TARGET_X86_64_PC_WINDOWS_GNU_LINKER=x86_64-w64-mingw32-gcc
export CARGO_TARGET_X86_64_PC_WINDOWS_GNU_RUNNER=$here/wine.sh
# What the toolchain needs is nothing for Wine: wine.sh takes this path away again.
export WINIMG_WINDOWS_DIR=$dir
# aws-lc brings its assembler's output for Windows, so that nasm is not needed.
export AWS_LC_SYS_PREBUILT_NASM=1
exec "$root/usr/bin/cargo" "$verb" --locked -j2 --config profile.dev.opt-level=0 -Zbuild-std=std,panic_unwind,proc_macro,test \
    --target x86_64-pc-windows-gnu "$@"
