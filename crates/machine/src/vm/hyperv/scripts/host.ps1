# Executes the calls of winimg, one JSON object per line, and answers each with one line. Only calls that are listed here are allowed.
# When its input ends, winimg has ended: then it removes the machine that winimg created.
$ErrorActionPreference = 'Stop'
$ProgressPreference = 'SilentlyContinue'
$WarningPreference = 'SilentlyContinue'
Set-StrictMode -Version 2.0

$Allowed = @(
    'Hyper-V\New-VHD', 'Hyper-V\Set-VHD', 'Hyper-V\Test-VHD', 'Hyper-V\Mount-VHD', 'Hyper-V\Dismount-VHD', 'Hyper-V\Optimize-VHD',
    'Hyper-V\New-VM', 'Hyper-V\Get-VM', 'Hyper-V\Set-VM', 'Hyper-V\Remove-VM', 'Hyper-V\Start-VM', 'Hyper-V\Stop-VM',
    'Hyper-V\Set-VMProcessor', 'Hyper-V\Set-VMMemory', 'Hyper-V\Set-VMFirmware', 'Hyper-V\Set-VMBios', 'Hyper-V\Set-VMComPort',
    'Hyper-V\Set-VMKeyProtector', 'Hyper-V\Enable-VMTPM', 'Hyper-V\Add-VMDvdDrive', 'Hyper-V\Get-VMDvdDrive',
    'Hyper-V\Set-VMDvdDrive', 'Hyper-V\Remove-VMDvdDrive', 'Hyper-V\Get-VMHardDiskDrive', 'Hyper-V\Remove-VMNetworkAdapter',
    'Hyper-V\Get-VMHost', 'Microsoft.PowerShell.Core\New-PSSession', 'Microsoft.PowerShell.Core\Invoke-Command'
)
$Scripts = @('probe', 'credential', 'screen', 'key', 'own')
$Blocks = @('look', 'start', 'poll', 'forget', 'put', 'get', 'restart', 'off')

# Id of the machine that is removed when winimg ends; set by own.ps1.
$global:WinimgOwned = ''
$Kept = @{}

# Converts a parameter: numbers of JSON are long, and special objects represent values that JSON does not have.
function ConvertTo-Argument($value) {
    if ($null -eq $value) { return $null }
    if ($value -is [int]) { return [long]$value }
    if ($value -is [System.Array]) {
        $list = New-Object System.Collections.ArrayList
        foreach ($one in $value) { [void]$list.Add((ConvertTo-Argument $one)) }
        return , $list.ToArray()
    }
    if ($value -is [System.Management.Automation.PSCustomObject]) {
        $names = @($value.PSObject.Properties | ForEach-Object { $_.Name })
        if ($names.Count -eq 1 -and $names[0] -eq '$kept') {
            $wanted = $value.'$kept'
            if ($wanted -is [System.Array]) {
                $list = New-Object System.Collections.ArrayList
                foreach ($name in $wanted) { [void]$list.Add((Get-Kept $name)) }
                return , $list.ToArray()
            }
            return (Get-Kept $wanted)
        }
        if ($names.Count -eq 1 -and $names[0] -eq '$script') {
            $name = $value.'$script'
            if ($Blocks -notcontains $name) { throw "no such guest script: $name" }
            $file = Join-Path $PSScriptRoot "$name.ps1"
            return [scriptblock]::Create([System.IO.File]::ReadAllText($file))
        }
        throw 'an object is no parameter'
    }
    return $value
}

function Get-Kept($name) {
    if (-not $Kept.ContainsKey($name)) { throw "nothing is kept under the name $name" }
    return $Kept[$name]
}

