# A small file, whole; of one that is larger than the limit, its size alone.
param([string] $Path, [long] $Limit)
$ErrorActionPreference = 'Stop'
# A volatile key goes with a restart, whatever is done to the clock (Microsoft: RegistryOptions.Volatile).
function Get-Boot {
    $path = 'SOFTWARE\winimg-boot'
    $key = [Microsoft.Win32.Registry]::LocalMachine.OpenSubKey($path)
    if ($null -eq $key) {
        $check = [Microsoft.Win32.RegistryKeyPermissionCheck]::ReadWriteSubTree
        $key = [Microsoft.Win32.Registry]::LocalMachine.CreateSubKey($path, $check, [Microsoft.Win32.RegistryOptions]::Volatile)
        $key.SetValue('id', [guid]::NewGuid().ToString('N'))
    }
    return [string]$key.GetValue('id')
}
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
