@echo off
rem In place of Azure's provisioning agent, in the specialize pass, as SYSTEM: leaves what an image may count on there.
rem %1: the machine's identifier. %2: the user that the virtual machine was asked for.
if exist "%~dp0..\CustomData.bin" xcopy /q /r /y "%~dp0..\CustomData.bin" C:\AzureData\ || exit /b 1
rem Azure writes its own over an image's.
xcopy /q /r /y "%~dp0SetupComplete.cmd" C:\Windows\Setup\Scripts\ || exit /b 1
rem Hyper-V's data exchange gives it, which QEMU has not.
reg.exe add "HKLM\SOFTWARE\Microsoft\Virtual Machine\Guest\Parameters" /v VirtualMachineId /d %1 /f || exit /b 1
rem Azure renames the built-in account, and leaves a disabled one disabled.
powershell.exe -NoProfile -NonInteractive -Command "Get-LocalUser | Where-Object { $_.SID.Value -like 'S-1-5-21-*-500' } | Rename-LocalUser -NewName '%2'" || exit /b 1
exit /b 0
