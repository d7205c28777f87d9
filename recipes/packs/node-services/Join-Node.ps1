# Joins this machine to a cluster whose Windows nodes run kube-proxy and flanneld as services:
#     C:\k\Join-Node.ps1 -ConfigFile join.yaml -KubeConfig config
# ConfigFile: a JoinConfiguration of kubeadm. KubeConfig: with it flanneld and kube-proxy speak to the cluster.
param(
    [Parameter(Mandatory = $true)] [string] $ConfigFile,
    [Parameter(Mandatory = $true)] [string] $KubeConfig
)
$ErrorActionPreference = 'Stop'
$node = [System.Net.Dns]::GetHostName().ToLowerInvariant()

function Wait-Until([scriptblock] $Condition, [string] $What) {
    $deadline = (Get-Date).AddMinutes(5)
    while (-not (& $Condition)) {
        if ((Get-Date) -gt $deadline) { throw "not after five minutes: $What" }
        Start-Sleep -Seconds 2
    }
}

foreach ($service in 'flanneld', 'kube-proxy', 'kubelet') { Stop-Service -Name $service -Force }
Copy-Item -LiteralPath $KubeConfig -Destination 'C:\k\config' -Force
# A credential: not for the machine's users.
& 'C:\Windows\System32\icacls.exe' 'C:\k\config' '/inheritance:r' '/grant:r' '*S-1-5-18:(F)' '*S-1-5-32-544:(F)'
if ($LASTEXITCODE -ne 0) { throw "icacls ended with $LASTEXITCODE" }

# flanneld asks for its node by this name (flannel: Documentation/configuration.md).
$parameters = 'HKLM:\SYSTEM\CurrentControlSet\Services\flanneld\Parameters'
New-ItemProperty -LiteralPath $parameters -Name 'AppEnvironmentExtra' -PropertyType MultiString -Value @("NODE_NAME=$node") -Force | Out-Null

& 'C:\k\kubeadm.exe' join --config $ConfigFile
if ($LASTEXITCODE -ne 0) { throw "kubeadm join ended with $LASTEXITCODE" }
Wait-Until { (Get-Service -Name kubelet).Status -eq 'Running' } 'kubelet runs'

# From now on with Windows. flanneld makes the network that kube-proxy looks for, and ends once with an error while the
# adapter moves to the switch; then all is there and kube-proxy starts again.
foreach ($service in 'kube-proxy', 'flanneld') { Set-Service -Name $service -StartupType Automatic }
Start-Service -Name kube-proxy
Start-Service -Name flanneld
Wait-Until { Get-HnsNetwork | Where-Object { $_.Name -eq 'cbr0' } } 'the network cbr0 is there'
Wait-Until { Test-Path -LiteralPath 'C:\run\flannel\subnet.env' } 'flanneld has a subnet'
Restart-Service -Name kube-proxy -Force
Start-Service -Name flanneld
exit 0
