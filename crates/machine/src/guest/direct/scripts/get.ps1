# Returns a small file; only the size if it exceeds the limit.
param([string] $Path, [long] $Limit)
$ErrorActionPreference = 'Stop'
# boot.ps1 is inserted here.
$answer = [ordered]@{ boot = (Get-Boot); there = $false; size = [long]0; base64 = $null }
if ([System.IO.File]::Exists($Path)) {
    $file = [System.IO.File]::Open($Path, 'Open', 'Read', 'ReadWrite, Delete')
    try {
        $answer.there = $true
        $answer.size = $file.Length
        if ($file.Length -le $Limit) {
            $bytes = New-Object System.IO.MemoryStream
            $file.CopyTo($bytes)
            $answer.base64 = [Convert]::ToBase64String($bytes.ToArray())
        }
    } finally {
        $file.Dispose()
    }
}
[pscustomobject]$answer
