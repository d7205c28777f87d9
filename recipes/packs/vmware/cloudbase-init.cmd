@echo off
rem cloudbase-init's stage in Setup: its exit code becomes the one that Setup's WillReboot=OnRequest understands.
set DIR=C:\Program Files\Cloudbase Solutions\Cloudbase-Init
if not exist "%DIR%\Python\Scripts\cloudbase-init.exe" exit /b 0
"%DIR%\Python\Scripts\cloudbase-init.exe" --config-file "%DIR%\conf\cloudbase-init-unattend.conf"
if errorlevel 1 exit /b 2
exit /b 1
