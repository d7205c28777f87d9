# Another Kubernetes version for this node, from a folder that holds kubeadm.exe, kubelet.exe, kubectl.exe,
# kube-log-runner.exe and kube-proxy.exe, each with its .sha256 of dl.k8s.io beside it:
#     C:\k\Update-Node.ps1 -Source D:\v1.36.2
# Drain the node before, uncordon it afterwards. Nothing is changed unless every file is what its digest says.
param([Parameter(Mandatory = $true)] [string] $Source)
$ErrorActionPreference = 'Stop'

$programs = 'kubeadm.exe', 'kubelet.exe', 'kubectl.exe', 'kube-log-runner.exe', 'kube-proxy.exe'
foreach ($program in $programs) {
    $file = Join-Path $Source $program
    $wanted = (Get-Content -LiteralPath "$file.sha256" -Raw).Trim().Split(' ')[0]
    $found = (Get-FileHash -LiteralPath $file -Algorithm SHA256).Hash
    if ($found -ne $wanted) { throw "$file has the digest $found, not $wanted" }
}

# kubeadm first: it is the one that knows how to get to its own version.
Copy-Item -LiteralPath (Join-Path $Source 'kubeadm.exe') -Destination 'C:\k\kubeadm.exe' -Force
& 'C:\k\kubeadm.exe' upgrade node
if ($LASTEXITCODE -ne 0) { throw "kubeadm upgrade node ended with $LASTEXITCODE" }

Stop-Service -Name kubelet -Force
# A program that still runs cannot be written over.
$deadline = (Get-Date).AddMinutes(1)
while (Get-Process -Name kubelet, kube-log-runner -ErrorAction SilentlyContinue) {
    if ((Get-Date) -gt $deadline) { throw 'kubelet has not ended in a minute' }
    Start-Sleep -Seconds 1
}
foreach ($program in $programs) {
    Copy-Item -LiteralPath (Join-Path $Source $program) -Destination "C:\k\$program" -Force
}
Start-Service -Name kubelet
# The pod of kube-proxy starts a copy of the new one when it is deleted.
exit 0
