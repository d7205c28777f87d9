# Imports registerplugin.reg into keys that only TrustedInstaller may write.
# Every key that the file names under HKEY_LOCAL_MACHINE, or the nearest one above it that exists, is taken over for the
# time of the import; afterwards its whole security descriptor is what it was, also when the import fails.
$ErrorActionPreference = 'Stop'
$file = 'C:\k\gmsa\registerplugin.reg'

Add-Type -TypeDefinition @'
using System;
using System.ComponentModel;
using System.Runtime.InteropServices;

public static class Privilege
{
    [StructLayout(LayoutKind.Sequential, Pack = 4)]
    struct One { public int Count; public long Luid; public int Attributes; }

    [DllImport("advapi32.dll", SetLastError = true)]
    static extern bool OpenProcessToken(IntPtr process, int access, out IntPtr token);
    [DllImport("advapi32.dll", SetLastError = true, CharSet = CharSet.Unicode)]
    static extern bool LookupPrivilegeValueW(string system, string name, out long luid);
    [DllImport("advapi32.dll", SetLastError = true)]
    static extern bool AdjustTokenPrivileges(IntPtr token, bool none, ref One wanted, int size, IntPtr was, IntPtr needed);
    [DllImport("kernel32.dll")]
    static extern IntPtr GetCurrentProcess();

    const int AdjustAndQuery = 0x28;
    const int Enabled = 2;

    public static void Enable(string name)
    {
        IntPtr token;
        One wanted = new One();
        wanted.Count = 1;
        wanted.Attributes = Enabled;
        if (!OpenProcessToken(GetCurrentProcess(), AdjustAndQuery, out token)) throw new Win32Exception();
        if (!LookupPrivilegeValueW(null, name, out wanted.Luid)) throw new Win32Exception();
        AdjustTokenPrivileges(token, false, ref wanted, 0, IntPtr.Zero, IntPtr.Zero);
        // It succeeds even when the account does not have the privilege; the last error tells.
        if (Marshal.GetLastWin32Error() != 0) throw new Win32Exception();
    }
}
'@

$all = [System.Security.AccessControl.AccessControlSections]'Owner, Group, Access'
$system = New-Object System.Security.Principal.SecurityIdentifier 'S-1-5-18'
$machine = [Microsoft.Win32.Registry]::LocalMachine

function Open-Key([string] $path, [System.Security.AccessControl.RegistryRights] $rights) {
    $machine.OpenSubKey($path, [Microsoft.Win32.RegistryKeyPermissionCheck]::ReadWriteSubTree, $rights)
}

function Get-NearestKey([string] $path) {
    while ($path) {
        $key = Open-Key $path 'ReadPermissions'
        if ($key) {
            $key.Close()
            return $path
        }
        $path = $path -replace '\\?[^\\]*$', ''
    }
}

# The descriptor as it was; the key is SYSTEM's until it is put back.
function Lock-Key([string] $path) {
    $key = Open-Key $path 'ReadPermissions'
    $was = $key.GetAccessControl($all).GetSecurityDescriptorBinaryForm()
    $key.Close()

    $key = Open-Key $path 'TakeOwnership'
    $owned = New-Object System.Security.AccessControl.RegistrySecurity
    $owned.SetOwner($system)
    $key.SetAccessControl($owned)
    $key.Close()

    $key = Open-Key $path 'ReadPermissions, ChangePermissions'
    $open = $key.GetAccessControl([System.Security.AccessControl.AccessControlSections]::Access)
    $rules = $open.GetAccessRules($true, $false, [System.Security.Principal.SecurityIdentifier])
    foreach ($rule in $rules) {
        if ($rule.AccessControlType -eq 'Deny') {
            [void] $open.RemoveAccessRule($rule)
        }
    }
    $full = New-Object System.Security.AccessControl.RegistryAccessRule($system, 'FullControl', 'Allow')
    $open.AddAccessRule($full)
    $key.SetAccessControl($open)
    $key.Close()
    return , $was
}

function Unlock-Key([string] $path, [byte[]] $was) {
    $security = New-Object System.Security.AccessControl.RegistrySecurity
    $security.SetSecurityDescriptorBinaryForm($was, $all)
    $key = Open-Key $path 'ChangePermissions, TakeOwnership'
    $key.SetAccessControl($security)
    $key.Close()
}

[Privilege]::Enable('SeTakeOwnershipPrivilege')
# Giving a key back to TrustedInstaller means naming an owner other than oneself.
[Privilege]::Enable('SeRestorePrivilege')

$paths = @('SYSTEM\CurrentControlSet\Control\CCG\COMClasses')
foreach ($line in Get-Content -LiteralPath $file) {
    if ($line -match '^\[-?HKEY_LOCAL_MACHINE\\(.+)\]\s*$') {
        $paths += $Matches[1]
    }
}
$nearest = @($paths | ForEach-Object { Get-NearestKey $_ } | Sort-Object -Unique)

# In the order of the paths, so that what lies below a key gets its own descriptor back after the key itself.
$taken = [ordered]@{}
$code = 0
try {
    foreach ($path in $nearest) {
        $taken[$path] = Lock-Key $path
    }
    $import = Start-Process -FilePath 'C:\Windows\System32\reg.exe' -ArgumentList 'import', $file -NoNewWindow -Wait -PassThru
    $code = $import.ExitCode
} finally {
    foreach ($path in $taken.Keys) {
        Unlock-Key $path $taken[$path]
    }
}
if ($code -ne 0) {
    throw "reg.exe import ended with $code"
}
exit 0
