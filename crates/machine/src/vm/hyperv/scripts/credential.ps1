# Creates the guest's credential. The password is only passed on standard input and never shown.
param([string] $User, [string] $Password)
New-Object System.Management.Automation.PSCredential $User, (ConvertTo-SecureString -String $Password -AsPlainText -Force)
