#!/usr/bin/env bash
# "base.sh docker|buildah": a Debian as image.sh's BASE where no registry is reached: made by bootstrap.sh, kept by that engine. Prints the image's name.
set -euo pipefail
engine=${1:?usage: base.sh docker|buildah}
cd "$(dirname "$0")/.."
name=localhost/winimg-base:${SUITE:-bookworm}
if [ "$(id -u)" -ne 0 ]; then
    printf 'error: only root can make a Debian\n  cure: run it as root, or name an image that is there: BASE\n' >&2
    exit 3
fi
mkdir -p target
work=$(mktemp -d "$PWD/target/base.XXXXXX")
trap 'rm -rf --one-file-system "$work"' EXIT
release/bootstrap.sh "$work/root" >&2
# Devices are the engine's.
tar -C "$work/root" --exclude='./dev/*' --exclude='./var/cache/apt/archives/*.deb' -cf "$work/root.tar" .
case $engine in
    docker) docker import "$work/root.tar" "$name" >&2 ;;
    buildah)
        container=$(buildah from scratch)
        buildah add --quiet "$container" "$work/root.tar" / >&2
        buildah commit --quiet --rm "$container" "$name" >&2
        ;;
    *) printf 'error: no engine is called %s\n  cure: base.sh docker or base.sh buildah\n' "$engine" >&2; exit 2 ;;
esac
echo "$name"
