@echo off
rem Specialize: copies the payload to C: and puts SetupComplete.cmd where Setup runs it. Always ends with 0.
mkdir C:\winimg
xcopy %1\winimg\*.* C:\winimg\ /s /e /y /q
mkdir %WINDIR%\Setup\Scripts
copy /y C:\winimg\SetupComplete.cmd %WINDIR%\Setup\Scripts\SetupComplete.cmd
exit /b 0
