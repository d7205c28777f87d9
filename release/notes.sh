#!/usr/bin/env bash
# "notes.sh TAG": what CHANGELOG.md says of this release. Refuses a tag that is not the version in Cargo.toml, and a version that the changelog calls not released.
set -euo pipefail
cd "$(dirname "$0")/.."
tag=${1:?usage: notes.sh TAG}
changelog=${CHANGELOG:-CHANGELOG.md}
version=$(release/version.sh)
refuse() {
    printf 'error: %s\n  cure: %s\n' "$1" "$2" >&2
    exit 2
}
[ "$tag" = "v$version" ] || refuse "the tag $tag is not v$version, the version in Cargo.toml" "tag the commit that sets the version"
heading=$(grep -m1 "^## $version\b" "$changelog") || refuse "$changelog has no section for $version" "begin it with a line '## $version, DATE'"
[[ $heading =~ ^"## $version, "[0-9]{4}-[0-9]{2}-[0-9]{2}$ ]] ||
    refuse "$changelog has no date for $version: $heading" "write '## $version, $(date -u +%F)' and commit it"
awk -v heading="$heading" '$0 == heading { on = 1; next } /^## / { on = 0 } on' "$changelog"
