#!/usr/bin/env bash
# Makes the demo's components: small files in the shapes and under the names that the real ones have, so that the packs in
# recipes/packs take them as they are. Programs are PE images (program.py), the MSI is a real one, and all are signed by a
# certificate authority that lives in OUTPUT-DIRECTORY/ca only. Checksum files are written as each publisher writes them;
# SHA256SUMS is signed by minisign. No signature is timestamped: a timestamp's serial number is another one each time.
set -euo pipefail
out=${1:?usage: components.sh OUTPUT-DIRECTORY}
export TZ=UTC LC_ALL=C SOURCE_DATE_EPOCH=1767225600
when='2026-01-01 00:00:00'
kubernetes=v1.36.4
containerd=2.3.4
cloudbase_init=1.1.8
crictl=1.36.0
cni=1.9.1
wins=0.5.5
csi_proxy=1.3.0
site_agent=(1.0.0 1.1.0)

here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$out"
out=$(cd "$out" && pwd)

sign() { # FILE
    local extended=()
    [[ $1 != *.msi ]] || extended=(-add-msi-dse)
    rm -f "$1.signed"
    osslsigncode sign "${extended[@]}" -h sha256 -certs "$out/ca/signer.pem" -key "$out/ca/signer.key" -st "$(date -d "$when" +%s)" \
        -n "$(basename "$1") of the winimg demo" -in "$1" -out "$1.signed" >"$work/sign.log" 2>&1 ||
        { cat "$work/sign.log" >&2; exit 1; }
    mv "$1.signed" "$1"
}

program() { # FILE FILL ANSWER...
    mkdir -p "$(dirname "$1")"
    python3 "$here/program.py" "$1" --fill "$2" "${@:3}"
    sign "$1"
}

bare_hex() { sha256sum "$1" | cut -d' ' -f1 >"$1.sha256"; } # dl.k8s.io and kubernetes-sigs: the digest alone
with_name() { (cd "$(dirname "$1")" && sha256sum "$(basename "$1")" >"$2"); } # sha256sum's own format

archive() { # FILE.tar.gz FOLDER
    tar --sort=name --owner=0 --group=0 --numeric-owner --mtime="$when" -C "$2" -cf - . | gzip -n >"$1"
}

# The medium of Windows has the OpenSSH server as a cabinet.
capability() {
    mkdir -p "$out/cabs"
    echo 'stands for the feature on demand' >"$work/update.mum"
    touch -d "$when" "$work/update.mum"
    (cd "$work" && gcab -c "$out/cabs/OpenSSH-Server-Package~31bf3856ad364e35~amd64~~.cab" update.mum)
}

