# Takes this machine out of its cluster: services, networks and what kubeadm left.
$ErrorActionPreference = 'Stop'
foreach ($service in 'flanneld', 'kube-proxy') {
    Stop-Service -Name $service -Force
    Set-Service -Name $service -StartupType Manual
}
& 'C:\k\kubeadm.exe' reset --force --cri-socket npipe:////./pipe/containerd-containerd
if ($LASTEXITCODE -ne 0) { throw "kubeadm reset ended with $LASTEXITCODE" }

# kubeadm has emptied C:\var\lib\kubelet. Made by kubelet, this folder would be SYSTEM's and the administrators', and pods of
# ordinary users could not read their tokens (kubernetes#75049): the access list of the image.
$pods = 'C:\var\lib\kubelet\pods'
if (-not (Test-Path -LiteralPath $pods)) { New-Item -ItemType Directory -Path $pods | Out-Null }
& 'C:\Windows\System32\icacls.exe' $pods '/inheritance:r' '/grant:r' '*S-1-5-18:(OI)(CI)(F)' '*S-1-5-32-544:(OI)(CI)(F)' '*S-1-5-32-545:(OI)(CI)(RX)' '*S-1-3-0:(OI)(CI)(IO)(F)'
if ($LASTEXITCODE -ne 0) { throw "icacls ended with $LASTEXITCODE" }
& 'C:\Windows\System32\icacls.exe' $pods '/grant' '*S-1-5-32-545:(CI)(AD)' '*S-1-5-32-545:(CI)(IO)(WD)'
if ($LASTEXITCODE -ne 0) { throw "icacls ended with $LASTEXITCODE" }

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
