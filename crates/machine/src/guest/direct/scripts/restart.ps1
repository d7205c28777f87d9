# Restarts Windows at once.
$ErrorActionPreference = 'Stop'
# boot.ps1 is inserted here.
$boot = Get-Boot
[void](cmd.exe /d /c "%SystemRoot%\System32\shutdown.exe /r /t 0 /f >nul 2>&1")
[pscustomobject]@{ boot = $boot }
