#!/usr/bin/env bash
# Installs the Debian packages that `make demo` and `make test` need, by name, and nothing that is there already;
# with `browser`, those of `make pages`, too. With `prove`, only what cargo and a proof on real Windows need, which Ubuntu has as well; where there is
# no apt, it says what has to be there.
set -euo pipefail

case "${1-}" in
    "" | browser | prove) ;;
    *) echo "usage: $0 [browser|prove]" >&2; exit 2 ;;
esac

# QEMU's packages have to come from one suite: a system emulator of the release removes the tools of a backport.
qemu=(qemu-system-x86 qemu-utils)
here=$(cd "$(dirname "$0")" && pwd)
if [ "${1-}" = prove ]; then
    packages=(gcc libc6-dev make ovmf swtpm tesseract-ocr)
    if ! command -v apt-get >/dev/null; then
        echo "no apt: install what is missing of ${qemu[*]} ${packages[*]}, by the names that this system has for them"
        exit 0
    fi
else
    mapfile -t packages < <(sort -u "$here/sim/windows/packages.txt" "$here/wine/packages.txt")
    packages+=(
        # what makes the demo's components (with python3)
        gcab osslsigncode
        # a registry, for the cache that machines share
        docker-registry
        # what takes container disks and boxes
        skopeo vagrant
        # what the tests judge with
        gdisk gnupg groff-base grub-efi-amd64-bin libhivex-bin libxml2-utils minisign openssl p7zip-full python3 python3-venv python3-yaml qemu-guest-agent signify-openbsd strace xorriso
        # what reads a stopped machine's screen, and what draws the screens that it is tried on
        fonts-dejavu-core python3-pil tesseract-ocr
        # machines with a TPM
        swtpm
        # building
        make
    )
    # what fetches really signed programs for the tests; both are often there from elsewhere
    command -v npm >/dev/null || packages+=(npm)
    python3 -m pip --version >/dev/null 2>&1 || packages+=(python3-pip)
fi
# what opens the pages; Chrome is Ubuntu's other way to a browser that is no snap
if [ "${1-}" = browser ]; then
    command -v chromium chromium-browser google-chrome >/dev/null || packages+=(chromium)
    command -v node >/dev/null || packages+=(nodejs)
fi

missing=()
for package in "${qemu[@]}" "${packages[@]}"; do
    state=$(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null || true)
    [ "$state" = installed ] || missing+=("$package")
done
[ ${#missing[@]} -gt 0 ] || exit 0

sudo=()
if [ "$(id -u)" -ne 0 ]; then
    command -v sudo >/dev/null || { echo "to install ${missing[*]}: run as root, or install sudo" >&2; exit 3; }
    sudo=(sudo)
fi
echo "installing ${missing[*]}"
"${sudo[@]}" apt-get update -q
version=$(apt-cache policy qemu-system-x86 | awk '/Candidate:/ { print $2 }')
pinned=()
for package in "${missing[@]}"; do
    [[ " ${qemu[*]} " == *" $package "* ]] || pinned+=("$package")
done
pinned+=("${qemu[@]/%/=$version}")
"${sudo[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends --allow-downgrades "${pinned[@]}"
