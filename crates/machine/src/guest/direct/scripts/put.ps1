# Writes a small file beside its place, then moves it there.
param([string] $Path, [string] $Base64)
$ErrorActionPreference = 'Stop'
# boot.ps1 stands here.
$part = "$Path.part"
[System.IO.File]::WriteAllBytes($part, [Convert]::FromBase64String($Base64))
Move-Item -LiteralPath $part -Destination $Path -Force
[pscustomobject]@{ boot = (Get-Boot) }
