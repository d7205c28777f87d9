# Makes the built-in Administrator the account that OpenShift's operator logs in as: enabled, called Administrator in every
# language, and with a password that nobody knows, for sysprep has blanked it. The operator comes with its key. Run by the
# clone's answer file.
$ErrorActionPreference = 'Stop'

$account = Get-LocalUser | Where-Object { $_.SID.Value -like 'S-1-5-21-*-500' }

$bytes = New-Object byte[] 48
$random = [System.Security.Cryptography.RandomNumberGenerator]::Create()
$random.GetBytes($bytes)
# The first letters are three of the kinds that Windows' policy asks for.
$password = 'aA1' + [Convert]::ToBase64String($bytes)
$secure = ConvertTo-SecureString -String $password -AsPlainText -Force

Set-LocalUser -SID $account.SID -Password $secure -PasswordNeverExpires $true
Enable-LocalUser -SID $account.SID
if ($account.Name -ne 'Administrator') { Rename-LocalUser -SID $account.SID -NewName 'Administrator' }
exit 0
