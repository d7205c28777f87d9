# Reports which requirements of Hyper-V this host meets. Never throws: failed queries count as missing.
$ErrorActionPreference = 'SilentlyContinue'
$os = Get-CimInstance -ClassName Win32_OperatingSystem
$computer = Get-CimInstance -ClassName Win32_ComputerSystem
$service = Get-Service -Name vmms
$module = Get-Module -ListAvailable -Name Hyper-V | Select-Object -First 1
$principal = New-Object System.Security.Principal.WindowsPrincipal ([System.Security.Principal.WindowsIdentity]::GetCurrent())
$hyperVAdministrators = New-Object System.Security.Principal.SecurityIdentifier 'S-1-5-32-578'
$elevated = $principal.IsInRole([System.Security.Principal.WindowsBuiltInRole]::Administrator)
$result = [ordered]@{
    os = ''
    build = ''
    hypervisorPresent = $false
    service = 'missing'
    admin = $elevated -or $principal.IsInRole($hyperVAdministrators)
    module = ''
    nested = $false
}
if ($null -ne $os) {
    $result.os = [string]$os.Caption
    $result.build = [string]$os.Version
}
if ($null -ne $computer) {
    $result.hypervisorPresent = [bool]$computer.HypervisorPresent
    $result.nested = ([string]$computer.Model) -like '*Virtual*'
}
if ($null -ne $service) { $result.service = $service.Status.ToString() }
if ($null -ne $module) { $result.module = $module.Version.ToString() }
$result
