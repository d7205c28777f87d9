@echo off
rem cloudbase-init's first pass, while Setup specializes a clone. Setup runs it with WillReboot=OnRequest: 1 is "restart and
rem go on", 2 "restart and run this again". A failure that lasts would restart the clone for ever, so the third one is the
rem last: Setup goes on, and cloudbase-init's service does its work afterwards.
set DIR=C:\Program Files\Cloudbase Solutions\Cloudbase-Init
set FAILED=C:\Windows\Temp\cloudbase-init-first-pass
if not exist "%DIR%\Python\Scripts\cloudbase-init.exe" exit /b 0
"%DIR%\Python\Scripts\cloudbase-init.exe" --config-file "%DIR%\conf\cloudbase-init-unattend.conf"
set CODE=%ERRORLEVEL%
if "%CODE%"=="0" exit /b 1
if exist "%FAILED%-2.txt" >"%FAILED%-3.txt" echo third failure, exit code %CODE%: Setup goes on
if exist "%FAILED%-2.txt" exit /b 1
if exist "%FAILED%-1.txt" >"%FAILED%-2.txt" echo second failure, exit code %CODE%
if not exist "%FAILED%-1.txt" >"%FAILED%-1.txt" echo first failure, exit code %CODE%
rem Where nothing can be written nothing can be counted.
if not exist "%FAILED%-1.txt" exit /b 1
exit /b 2
