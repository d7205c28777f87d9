# Writes a small file under a temporary name, then renames it.
param([string] $Path, [string] $Base64)
$ErrorActionPreference = 'Stop'
# boot.ps1 is inserted here.
$part = "$Path.part"
[System.IO.File]::WriteAllBytes($part, [Convert]::FromBase64String($Base64))
Move-Item -LiteralPath $part -Destination $Path -Force
[pscustomobject]@{ boot = (Get-Boot) }
