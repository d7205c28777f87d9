#!/usr/bin/env bash
# "version.sh": the version in Cargo.toml. "version.sh epoch": the second since 1970 that stands in everything that is packed, which is that of the commit
# unless SOURCE_DATE_EPOCH says another.
set -euo pipefail
cd "$(dirname "$0")/.."
case ${1-} in
    "") sed -n '/^\[workspace\.package\]/,/^$/ s/^version = "\(.*\)"$/\1/p' Cargo.toml ;;
    epoch) echo "${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct)}" ;;
    *) echo "usage: $0 [epoch]" >&2; exit 2 ;;
esac
