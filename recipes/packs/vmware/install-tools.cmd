@echo off
rem Installs VMware Tools on the clone and takes its installer away. It runs in Setup's specialize pass, and once more at the
rem end of Setup where that did not succeed (packs/cloudbase-init.toml). In the specialize pass the installer may stall for
rem ever (cschneegans/unattend-generator, issue 89), so nobody waits for it for more than 10 minutes. Setup stops at a
rem command that fails, so this one always ends with 0; what happened is in the logs.
set DIR=C:\Windows\Setup\VMware
set LOG=C:\Windows\Temp\vmware-tools
if "%1"=="run" goto run
C:\Windows\System32\sc.exe query VMTools >nul 2>&1 && goto gone
if not exist "%DIR%\VMware-tools-x64.exe" exit /b 0
if exist "%LOG%.log" del /f /q "%LOG%.log"
start "" /b C:\Windows\System32\cmd.exe /d /c "%DIR%\install-tools.cmd" run
set LEFT=120
:wait
if exist "%LOG%.log" goto ended
C:\Windows\System32\ping.exe -n 6 127.0.0.1 >nul
set /a LEFT-=1
if %LEFT% gtr 0 goto wait
>"%LOG%-limit.log" echo VMware Tools' installer did not end within 10 minutes and was ended
for %%i in (VMware-tools-x64.exe setup.exe setup64.exe msiexec.exe) do C:\Windows\System32\taskkill.exe /f /t /im %%i >nul 2>&1
exit /b 0
:ended
C:\Windows\System32\sc.exe query VMTools >nul 2>&1 || exit /b 0
:gone
if exist "%DIR%\VMware-tools-x64.exe" del /f /q "%DIR%\VMware-tools-x64.exe"
exit /b 0
:run
"%DIR%\VMware-tools-x64.exe" /S /v"/qn REBOOT=R ADDLOCAL=ALL /l*v %LOG%-msi.log"
>"%LOG%.log" echo VMware Tools' installer ended with %ERRORLEVEL%
exit /b 0
