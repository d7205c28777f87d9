@echo off
rem Installs VMware Tools once, on the clone, and takes its installer away. Setup stops at a command that fails, so this
rem one always ends with 0; what happened is in the logs.
set DIR=C:\Windows\Setup\VMware
set LOG=C:\Windows\Temp\vmware-tools
if exist "%ProgramFiles%\VMware\VMware Tools\vmtoolsd.exe" goto gone
"%DIR%\VMware-tools-x64.exe" /S /v"/qn REBOOT=R ADDLOCAL=ALL /l*v %LOG%-msi.log"
>"%LOG%.log" echo VMware Tools' installer ended with %ERRORLEVEL%
:gone
if exist "%ProgramFiles%\VMware\VMware Tools\vmtoolsd.exe" del /f /q "%DIR%\VMware-tools-x64.exe"
exit /b 0
