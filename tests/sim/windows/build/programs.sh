# The Rust programs of the stand-in, static so that the initrd needs no library for them.
# STANDIN_PROGRAMS names a directory with ready ones.
set -euo pipefail
if [ -n "${STANDIN_PROGRAMS:-}" ]; then
    programs=$STANDIN_PROGRAMS
else
    target=x86_64-unknown-linux-gnu
    (cd "$repo" && CARGO_ENCODED_RUSTFLAGS='-Ctarget-feature=+crt-static' \
        cargo build --quiet --package winimg-standin --bins --target "$target")
    programs=${CARGO_TARGET_DIR:-$repo/target}/$target/debug
fi
export programs
# genisoimage, sbsign, wimlib and wixl stamp files with the time of day; this library stops their clock.
gcc -O1 -shared -fPIC -o "$work/stopclock.so" "$here/boot/stopclock.c"
stopped() { LD_PRELOAD="$work/stopclock.so" "$@"; }
