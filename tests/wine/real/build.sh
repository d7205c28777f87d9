#!/usr/bin/env bash
# Builds the Windows programs that the packs install from their Go modules, in the packs' versions, each once. Without Go there are
# none, and the tests say so. Not for installing: the packs take what the publishers built and signed.
#
#   build.sh FOLDER
set -euo pipefail
dir=${1:?usage: build.sh FOLDER}
here=$(cd "$(dirname "$0")" && pwd)
packs=$here/../../../recipes/packs
command -v go >/dev/null || { echo "no Go: the real programs are not built" >&2; exit 0; }
mkdir -p "$dir"
dir=$(cd "$dir" && pwd)
work=$(mktemp -d "$dir/.go.XXXXXX")
trap 'rm -rf "$work"' EXIT
export GOOS=windows GOARCH=amd64 CGO_ENABLED=0 GOFLAGS="${GOFLAGS-} -p=1"

# version PACK VARIABLE: the variable's default.
version() {
    local found
    found=$(sed -nE "s/^$2 *= *(\{ default = )?\"([^\"]+)\".*/\2/p" "$packs/$1.toml")
    echo "${found:?no $2 in $1.toml}"
}

# made NAME STAMP COMMAND...: runs the command, which leaves the program in $work, unless the program is there from the same.
made() {
    local program=$dir/$1.exe stamp=$2
    [ "$(cat "$program.made" 2>/dev/null)" != "$stamp" ] || return 0
    echo "$1.exe: $stamp"
    "${@:3}"
    mv "$work/$1.exe" "$program"
    echo "$stamp" >"$program.made"
}

# built NAME FOLDER PACKAGE VERSION [LINKER FLAGS]: FOLDER's go.mod and go.sum say what else goes into it.
built() {
    made "$1" "$3@$4 ${5-}" nice -n 5 go -C "$2" build -mod=readonly -buildvcs=false -trimpath -ldflags="-s -w ${5-}" -o "$work/$1.exe" "$3"
}

# downloaded MODULE VERSION: the folder of a module that is built as it is.
downloaded() {
    go mod download "$1@$2"
    go list -m -f '{{.Dir}}' "$1@$2"
}

# pinned FOLDER MODULE VERSION: the versions stand in a go.mod, where the module asks for what lies beside it in its repository.
pinned() {
    local found
    found=$(cd "$here/$1" && go list -m -f '{{.Version}}' "$2")
    [ "$found" = "$3" ] || { echo "tests/wine/real/$1/go.mod has $2 $found, and the pack $3" >&2; exit 1; }
}

crictl=v$(version crictl crictl_version)
module=sigs.k8s.io/cri-tools
built crictl "$(downloaded $module "$crictl")" $module/cmd/crictl "$crictl" "-X $module/pkg/version.Version=$crictl"

cni=v$(version cni cni_version)
module=github.com/containernetworking/plugins
for plugin in main/windows/win-bridge main/windows/win-overlay ipam/host-local; do
    built "${plugin##*/}" "$(downloaded $module "$cni")" $module/plugins/$plugin "$cni" "-X $module/pkg/utils/buildversion.BuildVersion=$cni"
done

csi=v$(version csi-proxy csi_proxy_version)
module=github.com/kubernetes-csi/csi-proxy
pinned csi-proxy $module "$csi"
built csi-proxy "$here/csi-proxy" $module/cmd/csi-proxy "$csi" "-X main.version=$csi"

flannel=v$(version flannel flannel_version)
module=github.com/flannel-io/flannel
built flanneld "$(downloaded $module "$flannel")" $module "$flannel" "-X $module/pkg/version.Version=$flannel"

containerd=v$(version containerd containerd_version)
module=github.com/containerd/containerd/v2
source=$(downloaded $module "$containerd")
for program in containerd ctr containerd-stress; do
    built $program "$source" $module/cmd/$program "$containerd" "-X $module/version.Version=$containerd"
done
# Not the shim, containerd-shim-runhcs-v1: a module that it needs (github.com/Microsoft/cosesign1go) cannot be had from the proxy.

kubernetes=$(version kubernetes kubernetes_semver)
pinned kubernetes k8s.io/kubernetes "$kubernetes"
IFS=. read -r major minor _ <<<"${kubernetes#v}"
from=k8s.io/component-base/version
flags="-X $from.gitVersion=$kubernetes -X $from.gitMajor=$major -X $from.gitMinor=$minor"
built kube-log-runner "$here/kubernetes" k8s.io/component-base/logs/kube-log-runner "$kubernetes" "$flags"
for program in kubelet kubeadm kubectl kube-proxy; do
    built $program "$here/kubernetes" k8s.io/kubernetes/cmd/$program "$kubernetes" "$flags"
done
