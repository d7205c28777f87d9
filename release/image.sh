#!/usr/bin/env bash
# "image.sh build|push DIR": the container image from the Debian package in DIR, built and tried by docker or buildah (ENGINE), as REGISTRY/OWNER/winimg:VERSION.
# `push` sends it to the registry of GitHub and signs it there; BASE names another base image.
set -euo pipefail
verb=${1:?usage: image.sh build|push DIR}
dist=$(cd "${2:?usage: image.sh build|push DIR}" && pwd)
cd "$(dirname "$0")/.."
engine=${ENGINE:-$(command -v buildah >/dev/null && echo buildah || echo docker)}
version=$(release/version.sh)
image=${IMAGE:-${GITHUB_REPOSITORY:+ghcr.io/}${GITHUB_REPOSITORY:-localhost/winimg}}
image=${image,,}:$version
cosign=${COSIGN:-$PWD/target/tools/bin/cosign}

context=$(mktemp -d)
trap 'rm -rf "$context"' EXIT
cp "$dist/winimg_${version}_amd64.deb" "$context/winimg.deb"
arguments=(--file release/Containerfile --tag "$image" ${BASE:+--build-arg "BASE=$BASE"} "$context")

# What a person would type first has to work in it.
case $engine in
    docker)
        docker build "${arguments[@]}"
        run() { docker run --rm "$image" "$@"; }
        ;;
    buildah)
        buildah build --isolation chroot "${arguments[@]}"
        run() {
            local container
            container=$(buildah from --pull-never "$image")
            buildah run --isolation chroot "$container" -- /usr/bin/winimg "$@" || { buildah rm "$container" >/dev/null; return 1; }
            buildah rm "$container" >/dev/null
        }
        ;;
    *) printf 'error: no engine is called %s\n  cure: ENGINE=docker or ENGINE=buildah\n' "$engine" >&2; exit 2 ;;
esac
[ "$(run --version)" = "winimg $version" ]
run doctor || exit 1

case $verb in
    build) ;;
    push)
        printf '%s' "${GITHUB_TOKEN:?is the password of the registry}" | "$engine" login --username "${GITHUB_ACTOR:-winimg}" --password-stdin "${image%%/*}"
        digests=$(mktemp -p "$context")
        if [ "$engine" = docker ]; then
            docker push "$image"
            docker inspect --format '{{index .RepoDigests 0}}' "$image" >"$digests"
        else
            buildah push --digestfile "$digests" "$image"
            sed -i "s|^|${image%:*}@|" "$digests"
        fi
        "$cosign" sign --yes "$(cat "$digests")"
        ;;
    *) echo "usage: $0 build|push DIR" >&2; exit 2 ;;
esac
