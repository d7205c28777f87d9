@echo off
rem "driver.cmd viostor" adds one driver and notes the outcome. 259: no such device here, or a better driver is in place;
rem 3010 and 1641: a restart will finish it. All three are good (Microsoft: PnPUtil return values).
%SystemRoot%\System32\pnputil.exe /add-driver C:\winimg\drv\%1\*.inf /subdirs /install >>C:\winimg\drivers.log 2>&1
set code=%errorlevel%
>>C:\winimg\bootstrap.part echo driver.%1=%code%
if "%code%"=="0" goto end
if "%code%"=="259" goto end
if "%code%"=="1641" goto end
if "%code%"=="3010" goto end
set result=failed
:end
