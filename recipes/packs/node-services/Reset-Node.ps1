# Takes this machine out of its cluster: services, networks and what kubeadm left.
$ErrorActionPreference = 'Stop'
foreach ($service in 'flanneld', 'kube-proxy') {
    Stop-Service -Name $service -Force
    Set-Service -Name $service -StartupType Manual
}
& 'C:\k\kubeadm.exe' reset --force --cri-socket npipe:////./pipe/containerd-containerd
if ($LASTEXITCODE -ne 0) { throw "kubeadm reset ended with $LASTEXITCODE" }

# The cmdlets come with the feature Containers.
Get-HnsPolicyList | Remove-HnsPolicyList
Get-HnsEndpoint | Remove-HnsEndpoint
Get-HnsNetwork | Where-Object { $_.Name -ne 'nat' } | Remove-HnsNetwork

$left = 'C:\k\config', 'C:\var\lib\cni', 'C:\run\flannel', 'C:\var\run\flannel'
foreach ($path in $left) {
    if (Test-Path -LiteralPath $path) { Remove-Item -LiteralPath $path -Recurse -Force }
}
Restart-Service -Name containerd -Force
exit 0
