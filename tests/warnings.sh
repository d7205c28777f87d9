#!/usr/bin/env bash
# Reads what `cargo build --message-format short` prints and fails where it has a warning of this
# workspace. Cargo repeats the warnings of crates that are compiled already.
set -euo pipefail
log=$(cat)
if ! tail -n 1 <<<"$log" | grep -q '^ *Finished '; then
    echo "$log"
    exit 1
fi
if warnings=$(grep -E '^[^ ]+:[0-9]+:[0-9]+: warning: ' <<<"$log" | sort -u); then
    echo "$warnings"
    echo "error: $(wc -l <<<"$warnings") warnings" >&2
    exit 1
fi
