#!/bin/bash
# A cold build of the tool: how many crates, how long, how much processor time, and which units take longest. One run on one
# machine; quiet it first. Anything after the options goes to cargo, such as `-p winimg-base`.
#
#   make bench-build            WORK=/var/tmp
set -euo pipefail
cd "$(dirname "$0")/.."
target=$(mktemp -d "${WORK:-/var/tmp}/winimg-build.XXXXXX")
trap 'rm -rf "$target"' EXIT
TIMEFORMAT='%R %U %S'
[ $# -gt 0 ] || set -- --package winimg --bin winimg

cargo fetch --locked --quiet
{ time CARGO_TARGET_DIR=$target cargo build --locked --quiet --timings "$@" >"$target.log" 2>&1; } 2>"$target.time" ||
    { cat "$target.log" >&2; rm -f "$target.log" "$target.time"; exit 1; }
read -r wall user system <"$target.time"
rm -f "$target.log" "$target.time"

# The report holds its data as one line of JSON each: `const UNIT_DATA = […];`. Seconds from the build's start.
python3 - "$target/cargo-timings/cargo-timing.html" "$wall" "$user" "$system" <<'PYTHON'
import json, re, sys
report, wall, user, system = sys.argv[1], *map(float, sys.argv[2:])
found = re.search(r"const UNIT_DATA = (\[.*?\]);\n", open(report, encoding="utf8").read(), re.S)
if not found:
    sys.exit(f"{report} holds no UNIT_DATA: this cargo writes another report")
units = json.loads(found[1])
crates = {(unit["name"], unit["version"]) for unit in units}
print(f"{len(crates)} crates, {len(units)} units, {wall:.1f} s, {user + system:.1f} s of processor time")
for unit in sorted(units, key=lambda unit: -unit["duration"])[:10]:
    print(f"{unit['duration']:8.1f} s  {unit['name']} {unit['version']}{unit['target']}")
PYTHON