kubernetes() {
    local bin=$out/kubernetes
    local json
    json=$(printf '{\n  "clientVersion": {\n    "gitVersion": "%s",\n    "platform": "windows/amd64"\n  }\n}\n.' "$kubernetes")
    # 3 MB that do not compress: what the payload disc is measured with.
    program "$bin/kubelet.exe" 3000000 "--version=Kubernetes $kubernetes"$'\n'
    program "$bin/kubeadm.exe" 200000 "version -o short=$kubernetes"$'\n'
    program "$bin/kubectl.exe" 200000 "version --client -o json=${json%.}"
    program "$bin/kube-log-runner.exe" 50000 '--help=Usage: kube-log-runner [--log-file=FILE] PROGRAM...'$'\n'
    program "$bin/kube-proxy.exe" 50000 "--version=Kubernetes $kubernetes"$'\n'
    for file in "$bin"/*.exe; do bare_hex "$file"; done
}

runtime() {
    local name=containerd-$containerd-windows-amd64.tar.gz
    local version="containerd github.com/containerd/containerd/v2 v$containerd"$'\n'
    program "$work/containerd/bin/containerd.exe" 1500000 "--version=$version"
    for tool in ctr containerd-shim-runhcs-v1 containerd-stress; do
        program "$work/containerd/bin/$tool.exe" 100000 "--version=$version"
    done
    archive "$out/$name" "$work/containerd"
    with_name "$out/$name" "$name.sha256sum"

    name=crictl-v$crictl-windows-amd64.tar.gz
    program "$work/crictl/crictl.exe" 100000 "--version=crictl version v$crictl"$'\n'
    archive "$out/$name" "$work/crictl"
    bare_hex "$out/$name"
}

network() {
    local name=cni-plugins-windows-amd64-v$cni.tgz
    for plugin in win-bridge win-overlay host-local flannel; do
        program "$work/cni/$plugin.exe" 100000 "--version=CNI $plugin plugin v$cni"$'\n'
    done
    echo 'Apache License, Version 2.0' >"$work/cni/LICENSE"
    archive "$out/$name" "$work/cni"
    with_name "$out/$name" "$name.sha256"

    name=windows-container-networking-cni-amd64-v0.3.1.zip
    for plugin in nat sdnbridge sdnoverlay; do program "$work/windows-cni/$plugin.exe" 50000 '--version=0.3.1'$'\n'; done
    find "$work/windows-cni" -exec touch -d "$when" {} +
    rm -f "$out/$name"
    (cd "$work/windows-cni" && 7z a -tzip -mtc=off -mx=9 "$out/$name" . >/dev/null)
    with_name "$out/$name" "$name.sha256"
}

# No checksum file of their publishers is usable, so a recipe pins these: SHA256SUMS plays the pin.
services() {
    program "$out/wins.exe" 100000 "--version=wins version v$wins"$'\n'
    program "$out/csi-proxy.exe" 100000 "--version=csi-proxy v$csi_proxy"$'\n'
    for version in "${site_agent[@]}"; do
        program "$out/site-agent-$version.exe" 100000 "--version=site-agent $version"$'\n'
    done
    for tool in sshd ssh-agent; do program "$work/openssh/OpenSSH-Win64/$tool.exe" 50000 "--version=$tool of the demo"$'\n'; done
    find "$work/openssh" -exec touch -d "$when" {} +
    rm -f "$out/OpenSSH-Win64.zip"
    (cd "$work/openssh" && 7z a -tzip -mtc=off -mx=9 "$out/OpenSSH-Win64.zip" . >/dev/null)
    cloudbase_init
    (cd "$out" && sha256sum OpenSSH-Win64.zip wins.exe csi-proxy.exe site-agent-*.exe CloudbaseInitSetup_*_x64.msi >SHA256SUMS)
    minisign -S -s "$out/ca/minisign.key" -t 'SHA256SUMS of the winimg demo' -m "$out/SHA256SUMS" >/dev/null
}

# The layout, service and scripts of the real MSI installed with RUN_SERVICE_AS_LOCAL_SYSTEM=1 (cloudbase-init-installer:
# CloudbaseInitSetup/Product.wxs). Its user needs custom actions in JScript, which no free tool makes.
cloudbase_init() {
    local from=$work/cloudbase-init msi=$out/CloudbaseInitSetup_${cloudbase_init//./_}_x64.msi
    program "$from/bsdtar.exe" 50000 "--version=bsdtar of the demo"$'\n'
    # The stand-in plays both: the service runs what its command line names, and that obeys its configuration.
    program "$from/OpenStackService.exe" 50000 --plays service-runner "--version=OpenStackService of the demo"$'\n'
    program "$from/cloudbase-init.exe" 50000 --plays cloudbase-init "--version=$cloudbase_init"$'\n'
    printf '[DEFAULT]\r\nusername=Admin\r\n' >"$from/cloudbase-init.conf"
    printf '[DEFAULT]\r\nusername=Admin\r\nallow_reboot=false\r\n' >"$from/cloudbase-init-unattend.conf"
    cp "$here/cloudbase-init-unattend.xml" "$from/Unattend.xml"
    printf '%s\r\n' '@echo off' 'mkdir "%SYSTEMROOT%\Setup\Scripts" 2>NUL' 'sc config cloudbase-init start= demand' \
        'echo sc config cloudbase-init start= auto ^&^& net start cloudbase-init > "%SYSTEMROOT%\Setup\Scripts\SetupComplete.cmd"' >"$from/SetSetupComplete.cmd"
    echo 'Local scripts go here.' >"$from/README.txt"
    find "$from" -exec touch -d "$when" {} +
    # wixl and msibuild stamp what they write; this library stops their clock.
    gcc -O1 -shared -fPIC -o "$work/stopclock.so" "$here/../sim/windows/boot/stopclock.c"
    (cd "$from" && LD_PRELOAD=$work/stopclock.so wixl -a x64 -D "VERSION=$cloudbase_init.0" -o "$work/cloudbase-init.msi" "$here/cloudbase-init.wxs")
    # wixl leaves out what a service depends on.
    LD_PRELOAD=$work/stopclock.so msibuild "$work/cloudbase-init.msi" -q "UPDATE \`ServiceInstall\` SET \`Dependencies\`='winmgmt[~]nsi[~]profsvc[~][~]' WHERE \`ServiceInstall\`='Service'"
    # wixl makes the package code up.
    sed -i "s/$(msiinfo suminfo "$work/cloudbase-init.msi" | sed -n 's/^Revision number (UUID): //p')/{6F0F2A3E-6C1D-4A3E-9D55-1D0D1F6A0003}/" "$work/cloudbase-init.msi"
    sign "$work/cloudbase-init.msi"
    mv "$work/cloudbase-init.msi" "$msi"
}

"$here/authority.sh" "$out/ca"
capability
kubernetes
runtime
network
services
