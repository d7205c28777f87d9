# Starts a program as SYSTEM in its own task: a broken session does not stop it, and it runs like a service. A second call for the same job
# does nothing.
param([string] $Id, [string] $Program, [string] $Line, [string] $Job)
$ErrorActionPreference = 'Stop'
# boot.ps1 is inserted here.
$boot = Get-Boot
$folder = "$env:ProgramData\winimg-jobs\$Id"
if (-not [System.IO.File]::Exists("$folder\started")) {
    [void][System.IO.Directory]::CreateDirectory($folder)
    [System.IO.File]::WriteAllText("$folder\job.ps1", $Job)
    $values = ConvertTo-Json -InputObject @{ program = $Program; line = $Line } -Compress
    [System.IO.File]::WriteAllText("$folder\job.json", $values)
    $shell = "$env:SystemRoot\System32\WindowsPowerShell\v1.0\powershell.exe"
    $arguments = "-NoLogo -NoProfile -NonInteractive -ExecutionPolicy Bypass -File $folder\job.ps1 $folder"
    $task = @{
        TaskName = "winimg-$Id"
        Action = New-ScheduledTaskAction -Execute $shell -Argument $arguments
        Principal = New-ScheduledTaskPrincipal -UserId 'S-1-5-18' -LogonType ServiceAccount -RunLevel Highest
        # The default priority of tasks, 7, is lower than that of services.
        Settings = New-ScheduledTaskSettingsSet -AllowStartIfOnBatteries -DontStopIfGoingOnBatteries -ExecutionTimeLimit ([TimeSpan]::Zero) -Priority 4
        Force = $true
    }
    [void](Register-ScheduledTask @task)
    [System.IO.File]::WriteAllText("$folder\started", $boot)
    Start-ScheduledTask -TaskName "winimg-$Id"
} else {
    $boot = [System.IO.File]::ReadAllText("$folder\started")
}
[pscustomobject]@{ boot = $boot }
