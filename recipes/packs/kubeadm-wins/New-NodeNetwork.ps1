# Makes the two container networks that a node has before its pods: "nat", which the first pods run in, and "External",
# which makes the Host Networking Service put its switch onto the machine's adapter before Flannel does it under load.
# Run at each start by the task \Kubernetes\Node network. Networks that are there already are left alone.
param(
    [ValidateSet('vxlan', 'host-gw')] [string] $Backend = 'vxlan',
    [string] $NatSubnet = '172.19.208.0/20',
    [string] $NatGateway = '172.19.208.1'
)
$ErrorActionPreference = 'Stop'

# The machine that builds the image has this folder; the image has not. No network may be in an image.
if (Test-Path -LiteralPath 'C:\winimg') { exit 0 }

# Setup renames adapters until it is through.
$deadline = (Get-Date).AddMinutes(10)
$setup = 'HKLM:\SOFTWARE\Microsoft\Windows\CurrentVersion\Setup\State'
while ((Get-ItemProperty -LiteralPath $setup).ImageState -ne 'IMAGE_STATE_COMPLETE') {
    if ((Get-Date) -gt $deadline) { throw 'Windows Setup has not come to its end in 10 minutes' }
    Start-Sleep -Seconds 5
}

# The call that microsoft/SDN's hns.psm1 makes. Windows has no program of its own for it.
Add-Type -TypeDefinition @'
using System.Runtime.InteropServices;
public static class HostNetworking
{
    [DllImport("vmcompute.dll")]
    public static extern void HNSCall(
        [MarshalAs(UnmanagedType.LPWStr)] string method,
        [MarshalAs(UnmanagedType.LPWStr)] string path,
        [MarshalAs(UnmanagedType.LPWStr)] string request,
        [MarshalAs(UnmanagedType.LPWStr)] out string response);
}
'@

function Invoke-Hns([string] $Method, [string] $Path, [string] $Request) {
    $response = ''
    [HostNetworking]::HNSCall($Method, $Path, $Request, [ref] $response)
    $answer = $response | ConvertFrom-Json
    if (-not $answer.Success) {
        throw "the Host Networking Service refuses $Method ${Path}: $($answer.Error)"
    }
    $answer.Output
}

function Add-Network([hashtable] $Network) {
    $there = @(Invoke-Hns 'GET' '/networks/' '' | Where-Object { $_.Name -eq $Network.Name })
    if ($there.Count -gt 0) {
        if ($there[0].Type -ne $Network.Type) {
            throw "the network $($Network.Name) is of the type $($there[0].Type), not $($Network.Type)"
        }
        return
    }
    Invoke-Hns 'POST' '/networks' ($Network | ConvertTo-Json -Depth 10 -Compress) | Out-Null
}

Start-Service -Name hns

Add-Network @{
    Name    = 'nat'
    Type    = 'NAT'
    Subnets = @(@{ AddressPrefix = $NatSubnet; GatewayAddress = $NatGateway })
}

# The adapter by its default route, not by the name "Ethernet": the name differs between hypervisors and languages.
$route = $null
while (-not $route) {
    $route = Get-NetRoute -DestinationPrefix '0.0.0.0/0' -ErrorAction SilentlyContinue |
        Sort-Object -Property RouteMetric | Select-Object -First 1
    if (-not $route) {
        if ((Get-Date) -gt $deadline) { throw 'no adapter has a default route' }
        Start-Sleep -Seconds 5
    }
}
$adapter = (Get-NetAdapter -InterfaceIndex $route.ifIndex).Name
# On a virtual switch already, as after the first run.
if ($adapter -like 'vEthernet (*') { exit 0 }

# Flannel makes networks of the same type: an overlay, or a bridge between hosts of one segment.
$type = if ($Backend -eq 'vxlan') { 'Overlay' } else { 'L2Bridge' }
$subnet = @{ AddressPrefix = '192.168.255.0/30'; GatewayAddress = '192.168.255.1' }
if ($type -eq 'Overlay') {
    $subnet.Policies = @(@{ Type = 'VSID'; VSID = 9999 })
}
Add-Network @{
    Name               = 'External'
    Type               = $type
    NetworkAdapterName = $adapter
    Subnets            = @($subnet)
}
exit 0
