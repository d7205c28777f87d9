# Which start of Windows this is.
$ErrorActionPreference = 'Stop'
# boot.ps1 stands here.
[pscustomobject]@{ boot = (Get-Boot) }
