#!/usr/bin/env bash
# "bare.sh DIR [--demo]": the Debian package of DIR on a Debian that has nothing else (debootstrap), installed by apt: what the README says first is typed there.
# With --demo it builds the demo there, from the stand-in installer that `make standin` made. Ends with 3 where that Debian cannot be had.
set -euo pipefail
dist=$(cd "${1:?usage: bare.sh DIR [--demo]}" && pwd)
cd "$(dirname "$0")/.."
if [ "$(id -u)" -ne 0 ]; then
    command -v sudo >/dev/null || { printf 'error: only root can make a Debian\n  cure: run it as root, or install sudo\n' >&2; exit 3; }
    exec sudo --preserve-env=MIRROR,SUITE release/bare.sh "$dist" "${@:2}"
fi
version=$(release/version.sh)

root=$(mktemp -d "$PWD/target/bare.XXXXXX")
there_is_debian=
clean() {
    local status=$?
    for place in work dev proc; do mountpoint -q "$root/$place" && umount "$root/$place"; done
    rm -rf --one-file-system "$root"
    # A program's own 3 is a failure.
    [ "$status" = 0 ] || [ -z "$there_is_debian" ] || exit 1
}
trap clean EXIT
release/bootstrap.sh "$root"
there_is_debian=yes
mount --bind /proc "$root/proc"
mount --bind /dev "$root/dev"
cp /etc/resolv.conf "$root/etc/resolv.conf"
cp "$dist/winimg_${version}_amd64.deb" "$root/tmp/winimg.deb"
there() { env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LC_ALL=C.UTF-8 DEBIAN_FRONTEND=noninteractive chroot "$root" "$@"; }

# Only what it depends on: it starts, and says what a build would lack.
there apt-get update -q
there apt-get install -q -y --no-install-recommends /tmp/winimg.deb
[ "$(there winimg --version)" = "winimg $version" ]
lacks() {
    local status=0
    there winimg doctor || status=$?
    [ "$status" = 3 ] || { echo "error: winimg doctor ends with $status where nothing that it needs is there, not with 3" >&2; exit 1; }
}
lacks

# What it recommends, as `apt install` without options brings it, and the README's first commands.
there apt-get install -q -y --no-install-recommends qemu-system-x86 qemu-utils ovmf swtpm
there winimg doctor
there sh -ec 'cd /tmp; winimg init recipe.toml; winimg validate recipe.toml; winimg init capi-ova; test -s my-capi-ova.toml'
there test -s /usr/share/bash-completion/completions/winimg
there test -s /usr/share/man/man1/winimg-build.1.gz
if [ "${2-}" = --demo ]; then
    mkdir "$root/work"
    mount --bind "$PWD" "$root/work"
    there sh -ec 'cd /work; winimg build recipes/demo.toml --output /tmp/demo; tests/demo/show.sh /tmp/demo; winimg verify /tmp/demo/manifest.json'
fi
there apt-get purge -q -y winimg
there sh -ec '! command -v winimg'
echo "winimg $version works on a bare ${SUITE:-bookworm}"
