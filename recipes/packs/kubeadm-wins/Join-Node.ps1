# Joins this machine to a cluster:
#     C:\k\Join-Node.ps1 -ControlPlane cp.example.com:6443 -Token abcdef.0123456789abcdef -CaCertHash sha256:0123...
# or with a JoinConfiguration of your own: C:\k\Join-Node.ps1 -ConfigFile join.yaml
param(
    [string] $ControlPlane,
    [string] $Token,
    [string] $CaCertHash,
    [string] $ConfigFile
)
$ErrorActionPreference = 'Stop'

foreach ($service in 'containerd', 'rancher-wins') {
    if ((Get-Service -Name $service).Status -ne 'Running') { Start-Service -Name $service }
}

$own = ''
if (-not $ConfigFile) {
    if (-not ($ControlPlane -and $Token -and $CaCertHash)) {
        throw 'say -ControlPlane, -Token and -CaCertHash, or -ConfigFile'
    }
    # A file that administrators alone may read, so that the token stands in no command line.
    $own = 'C:\etc\kubernetes\join.yaml'
    $ConfigFile = $own
    $text = @"
apiVersion: kubeadm.k8s.io/v1beta4
kind: JoinConfiguration
discovery:
  bootstrapToken:
    apiServerEndpoint: "$ControlPlane"
    token: "$Token"
    caCertHashes: ["$CaCertHash"]
nodeRegistration:
  name: "$($env:COMPUTERNAME.ToLowerInvariant())"
  criSocket: npipe:////./pipe/containerd-containerd
"@
    Set-Content -LiteralPath $own -Value $text -Encoding Ascii
}

$code = 1
try {
    & 'C:\k\kubeadm.exe' join --config $ConfigFile
    $code = $LASTEXITCODE
} finally {
    if ($own) { Remove-Item -LiteralPath $own -Force }
}
if ($code -ne 0) { throw "kubeadm join ended with $code" }

# kubeadm has started kubelet; it reads its flags at its start (C:\var\lib\kubelet\kubeadm-flags.env).
$deadline = (Get-Date).AddMinutes(2)
while ((Get-Service -Name kubelet).Status -ne 'Running') {
    if ((Get-Date) -gt $deadline) { throw 'kubelet does not run two minutes after the join: C:\var\log\kubelet' }
    Start-Sleep -Seconds 2
}
exit 0