# Converts a property for the answer.
function ConvertTo-Plain($value) {
    if ($null -eq $value) { return $null }
    if ($value -is [string] -or $value -is [bool]) { return $value }
    if ($value -is [enum] -or $value -is [guid]) { return $value.ToString() }
    if ($value -is [timespan]) { return $value.TotalSeconds }
    if ($value -is [datetime]) { return $value.ToString('o') }
    if ($value -is [byte] -or $value -is [int16] -or $value -is [uint16] -or $value -is [int] -or $value -is [uint32]) { return [long]$value }
    if ($value -is [long] -or $value -is [uint64] -or $value -is [double]) { return $value }
    if ($value -is [System.Collections.IEnumerable]) {
        $list = New-Object System.Collections.ArrayList
        foreach ($one in $value) { [void]$list.Add((ConvertTo-Plain $one)) }
        return , $list.ToArray()
    }
    return $value.ToString()
}

function Select-Plain($object, $select) {
    $plain = [ordered]@{}
    if ($object -is [System.Collections.IDictionary]) { $object = New-Object PSObject -Property $object }
    if (@($select) -contains '*') { $select = @($object.PSObject.Properties | ForEach-Object { $_.Name }) }
    foreach ($name in @($select)) {
        $property = $object.PSObject.Properties[$name]
        if ($null -eq $property) { $plain[$name] = $null } else { $plain[$name] = ConvertTo-Plain $property.Value }
    }
    return $plain
}

function Get-Command-Of($call) {
    if ($Allowed -ccontains $call) { return $call }
    if ($call -clike 'script:*' -and $Scripts -ccontains $call.Substring(7)) {
        return (Join-Path $PSScriptRoot ($call.Substring(7) + '.ps1'))
    }
    throw "this call is not allowed: $call"
}

function Invoke-Request($request) {
    $command = Get-Command-Of $request.call
    $with = @{}
    $given = $request.PSObject.Properties['with']
    if ($null -ne $given -and $null -ne $given.Value) {
        foreach ($property in $given.Value.PSObject.Properties) { $with[$property.Name] = ConvertTo-Argument $property.Value }
    }
    if ($request.call -notlike 'script:*') { $with['ErrorAction'] = 'Stop' }
    $objects = @(& $command @with)
    $keep = $request.PSObject.Properties['keep']
    if ($null -ne $keep -and $null -ne $keep.Value) {
        if ($objects.Count -ne 1) { throw "one object is to be kept as $($keep.Value), but there are $($objects.Count)" }
        $Kept[$keep.Value] = $objects[0]
    }
    $names = @()
    $select = $request.PSObject.Properties['select']
    if ($null -ne $select -and $null -ne $select.Value) { $names = $select.Value }
    $done = New-Object System.Collections.ArrayList
    foreach ($object in $objects) {
        if ($null -ne $object) { [void]$done.Add((Select-Plain $object $names)) }
    }
    return [ordered]@{ id = $request.id; done = $done.ToArray() }
}

function Get-Failure($id, $record) {
    return [ordered]@{
        id = $id
        error = [ordered]@{
            message = [string]$record.Exception.Message
            id = [string]$record.FullyQualifiedErrorId
            category = $record.CategoryInfo.Category.ToString()
            type = $record.Exception.GetType().FullName
        }
    }
}

$utf8 = New-Object System.Text.UTF8Encoding $false
$reader = New-Object System.IO.StreamReader ([Console]::OpenStandardInput()), $utf8
$writer = New-Object System.IO.StreamWriter ([Console]::OpenStandardOutput()), $utf8
$writer.NewLine = "`n"
$writer.AutoFlush = $true
$writer.WriteLine('{"ready":1}')

while ($true) {
    $line = $reader.ReadLine()
    if ($null -eq $line) { break }
    $id = 0
    try {
        $request = ConvertFrom-Json -InputObject $line
        $id = $request.id
        $answer = Invoke-Request $request
    } catch {
        $answer = Get-Failure $id $_
    }
    $writer.WriteLine((ConvertTo-Json -InputObject $answer -Depth 8 -Compress))
}

if ($global:WinimgOwned -ne '') {
    $left = Hyper-V\Get-VM -Id $global:WinimgOwned -ErrorAction SilentlyContinue
    if ($null -ne $left) {
        Hyper-V\Stop-VM -VM $left -TurnOff -Force -ErrorAction SilentlyContinue
        Hyper-V\Remove-VM -VM $left -Force -ErrorAction SilentlyContinue
    }
}
exit 0
