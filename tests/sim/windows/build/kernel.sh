# Kernel and modules. The general kernel, not the cloud one: that has no AHCI and no USB storage.
set -euo pipefail
mkdir -p "$cache"
package=$(apt-cache depends linux-image-amd64 | sed -n 's/.*Depends: \(linux-image-[0-9].*-amd64\)$/\1/p' | head -n 1)
[ -n "$package" ] || { echo "build.sh: apt knows no linux-image-amd64: on Debian run apt-get update; elsewhere take a container of Debian" >&2; exit 1; }
deb=$(find "$cache" -name "${package}_*.deb" | sort | tail -n 1)
if [ -z "$deb" ]; then
    (cd "$cache" && apt-get -qq -o APT::Sandbox::User=root download "$package")
    deb=$(find "$cache" -name "${package}_*.deb" | sort | tail -n 1)
fi
kernel=$cache/$(basename "$deb" .deb)
if [ ! -e "$kernel/done" ]; then
    half=$(mktemp -d "$cache/half.XXXXXX")
    dpkg-deb --fsys-tarfile "$deb" | tar -x -C "$half" --wildcards './boot/vmlinuz-*' './lib/modules/*'
    touch "$half/done"
    mv -T "$half" "$kernel" 2>/dev/null || rm -rf "$half" # another build was first
fi
vmlinuz=$(echo "$kernel"/boot/vmlinuz-*)

# module_closure NAME...: file names of the modules, each after what it depends on.
declare -A module_file module_seen
while read -r path; do
    name=${path##*/}
    name=${name%.ko}
    module_file[${name//-/_}]=$path
done < <(find "$kernel/lib/modules" -name '*.ko')
module_walk() {
    local name=${1//-/_} dependency
    [ -z "${module_seen[$name]:-}" ] || return 0
    module_seen[$name]=1
    local path=${module_file[$name]:-}
    [ -n "$path" ] || { echo "build.sh: $package has no module $name" >&2; exit 1; }
    local depends
    depends=$(objcopy -O binary -j .modinfo "$path" /dev/stdout | tr '\0' '\n' | sed -n 's/^depends=//p')
    for dependency in ${depends//,/ }; do
        module_walk "$dependency"
    done
    # Without its signature: checking one takes the emulated processor longer than loading the module. Under Secure Boot the
    # loader switches the check off.
    strip --strip-debug -o "$work/initrd/modules/$name.ko" "$path"
    echo "$name"
}
module_group() { # FILE NAME...
    local list=$1 name
    shift
    module_seen=()
    for name in "$@"; do
        module_walk "$name"
    done >"$work/initrd/modules/$list"
}
