# Returns the id of this boot.
$ErrorActionPreference = 'Stop'
# boot.ps1 is inserted here.
[pscustomobject]@{ boot = (Get-Boot) }
