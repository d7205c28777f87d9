# Takes this machine out of its cluster and makes it what the image was. Drain and delete the node first:
#     kubectl drain NODE --ignore-daemonsets; kubectl delete node NODE
$ErrorActionPreference = 'Stop'

& 'C:\k\kubeadm.exe' reset --force --cri-socket npipe:////./pipe/containerd-containerd
if ($LASTEXITCODE -ne 0) { throw "kubeadm reset ended with $LASTEXITCODE" }

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

# kubeadm removes these; the links and the folders' access go on to the next join.
foreach ($path in 'C:\etc\kubernetes\pki', 'C:\etc\kubernetes\manifests') {
    if (-not (Test-Path -LiteralPath $path)) { New-Item -ItemType Directory -Path $path | Out-Null }
}
Restart-Service -Name containerd -Force
exit 0
