# Returns the machine's screen like Hyper-V Manager: RGB565, little endian, top row first (Microsoft: GetVirtualSystemThumbnailImage method of the
# Msvm_VirtualSystemManagementService class).
param([guid] $VmId, [int] $Width, [int] $Height)
$namespace = 'root\virtualization\v2'
$machine = Get-CimInstance -Namespace $namespace -ClassName Msvm_ComputerSystem -Filter "Name = '$VmId'"
if ($null -eq $machine) { throw "no machine has the id $VmId" }
$settings = Get-CimAssociatedInstance -InputObject $machine -Association Msvm_SettingsDefineState -ResultClassName Msvm_VirtualSystemSettingData
$service = Get-CimInstance -Namespace $namespace -ClassName Msvm_VirtualSystemManagementService
$arguments = @{ TargetSystem = $settings; WidthPixels = [uint16]$Width; HeightPixels = [uint16]$Height }
$answer = Invoke-CimMethod -InputObject $service -MethodName GetVirtualSystemThumbnailImage -Arguments $arguments
if ($answer.ReturnValue -ne 0) { throw "the screen can't be had: code $($answer.ReturnValue)" }
[ordered]@{ width = $Width; height = $Height; rgb565 = [Convert]::ToBase64String([byte[]]$answer.ImageData) }
