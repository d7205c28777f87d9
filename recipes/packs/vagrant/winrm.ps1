# WinRM as Vagrant's communicator uses it: plain HTTP and Basic. Every network is made Private by no one here, so the
# check of the network's category is passed over.
$ErrorActionPreference = 'Stop'
# packs/hardening.toml may have turned the service off.
Set-Service -Name WinRM -StartupType Automatic
Enable-PSRemoting -SkipNetworkProfileCheck -Force | Out-Null
Set-Item -Path WSMan:\localhost\Service\AllowUnencrypted -Value $true
Set-Item -Path WSMan:\localhost\Service\Auth\Basic -Value $true
Set-Item -Path WSMan:\localhost\MaxTimeoutms -Value 1800000
exit 0
