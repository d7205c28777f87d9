#!/usr/bin/env bash
# Makes the demo's components: small files in the shapes that real ones come in (a program, a zip, a tar.gz, an MSI),
# with the checksum file that their publisher would put beside them.
set -euo pipefail
out=${1:?usage: components.sh OUTPUT-DIRECTORY}
export TZ=UTC LC_ALL=C
when='2026-01-01 00:00:00'

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$out"
out=$(cd "$out" && pwd)

# A program of 3 MB whose bytes do not compress: what the payload disc is measured with.
program() { # NAME BYTES
    printf 'MZ demo program %s\n' "$1"
    openssl enc -aes-128-ctr -pass "pass:$1" -nosalt -pbkdf2 </dev/zero 2>/dev/null | head -c "$2" || true
}
program node-agent 3000000 >"$work/node-agent.exe"
mkdir -p "$work/runtime/bin" "$work/plugins"
program runtime 1500000 >"$work/runtime/bin/runtime.exe"
program runtime-ctl 500000 >"$work/runtime/bin/runtime-ctl.exe"
printf 'version = 3\r\n' >"$work/runtime/sample config.toml"
for plugin in bridge overlay flannel; do program "$plugin" 200000 >"$work/plugins/$plugin.exe"; done
find "$work" -exec touch -d "$when" {} +

install -m 0644 "$work/node-agent.exe" "$out/node-agent.exe"
tar --sort=name --owner=0 --group=0 --numeric-owner --mtime="$when" -C "$work/runtime" -cf - . | gzip -n >"$out/runtime-1.2.0-windows-amd64.tar.gz"
rm -f "$out/plugins-1.0.0.zip"
(cd "$work" && 7z a -tzip -mtc=off -mx=9 "$out/plugins-1.0.0.zip" plugins >/dev/null)

cat >"$work/config.wxs" <<'WXS'
<?xml version="1.0" encoding="utf-8"?>
<Wix xmlns="http://schemas.microsoft.com/wix/2006/wi">
  <Product Id="6f0f2a3e-6c1d-4a3e-9d55-1d0d1f6a0001" UpgradeCode="6f0f2a3e-6c1d-4a3e-9d55-1d0d1f6a0002"
           Name="Demo Node Configuration" Version="1.4.0" Manufacturer="winimg" Language="1033">
    <Package Id="6f0f2a3e-6c1d-4a3e-9d55-1d0d1f6a0003" InstallerVersion="200" Compressed="yes"/>
    <Media Id="1" Cabinet="config.cab" EmbedCab="yes"/>
    <Property Id="TIER" Value="none"/>
    <Directory Id="TARGETDIR" Name="SourceDir">
      <Directory Id="ProgramFiles64Folder">
        <Directory Id="INSTALLDIR" Name="Demo Node">
          <Component Id="Main" Guid="6f0f2a3e-6c1d-4a3e-9d55-1d0d1f6a0004" Win64="yes">
            <File Id="Agent" Source="node-agent.exe" Name="config-agent.exe" KeyPath="yes"/>
            <RegistryValue Root="HKLM" Key="SOFTWARE\Demo\Node" Name="Tier" Type="string" Value="[TIER]"/>
          </Component>
        </Directory>
      </Directory>
    </Directory>
    <Feature Id="All" Level="1"><ComponentRef Id="Main"/></Feature>
  </Product>
</Wix>
WXS
(cd "$work" && wixl -a x64 -o "$out/node-configuration-1.4.0.msi" config.wxs)
(cd "$out" && sha256sum node-agent.exe runtime-1.2.0-windows-amd64.tar.gz plugins-1.0.0.zip node-configuration-1.4.0.msi >SHA256SUMS)
