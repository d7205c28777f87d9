# Of a local account: what net.exe cannot say. No password is printed, passed on or kept.
param(
    [Parameter(Mandatory = $true)][string] $Name,
    [switch] $Random,
    [switch] $NeverExpires
)
$ErrorActionPreference = 'Stop'
$ProgressPreference = 'SilentlyContinue'
try {
    $known = Get-LocalUser | Where-Object { $_.Name -eq $Name }
    if ($Random -and -not $known) {
        $bytes = New-Object byte[] 48
        $generator = [Security.Cryptography.RandomNumberGenerator]::Create()
        $generator.GetBytes($bytes)
        $generator.Dispose()
        # 64 characters, and four more so that every policy finds the kinds it asks for.
        $text = [Convert]::ToBase64String($bytes) + 'aZ0+'
        # Character by character: no cmdlet sees the text, so no log of PowerShell does.
        $password = New-Object Security.SecureString
        foreach ($character in $text.ToCharArray()) { $password.AppendChar($character) }
        New-LocalUser -Name $Name -Password $password -AccountNeverExpires | Out-Null
    }
    if ($NeverExpires) {
        Set-LocalUser -Name $Name -PasswordNeverExpires $true
    }
}
catch {
    [Console]::Error.WriteLine(($_ | Out-String).Trim())
    exit 1
}
exit 0
