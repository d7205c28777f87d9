# A restart removes a volatile key, regardless of the clock (Microsoft: RegistryOptions.Volatile).
function Get-Boot {
    $path = 'SOFTWARE\winimg-boot'
    $key = [Microsoft.Win32.Registry]::LocalMachine.OpenSubKey($path)
    if ($null -eq $key) {
        $check = [Microsoft.Win32.RegistryKeyPermissionCheck]::ReadWriteSubTree
        $key = [Microsoft.Win32.Registry]::LocalMachine.CreateSubKey($path, $check, [Microsoft.Win32.RegistryOptions]::Volatile)
        $key.SetValue('id', [guid]::NewGuid().ToString('N'))
    }
    return [string]$key.GetValue('id')
}
