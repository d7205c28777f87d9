#!/usr/bin/env bash
# `prove run` with a medium and the rows of one job; arguments of its own come last.
#   run.sh RELEASE MEDIA-FOLDER OUTPUT [ROWS] [ARGUMENT…]
set -euo pipefail
if [ $# -lt 3 ]; then echo "usage: $0 RELEASE MEDIA-FOLDER OUTPUT [ROWS] [ARGUMENT…]" >&2; exit 2; fi
release=$1 media=$2 output=$3 rows=${4:-}
shift $(( $# < 4 ? $# : 4 ))
cd "$(dirname "$0")/../../.."
arguments=(--iso "$media/$release.iso" --output "$output")
if [ -e "$media/virtio.iso" ]; then arguments+=(--virtio "$media/virtio.iso"); fi
if [ "$rows" ]; then arguments+=(--rows "$rows"); fi
exec "${CARGO_TARGET_DIR:-target}/debug/prove" run "${arguments[@]}" "$@"
