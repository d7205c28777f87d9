# Takes this machine out of its cluster and makes it what the image was. Drain and delete the node first:
#     kubectl drain NODE --ignore-daemonsets; kubectl delete node NODE
$ErrorActionPreference = 'Stop'

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

# What wins started lives on without its pod's connection.
Restart-Service -Name rancher-wins -Force
Get-Process -Name 'rancher-wins-flanneld', 'rancher-wins-kube-proxy' -ErrorAction SilentlyContinue | Stop-Process -Force

# The first pods' network is the only one again.
$kept = 'C:\k\flannel\0-containerd-nat.json'
if (Test-Path -LiteralPath $kept) {
    Move-Item -LiteralPath $kept -Destination 'C:\etc\cni\net.d\0-containerd-nat.json' -Force
}
$left = @(
    'C:\etc\cni\net.d\10-flannel.conf'
    'C:\k\flannel\kubeconfig.yaml'
    'C:\k\flannel\serviceaccount'
    'C:\k\kube-proxy\kubeconfig.yaml'
    'C:\k\kube-proxy\serviceaccount'
    'C:\run\flannel'
    'C:\var\lib\cni'
    'C:\var\lib\kubelet\kubeadm-flags.env'
    'C:\var\lib\kubelet\config.yaml'
)
foreach ($path in $left) {
    if (Test-Path -LiteralPath $path) { Remove-Item -LiteralPath $path -Recurse -Force }
}

# Networks of the cluster; nat and External stay. The cmdlets come with the feature Containers.
Get-HnsNetwork | Where-Object { $_.Name -notin 'nat', 'External' } | Remove-HnsNetwork

# kubeadm removes these too; the links and the folders' access go on to the next join.
foreach ($path in 'C:\etc\kubernetes\pki', 'C:\etc\kubernetes\manifests') {
    if (-not (Test-Path -LiteralPath $path)) { New-Item -ItemType Directory -Path $path | Out-Null }
}
$link = 'C:\var\lib\kubelet\etc\kubernetes\pki'
if (-not (Test-Path -LiteralPath $link)) {
    New-Item -ItemType Directory -Path 'C:\var\lib\kubelet\etc\kubernetes' -Force | Out-Null
    New-Item -ItemType SymbolicLink -Path $link -Target 'C:\etc\kubernetes\pki' | Out-Null
}
Restart-Service -Name containerd -Force
exit 0
