#!/usr/bin/env bash
# "prefix.sh DIR": everything that the tests on Wine need, made once: a prefix as template, small Windows programs, MSIs.
#
# Debian 12's Wine is 8.0. Its cmd.exe runs what stands behind && and || whatever came before, and its sc.exe ends with 1
# for every error. Both are mended in Wine 10, so those two programs are taken out of Debian 13's libwine, checked by apt
# with Debian's keys; nothing of it is installed.
set -euo pipefail
dir=${1:?usage: prefix.sh DIR}
here=$(cd "$(dirname "$0")" && pwd)
mkdir -p "$dir"
dir=$(cd "$dir" && pwd)
programs=$dir/programs template=$dir/template
export WINEPREFIX=$template WINEARCH=win64 WINEDEBUG=-all WINEDLLOVERRIDES='mscoree=;mshtml=;winemenubuilder.exe=d'
unset DISPLAY

# Wine's loader lies at 0x7c400000, and Linux moves its heap up by as much as 1 GiB: about one program in 3,000 then finds the
# heap where Windows has its shared page (0x7ffe0000), and ends with ERROR_INTERNAL_ERROR (1359) before its first instruction.
if ! setarch --addr-no-randomize true; then
    echo "Wine needs personality(2), which this container forbids: start it with --security-opt seccomp=unconfined" >&2
    exit 1
fi

stamp=$(cat "$here/prefix.sh" "$here"/programs/* "$here"/msi/* "$here/stubs.txt" "$here/../windows/bcryptprimitives.c" <(wine --version) | sha256sum)
if [ "$(cat "$dir/stamp" 2>/dev/null)" = "$stamp" ]; then exit 0; fi
rm -rf "$programs" "$template" "$dir/stamp"
mkdir -p "$programs" "$template"

for source in "$here"/programs/*.c; do
    x86_64-w64-mingw32-gcc -O1 -Wall -Wextra -Wno-unused-parameter -Werror -s -municode \
        -o "$programs/$(basename "$source" .c).exe" "$source"
done
for source in "$here"/msi/*.wxs; do
    (cd "$programs" && wixl -a x64 -o "$(basename "$source" .wxs).msi" "$source")
done
mkdir -p "$programs/tree/tree/docs"
cp "$programs/argv.exe" "$programs/tree/tree/plugin.exe"
echo text >"$programs/tree/tree/docs/read me.txt"
(cd "$programs/tree" && 7z a -tzip ../tree.zip tree >/dev/null)
# wixl does not know the Condition of a Product.
msibuild "$programs/refused.msi" \
    -q "INSERT INTO \`LaunchCondition\` (\`Condition\`, \`Description\`) VALUES ('VersionNT64 > 9000', 'needs a newer Windows')" \
    -q "INSERT INTO \`InstallExecuteSequence\` (\`Action\`, \`Sequence\`) VALUES ('LaunchConditions', 100)"

# Prints the folder that has Wine 10's Windows programs.
newer() {
    local installed keys apt=$dir/apt
    installed=$(wine --version | sed -E 's/^wine-([0-9]+).*/\1/')
    if [ "$installed" -ge 10 ]; then
        find /usr/lib -type d -path '*/wine/x86_64-windows' | head -n 1
        return
    fi
    if [ ! -e "$dir/wine10/cmd.exe" ]; then
        keys=/usr/share/keyrings/debian-archive-keyring.gpg
        mkdir -p "$apt/lists/partial" "$apt/cache/archives/partial" "$dir/wine10"
        echo "deb [signed-by=$keys] http://deb.debian.org/debian trixie main" >"$apt/sources.list"
        local options=(-q -o "Dir::Etc::sourcelist=$apt/sources.list" -o Dir::Etc::sourceparts=- -o "Dir::State::lists=$apt/lists"
            -o "Dir::Cache=$apt/cache" -o APT::Sandbox::User=root -o Acquire::Languages=none)
        (cd "$apt" && apt-get "${options[@]}" update && apt-get "${options[@]}" download libwine:amd64/trixie) >&2
        dpkg-deb --fsys-tarfile "$apt"/libwine_*.deb |
            tar -x -C "$dir/wine10" --strip-components 6 --wildcards '*/x86_64-windows/cmd.exe' '*/x86_64-windows/sc.exe'
        rm -rf "$apt"
    fi
    echo "$dir/wine10"
}
wine10=$(newer)

# Wine leaves a builtin program alone that lies where a native one is looked for; without the mark it is any program.
native() { # FROM TO
    rm -f "$2"
    python3 - "$1" "$2" <<'PYTHON'
import sys
program = bytearray(open(sys.argv[1], "rb").read())
assert program[0x40:0x50] == b"Wine builtin DLL", sys.argv[1]
program[0x40:0x50] = bytes(16)
open(sys.argv[2], "wb").write(program)
PYTHON
}

# A server that stays for the while: without one the prefix is written some seconds after wineboot has ended.
(setsid wineserver -p </dev/null >/dev/null 2>&1)
setarch --addr-no-randomize wine wineboot -i >/dev/null 2>&1
setarch --addr-no-randomize wine winecfg -v win10 >/dev/null 2>&1
wineserver -k
wineserver -w

system32=$template/drive_c/windows/system32
native "$wine10/cmd.exe" "$system32/cmd.exe"
native "$wine10/sc.exe" "$system32/winesc.exe"
install -m 0755 "$programs/sc.exe" "$system32/sc.exe.new"
mv -f "$system32/sc.exe.new" "$system32/sc.exe"
# Programs of Go take their random numbers from a library that Wine has since version 9 only.
if [ ! -e "$system32/bcryptprimitives.dll" ]; then
    x86_64-w64-mingw32-gcc -O1 -Wall -Wextra -Werror -s -shared -o "$system32/bcryptprimitives.dll" \
        "$here/../windows/bcryptprimitives.c" -ladvapi32
fi
mkdir -p "$template/drive_c/recorder" "$system32/sysprep"
while read -r program; do
    rm -f "$system32/$program"
    install -D -m 0755 "$programs/recorder.exe" "$system32/$program"
done < <(grep -v '^#' "$here/stubs.txt")
rm -f "$template"/dosdevices/com* "$template"/dosdevices/lpt*
echo "$stamp" >"$dir/stamp"
