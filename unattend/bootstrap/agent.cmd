@echo off
rem Installs the QEMU guest agent. Its MSI fails as a whole when its VSS registration does; then it is unpacked without
rem custom actions and its service made by hand, which costs only the freezing of file systems.
%SystemRoot%\System32\msiexec.exe /i C:\winimg\qemu-ga-x86_64.msi /qn /norestart /l*v C:\winimg\qga-msi.log
set code=%errorlevel%
>>C:\winimg\bootstrap.part echo qga.msi=%code%
if "%code%"=="0" goto start
if "%code%"=="3010" goto start
%SystemRoot%\System32\msiexec.exe /a C:\winimg\qemu-ga-x86_64.msi /qn TARGETDIR=C:\winimg\qga /l*v C:\winimg\qga-unpack.log
set code=%errorlevel%
>>C:\winimg\bootstrap.part echo qga.unpack=%code%
set from=
if exist C:\winimg\qga\Qemu-ga\qemu-ga.exe set from=C:\winimg\qga\Qemu-ga
if exist C:\winimg\qga\PFiles\Qemu-ga\qemu-ga.exe set from=C:\winimg\qga\PFiles\Qemu-ga
if exist C:\winimg\qga\PFiles64\Qemu-ga\qemu-ga.exe set from=C:\winimg\qga\PFiles64\Qemu-ga
if exist "C:\winimg\qga\Program Files\Qemu-ga\qemu-ga.exe" set from=C:\winimg\qga\Program Files\Qemu-ga
if "%from%"=="" goto failed
%SystemRoot%\System32\xcopy.exe "%from%" "C:\Program Files\Qemu-ga" /e /i /q /r /y >>C:\winimg\qga-copy.log 2>&1
set code=%errorlevel%
>>C:\winimg\bootstrap.part echo qga.copy=%code%
if not "%code%"=="0" goto failed
%SystemRoot%\System32\sc.exe create QEMU-GA binPath= "\"C:\Program Files\Qemu-ga\qemu-ga.exe\" -d --retry-path" start= auto obj= LocalSystem DisplayName= "QEMU Guest Agent" >>C:\winimg\qga-copy.log 2>&1
set code=%errorlevel%
>>C:\winimg\bootstrap.part echo qga.service=%code%
if not "%code%"=="0" goto failed
:start
%SystemRoot%\System32\sc.exe start QEMU-GA >>C:\winimg\qga-start.log 2>&1
set code=%errorlevel%
>>C:\winimg\bootstrap.part echo qga.start=%code%
rem 1056: the MSI has started it already.
if "%code%"=="0" goto end
if "%code%"=="1056" goto end
:failed
set result=failed
:end
