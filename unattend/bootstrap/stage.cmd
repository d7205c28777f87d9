@echo off
rem Runs in the specialize pass as "stage.cmd E:", from the answer CD: copies what the next hook needs, and applies the
rem machine settings. Always ends with 0: anything else can stop Windows Setup with a dialog.
if not exist C:\winimg mkdir C:\winimg
%SystemRoot%\System32\xcopy.exe %1\winimg C:\winimg /e /i /q /r /y >C:\winimg\stage.log 2>&1
if exist %1\drv %SystemRoot%\System32\xcopy.exe %1\drv C:\winimg\drv /e /i /q /r /y >>C:\winimg\stage.log 2>&1
if not exist %SystemRoot%\Setup\Scripts mkdir %SystemRoot%\Setup\Scripts
copy /y C:\winimg\SetupComplete.cmd %SystemRoot%\Setup\Scripts\SetupComplete.cmd >>C:\winimg\stage.log 2>&1
copy /y C:\winimg\ErrorHandler.cmd %SystemRoot%\Setup\Scripts\ErrorHandler.cmd >>C:\winimg\stage.log 2>&1
rem For the time of the build; the last step takes it back.
{{#each settings}}
rem {{why}}
%SystemRoot%\System32\reg.exe add "{{key}}" {{value}}/f >>C:\winimg\stage.log 2>&1
{{/each}}
exit /b 0
