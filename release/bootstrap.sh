#!/usr/bin/env bash
# "bootstrap.sh FOLDER": the smallest Debian into FOLDER, by debootstrap, for root: of SUITE (bookworm) from MIRROR. Ends with 3 where the mirror is not reached.
set -euo pipefail
root=${1:?usage: bootstrap.sh FOLDER}
mirror=${MIRROR:-http://deb.debian.org/debian}
suite=${SUITE:-bookworm}
if ! curl --fail --location --silent --show-error --retry 2 --connect-timeout 20 --max-time 60 --output /dev/null "$mirror/dists/$suite/Release"; then
    printf 'error: no Debian can be fetched from %s\n  cure: MIRROR names another mirror\n' "$mirror" >&2
    exit 3
fi
if ! command -v debootstrap >/dev/null; then
    apt-get update -q
    DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends debootstrap debian-archive-keyring
fi
debootstrap --variant=minbase "$suite" "$root" "$mirror" >/dev/null
