#!/bin/bash
# Makes the stand-in's two media in OUTDIR: standin.iso (a "Windows Server" evaluation medium whose Setup is the
# stand-in) and virtio-win.iso (the layout of the real one). Not Windows: no byte of it comes from Microsoft.
#
#   build.sh [--build 17763|20348|26100] [--retail] [--all] [--debug] [--no-virtio] [--programs TABLE] OUTDIR
#
# --retail   no "Evaluation" editions; Setup then asks for a product key
# --all      also one medium of each release and channel: 2019-evaluation.iso, 2019-retail.iso, 2022-…, 2025-…
# --programs real programs, which run nowhere here, and what they answered where they ran (src/windows/program/real.rs)
# --debug    Setup and the installed system write their log to the first serial port (real Windows writes nothing)
#
# Needs, by Debian package name: packages.txt beside this file. The kernel comes out of its own package, downloaded once
# into $STANDIN_CACHE (default ~/.cache/winimg-standin) and not installed.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
repo=$(cd "$here/../../.." && pwd)

build=20348 retail=0 all=0 debug=0 virtio=1 table= out=
while [ $# -gt 0 ]; do
    case $1 in
        --build) build=$2; shift ;;
        --retail) retail=1 ;;
        --all) all=1 ;;
        --debug) debug=1 ;;
        --no-virtio) virtio=0 ;;
        --programs) table=$2; shift ;;
        -*) echo "build.sh: unknown option $1" >&2; exit 2 ;;
        *) out=$1 ;;
    esac
    shift
done
[ -n "$out" ] || { echo "usage: build.sh [--build N] [--retail] [--all] [--debug] [--no-virtio] [--programs TABLE] OUTDIR" >&2; exit 2; }
facts() { # BUILD
    build=$1
    case $build in
        17763) year=2019 release=1809 revision=737 ;;
        20348) year=2022 release=21H2 revision=587 ;;
        26100) year=2025 release=24H2 revision=32230 ;;
        *) echo "build.sh: no Windows Server has build $build" >&2; exit 2 ;;
    esac
}
facts "$build"
mkdir -p "$out"
out=$(cd "$out" && pwd)
cache=${STANDIN_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/winimg-standin}
work=$(mktemp -d "${TMPDIR:-/tmp}/standin-build.XXXXXX")
trap 'rm -rf "$work"' EXIT
export SOURCE_DATE_EPOCH=1630000000 LC_ALL=C TZ=UTC
export here repo build retail debug table year release revision out cache work
iso=standin.iso

. "$here/build/programs.sh"   # the Rust programs
. "$here/build/kernel.sh"     # kernel and modules out of the Debian package
. "$here/build/initrd.sh"     # the system both Setup and the installed "Windows" run in
. "$here/build/loader.sh"     # El Torito images and boot loaders
. "$here/build/medium.sh"     # install.wim and the ISO
if [ "$all" = 1 ]; then
    for build in 17763 20348 26100; do
        facts "$build"
        retail=0 iso=$year-evaluation.iso
        . "$here/build/medium.sh"
        retail=1 iso=$year-retail.iso
        . "$here/build/medium.sh"
    done
fi
if [ "$virtio" = 1 ]; then
    . "$here/build/virtio.sh" # the driver ISO
fi
ls -l "$out"/*.iso
