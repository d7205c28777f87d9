# Blocks HTTP to Azure's wire server for everybody but LocalSystem and the group WireServerAccess: containers reach it as
# users of their own (CVE-2021-27075). The rule has a fixed name, so that a second run replaces it.
$ErrorActionPreference = 'Stop'
$name = 'Block-Outbound-168.63.129.16-port-80-for-cve-2021-27075'

$group = (Get-LocalGroup -Name 'WireServerAccess').SID.Value
# Who is denied here is not matched by the rule, and so is not blocked.
$users = 'O:LSD:(D;;CC;;;S-1-5-18)(D;;CC;;;' + $group + ')(A;;CC;;;S-1-1-0)'

Get-NetFirewallRule -Name $name -ErrorAction SilentlyContinue | Remove-NetFirewallRule
$rule = @{
    Name          = $name
    DisplayName   = $name
    Direction     = 'Outbound'
    Protocol      = 'TCP'
    RemoteAddress = '168.63.129.16'
    RemotePort    = 80
    Action        = 'Block'
    Profile       = 'Any'
    LocalUser     = $users
}
New-NetFirewallRule @rule | Out-Null

# Windows may store the descriptor in another form than it was given: only the group's SID has to be in it.
$made = Get-NetFirewallRule -Name $name
$limit = ($made | Get-NetFirewallSecurityFilter).LocalUser
if ($made.Enabled -ne 'True' -or "$limit" -notmatch "$([regex]::Escape($group))\b") {
    throw "the rule $name does not leave out the group WireServerAccess ($group): enabled $($made.Enabled), users $limit"
}
exit 0
