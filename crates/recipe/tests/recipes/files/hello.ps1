Write-Output "hello {{not a variable}}"
