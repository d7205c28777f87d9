# Removes leftovers of jobs, then shuts Windows down.
$ErrorActionPreference = 'Stop'
# boot.ps1 is inserted here.
$boot = Get-Boot
Get-ScheduledTask -TaskName 'winimg-*' -ErrorAction SilentlyContinue | Unregister-ScheduledTask -Confirm:$false -ErrorAction SilentlyContinue
Remove-Item -LiteralPath "$env:ProgramData\winimg-jobs" -Recurse -Force -ErrorAction SilentlyContinue
[void](cmd.exe /d /c "%SystemRoot%\System32\shutdown.exe /s /t 0 >nul 2>&1")
[pscustomobject]@{ boot = $boot }
