#!/usr/bin/env bash
# "wine.sh PROGRAM ARGUMENTS...": runs a Windows program under Wine, in a prefix of its own below WINIMG_WINDOWS_DIR.
set -euo pipefail
dir=${WINIMG_WINDOWS_DIR:?the folder of the Windows build}
here=$(cd "$(dirname "$0")" && pwd)
# The compiler's libraries are not Wine's.
unset LD_LIBRARY_PATH DISPLAY
export WINEPREFIX=$dir/prefix WINEARCH=win64 WINEDEBUG=-all WINEDLLOVERRIDES='mscoree=;mshtml=;winemenubuilder.exe=d'
system32=$WINEPREFIX/drive_c/windows/system32

# Without address randomization, as ../wine/prefix.sh says.
wine() {
    setarch --addr-no-randomize wine "$@"
}

make_prefix() {
    rm -rf "$WINEPREFIX"
    mkdir -p "$WINEPREFIX"
    # A server that stays for the while: without one the prefix is written some seconds after wineboot has ended.
    (setsid wineserver -p </dev/null >/dev/null 2>&1)
    wine wineboot -i >/dev/null 2>&1
    wine winecfg -v win10 >/dev/null 2>&1
    wineserver -k
    wineserver -w
    if [ ! -e "$system32/bcryptprimitives.dll" ]; then
        x86_64-w64-mingw32-gcc -O1 -Wall -Wextra -Werror -s -shared -o "$system32/bcryptprimitives.dll" \
            "$here/bcryptprimitives.c" -ladvapi32
    fi
    touch "$WINEPREFIX/made"
}

# Tests run side by side, and one of them makes the prefix. Nothing that it starts keeps the lock.
exec 9>"$dir/prefix.lock"
flock 9
[ -e "$WINEPREFIX/made" ] || (make_prefix) 9>&-
# A server that stays for a minute after its last program: one that is just ending refuses the next. The services that it starts
# with the first program stay as long, and would keep that one's output open.
(if setsid wineserver -p60; then wine cmd /c exit; fi) </dev/null >/dev/null 2>&1 9>&- || true
exec 9>&-
exec setarch --addr-no-randomize wine "$@"
