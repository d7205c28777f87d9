# Kills a job with its child processes, and removes its files.
param([string] $Id)
$ErrorActionPreference = 'Stop'
# boot.ps1 is inserted here.
$folder = "$env:ProgramData\winimg-jobs\$Id"
if ([System.IO.File]::Exists("$folder\pid") -and -not [System.IO.File]::Exists("$folder\status.json")) {
    $process = [System.IO.File]::ReadAllText("$folder\pid")
    [void](cmd.exe /d /c "taskkill.exe /PID $process /T /F >nul 2>&1")
}
Stop-ScheduledTask -TaskName "winimg-$Id" -ErrorAction SilentlyContinue
Unregister-ScheduledTask -TaskName "winimg-$Id" -Confirm:$false -ErrorAction SilentlyContinue
# The task's script may take a moment to close its files.
foreach ($try in 1..20) {
    if (-not [System.IO.Directory]::Exists($folder)) { break }
    Remove-Item -LiteralPath $folder -Recurse -Force -ErrorAction SilentlyContinue
    if ([System.IO.Directory]::Exists($folder)) { Start-Sleep -Milliseconds 100 }
}
$all = "$env:ProgramData\winimg-jobs"
if ([System.IO.Directory]::Exists($all) -and @(Get-ChildItem -LiteralPath $all -Force).Count -eq 0) {
    Remove-Item -LiteralPath $all -Force -ErrorAction SilentlyContinue
}
[pscustomobject]@{ boot = (Get-Boot) }
