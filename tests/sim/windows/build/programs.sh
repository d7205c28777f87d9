# The Rust programs of the stand-in, as `make build` compiles them.
# STANDIN_PROGRAMS names a directory with others.
set -euo pipefail
programs=${STANDIN_PROGRAMS:-${CARGO_TARGET_DIR:-$repo/target}/debug}
for program in standin-init standin-image; do
    [ -x "$programs/$program" ] || { echo "build.sh: there is no $programs/$program: make build" >&2; exit 2; }
done
export programs
# genisoimage, sbsign, wimlib and wixl stamp files with the time of day; this library stops their clock.
gcc -O1 -shared -fPIC -o "$work/stopclock.so" "$here/boot/stopclock.c"
stopped() { LD_PRELOAD="$work/stopclock.so" "$@"; }
