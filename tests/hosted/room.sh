#!/usr/bin/env bash
# "room.sh [TOP]": frees room on a hosted runner of GitHub, which keeps some 25 GB of SDKs that nothing here reads; TOP is where a job's container has the
# runner's folders. Where the runner has a second disk (/mnt; SECOND names another folder), winimg's cache is put there for the steps after this one.
# On any other machine it removes nothing: these folders could be somebody's.
set -euo pipefail
top=${1:-}
second=${SECOND:-/mnt}
if [ "${RUNNER_ENVIRONMENT:-}" != github-hosted ]; then
    echo "this is no hosted runner: nothing is removed"
    exit
fi

# as_owner FOLDER COMMAND...: by sudo where this user may not write there.
as_owner() {
    if [ -w "$1" ]; then "${@:2}"; else sudo "${@:2}"; fi
}
for folder in /opt/ghc /opt/hostedtoolcache/CodeQL /usr/local/.ghcup /usr/local/lib/android /usr/share/dotnet /usr/share/swift; do
    if [ -d "$top$folder" ]; then
        as_owner "$(dirname "$top$folder")" rm -rf "$top$folder"
        echo "removed $folder"
    fi
done
if [ -d "$second" ] && [ "$(stat -c %d "$second")" != "$(stat -c %d /)" ]; then
    as_owner "$second" install -d -o "$(id -u)" -g "$(id -g)" "$second/winimg-cache"
    echo "WINIMG_CACHE_DIR=$second/winimg-cache" >>"$GITHUB_ENV"
    df -h "$second"
fi
df -h "$PWD"
