#!/usr/bin/env bash
# What judges rendered pipelines.
#
#   judges.sh make TOOLS               check-jsonschema, which brings GitLab's and Buildkite's schemas, and actionlint
#   judges.sh render WINIMG RENDERED   what `winimg matrix render` makes of nodes.toml and hostile.toml
#   judges.sh judge TOOLS RENDERED     these are accepted, and each with one mistake is not
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
what=$1

make_them() {
    mkdir -p "$tools"
    python3 -m venv "$tools/python"
    "$tools/python/bin/pip" install --quiet --disable-pip-version-check check-jsonschema==0.39.0
    GOBIN=$tools GOFLAGS="${GOFLAGS-} -p=1" nice -n 5 go install -trimpath github.com/rhysd/actionlint/cmd/actionlint@v1.7.12
}

# judged FILE: by the judge of its engine.
judged() {
    case $1 in
        *.gitlab-ci.yml) schema vendor.gitlab-ci "$1" ;;
        *.buildkite.yml) schema vendor.buildkite "$1" ;;
        # Labels of runners are the user's.
        *) "$tools/actionlint" -no-color -shellcheck= -pyflakes= -ignore 'label "kvm" is unknown' "$1" ;;
    esac
}

schema() {
    local transform=()
    [ "$1" = vendor.buildkite ] || transform=(--data-transform gitlab-ci)
    "$tools/python/bin/check-jsonschema" "${transform[@]}" --builtin-schema "$1" "$2"
}

# refused FILE RIGHT WRONG: the file with a mistake is refused; otherwise its judge judges nothing.
refused() {
    local copy
    copy=$(mktemp -d)/$(basename "$1")
    sed "0,/$2/s//$3/" "$1" > "$copy"
    if cmp -s "$1" "$copy"; then
        echo "error: $1 has no \"$2\"" >&2
        exit 1
    fi
    if judged "$copy" > /dev/null 2>&1; then
        echo "error: $3 was accepted in $1" >&2
        exit 1
    fi
    rm -r "$(dirname "$copy")"
}

render() {
    local file engine
    rm -rf "$rendered"
    for file in nodes hostile; do
        for engine in github gitlab argo kubernetes buildkite; do
            (cd "$here" && "$winimg" matrix render "$file.toml" --engine "$engine" --output "$rendered")
        done
    done
}

judge() {
    local file
    for file in "$rendered"/*.yml; do
        judged "$file"
    done
    refused "$rendered/nodes.yml" 'runs-on:' 'run-on:'
    refused "$rendered/nodes.yml" 'steps.attempt-1.outcome' 'steps.attempt-7.outcome'
    refused "$rendered/nodes.gitlab-ci.yml" 'when: manual' 'when: manually'
    refused "$rendered/nodes.gitlab-ci.yml" 'max: 2' 'max: 3'
    refused "$rendered/nodes.buildkite.yml" 'timeout_in_minutes: 480' 'timeout_in_minutes: 8h'
    refused "$rendered/nodes.buildkite.yml" 'block:' 'blocked:'
    echo "$(ls "$rendered"/*.yml | wc -l) pipelines are accepted, 6 with mistakes refused"
}

case $what in
    make) tools=$(realpath -m "$2"); make_them ;;
    render) winimg=$(realpath "$2"); rendered=$(realpath -m "$3"); render ;;
    judge) tools=$(realpath "$2"); rendered=$(realpath "$3"); judge ;;
    *) echo "usage: $0 make TOOLS | render WINIMG RENDERED | judge TOOLS RENDERED" >&2; exit 2 ;;
esac
