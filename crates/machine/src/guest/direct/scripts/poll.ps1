# Returns a job's output from an offset on, and true if it has ended.
param([string] $Id, [long] $Offset)
$ErrorActionPreference = 'Stop'
# boot.ps1 is inserted here.
$folder = "$env:ProgramData\winimg-jobs\$Id"
$answer = [ordered]@{ boot = (Get-Boot); known = $false; ended = $false; exit = $null; error = $null; output = ''; size = [long]0 }
if ([System.IO.Directory]::Exists($folder)) {
    $answer.known = $true
    # Check for the end first, so that the file has all output before it.
    if ([System.IO.File]::Exists("$folder\status.json")) {
        $status = [System.IO.File]::ReadAllText("$folder\status.json") | ConvertFrom-Json
        $answer.ended = $true
        $answer.exit = $status.exit
        $answer.error = $status.error
    }
    if ([System.IO.File]::Exists("$folder\output.bin")) {
        $file = [System.IO.File]::Open("$folder\output.bin", 'Open', 'Read', 'ReadWrite, Delete')
        try {
            $answer.size = $file.Length
            $count = [int][Math]::Max([long]0, [Math]::Min([long]65536, $file.Length - $Offset))
            if ($count -gt 0) {
                [void]$file.Seek($Offset, 'Begin')
                $bytes = New-Object byte[] $count
                $read = $file.Read($bytes, 0, $count)
                $answer.output = [Convert]::ToBase64String($bytes, 0, $read)
            }
        } finally {
            $file.Dispose()
        }
    }
}
[pscustomobject]$answer
