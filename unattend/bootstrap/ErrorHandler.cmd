@echo off
rem Windows Setup runs this instead of showing its error box. Keeps the logs, says so on COM1, and powers off: winimg
rem takes a machine that powers off before its agent answers for a failed Setup.
if not exist C:\winimg mkdir C:\winimg
%SystemRoot%\System32\xcopy.exe %SystemRoot%\Panther C:\winimg\Panther /e /i /q /r /y >C:\winimg\error.log 2>&1
>C:\winimg\setup.failed echo result=failed
>\\.\COM1 echo winimg: FAILED: Windows Setup met an error, see C:\winimg\Panther
%SystemRoot%\System32\shutdown.exe /s /t 0
