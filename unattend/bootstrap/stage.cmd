@echo off
rem Runs in the specialize pass as "stage.cmd E:", from the answer CD: copies what the next hook needs, and applies the
rem machine settings. Always ends with 0: anything else can stop Windows Setup with a dialog.
if not exist C:\winimg mkdir C:\winimg
%SystemRoot%\System32\xcopy.exe %1\winimg C:\winimg /e /i /q /r /y >C:\winimg\stage.log 2>&1
if exist %1\drv %SystemRoot%\System32\xcopy.exe %1\drv C:\winimg\drv /e /i /q /r /y >>C:\winimg\stage.log 2>&1
if not exist %SystemRoot%\Setup\Scripts mkdir %SystemRoot%\Setup\Scripts
copy /y C:\winimg\SetupComplete.cmd %SystemRoot%\Setup\Scripts\SetupComplete.cmd >>C:\winimg\stage.log 2>&1
copy /y C:\winimg\ErrorHandler.cmd %SystemRoot%\Setup\Scripts\ErrorHandler.cmd >>C:\winimg\stage.log 2>&1
rem No "discoverable" flyout, and new networks are private.
%SystemRoot%\System32\reg.exe add "HKLM\SYSTEM\CurrentControlSet\Control\Network\NewNetworkWindowOff" /f >>C:\winimg\stage.log 2>&1
%SystemRoot%\System32\reg.exe add "HKLM\SOFTWARE\Policies\Microsoft\Windows NT\CurrentVersion\NetworkList\Signatures\FirstNetwork" /v Category /t REG_DWORD /d 1 /f >>C:\winimg\stage.log 2>&1
rem No privacy page, no Server Manager, no shutdown reason dialog.
%SystemRoot%\System32\reg.exe add "HKLM\SOFTWARE\Policies\Microsoft\Windows\OOBE" /v DisablePrivacyExperience /t REG_DWORD /d 1 /f >>C:\winimg\stage.log 2>&1
%SystemRoot%\System32\reg.exe add "HKLM\SOFTWARE\Microsoft\ServerManager" /v DoNotOpenServerManagerAtLogon /t REG_DWORD /d 1 /f >>C:\winimg\stage.log 2>&1
%SystemRoot%\System32\reg.exe add "HKLM\SOFTWARE\Policies\Microsoft\Windows NT\Reliability" /v ShutdownReasonOn /t REG_DWORD /d 0 /f >>C:\winimg\stage.log 2>&1
rem No updates of their own accord while the image is built.
%SystemRoot%\System32\reg.exe add "HKLM\SOFTWARE\Policies\Microsoft\Windows\WindowsUpdate\AU" /v NoAutoUpdate /t REG_DWORD /d 1 /f >>C:\winimg\stage.log 2>&1
%SystemRoot%\System32\reg.exe add "HKLM\SOFTWARE\Policies\Microsoft\Windows\WindowsUpdate\AU" /v NoAutoRebootWithLoggedOnUsers /t REG_DWORD /d 1 /f >>C:\winimg\stage.log 2>&1
rem The machine's clock is UTC, as on AWS, Azure and most OpenStack clouds.
%SystemRoot%\System32\reg.exe add "HKLM\SYSTEM\CurrentControlSet\Control\TimeZoneInformation" /v RealTimeIsUniversal /t REG_DWORD /d 1 /f >>C:\winimg\stage.log 2>&1
exit /b 0
