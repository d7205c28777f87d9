# Gives the machine a name that Kubernetes takes as it is: an RFC 1123 label, lower case, at most 15 letters. Names that
# are one already stay, so the task that runs this at each start acts once. Not in the build, whose folder tells it: a
# restart there would end the step that runs.
if (Test-Path -LiteralPath 'C:\winimg') { exit 0 }
$ErrorActionPreference = 'Stop'

$deadline = (Get-Date).AddMinutes(10)
$setup = 'HKLM:\SOFTWARE\Microsoft\Windows\CurrentVersion\Setup\State'
while ((Get-ItemProperty -LiteralPath $setup).ImageState -ne 'IMAGE_STATE_COMPLETE') {
    if ((Get-Date) -gt $deadline) { throw 'Windows Setup has not come to its end in 10 minutes' }
    Start-Sleep -Seconds 5
}

# With its case; the environment's COMPUTERNAME is upper case always.
$name = [System.Net.Dns]::GetHostName()
if ($name -cmatch '^[a-z0-9]([-a-z0-9]*[a-z0-9])?$') { exit 0 }

$letters = [char[]] 'abcdefghijklmnopqrstuvwxyz0123456789'
$tail = -join (1..5 | ForEach-Object { $letters | Get-Random })
Rename-Computer -NewName "winhost-$tail" -Force -Restart
exit 0
