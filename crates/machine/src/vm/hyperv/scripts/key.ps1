# Presses and releases a key (Microsoft: TypeKey method of the Msvm_Keyboard class), given its virtual-key code.
param([guid] $VmId, [int] $Key)
$namespace = 'root\virtualization\v2'
$machine = Get-CimInstance -Namespace $namespace -ClassName Msvm_ComputerSystem -Filter "Name = '$VmId'"
if ($null -eq $machine) { throw "no machine has the id $VmId" }
$keyboard = Get-CimAssociatedInstance -InputObject $machine -ResultClassName Msvm_Keyboard
$answer = Invoke-CimMethod -InputObject $keyboard -MethodName TypeKey -Arguments @{ keyCode = [uint32]$Key }
[ordered]@{ returned = $answer.ReturnValue }
