# The guest's account. The password comes on standard input alone, and nothing shows it.
param([string] $User, [string] $Password)
New-Object System.Management.Automation.PSCredential $User, (ConvertTo-SecureString -String $Password -AsPlainText -Force)
