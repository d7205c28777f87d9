#!/usr/bin/env bash
# "pack.sh DIR": archives and Debian packages of the binaries that build.sh made (BINARIES names another folder). The same binaries and commit give the
# same bytes.
set -euo pipefail
cd "$(dirname "$0")/.."
mkdir -p "${1:?usage: pack.sh DIR}"
dist=$(cd "$1" && pwd)
binaries=$(realpath "${BINARIES:-target/release-bin}")
version=$(release/version.sh)
SOURCE_DATE_EPOCH=$(release/version.sh epoch)
export SOURCE_DATE_EPOCH LC_ALL=C TZ=UTC
umask 022
# Artifacts of a workflow lose their modes.
chmod 755 "$binaries"/winimg-*
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
find "$dist" -mindepth 1 -delete

# The pages and completions are printed by the program itself.
shared=$work/shared
mkdir -p "$shared/completions"
"$binaries/winimg-x86_64-linux" man "$shared/man" >/dev/null
for shell in bash zsh fish powershell elvish; do
    "$binaries/winimg-x86_64-linux" completions "$shell" >"$shared/completions/winimg.$shell"
done
cp LICENSE README.md CHANGELOG.md "$shared/"

settle() { find "$1" -print0 | xargs -0 touch --no-dereference --date="@$SOURCE_DATE_EPOCH"; }

archive() {
    local target=$1 name="winimg-$version-$1"
    cp -r "$shared" "$work/$name"
    case $target in
        *-windows)
            install -m 755 "$binaries/winimg-$target.exe" "$work/$name/winimg.exe"
            settle "$work/$name"
            (cd "$work" && python3 -m zipfile -c "$dist/$name.zip" "$name")
            ;;
        *)
            install -m 755 "$binaries/winimg-$target" "$work/$name/winimg"
            tar -C "$work" --sort=name --mtime="@$SOURCE_DATE_EPOCH" --owner=0 --group=0 --numeric-owner -cf - "$name" | gzip -9n >"$dist/$name.tar.gz"
            ;;
    esac
}

package() {
    local target=$1 architecture=$2 root=$work/deb-$2
    install -D -m 755 "$binaries/winimg-$target" "$root/usr/bin/winimg"
    install -D -m 644 "$shared/completions/winimg.bash" "$root/usr/share/bash-completion/completions/winimg"
    install -D -m 644 "$shared/completions/winimg.zsh" "$root/usr/share/zsh/vendor-completions/_winimg"
    install -D -m 644 "$shared/completions/winimg.fish" "$root/usr/share/fish/vendor_completions.d/winimg.fish"
    mkdir -p "$root/usr/share/man/man1" "$root/usr/share/doc/winimg" "$root/DEBIAN"
    cp "$shared/man"/*.1 "$root/usr/share/man/man1/"
    cp CHANGELOG.md "$root/usr/share/doc/winimg/changelog"
    gzip -9n "$root/usr/share/man/man1"/*.1 "$root/usr/share/doc/winimg/changelog"
    cp README.md release/debian/copyright "$root/usr/share/doc/winimg/"
    local size
    size=$(du -sk --apparent-size "$root/usr" | cut -f1)
    sed "s/@version@/$version/; s/@architecture@/$architecture/; s/@size@/$size/" release/debian/control >"$root/DEBIAN/control"
    settle "$root"
    dpkg-deb --root-owner-group -Zxz --build "$root" "$dist/winimg_${version}_$architecture.deb" >/dev/null
}

for target in x86_64-linux aarch64-linux x86_64-windows; do
    if [ -e "$binaries/winimg-$target" ] || [ -e "$binaries/winimg-$target.exe" ]; then
        archive "$target"
    else
        echo "left out: $target, whose binary was not built"
    fi
done
package x86_64-linux amd64
[ ! -e "$binaries/winimg-aarch64-linux" ] || package aarch64-linux arm64
