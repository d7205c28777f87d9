@echo off
if exist C:\winimg\attach.cwd del C:\winimg\attach.cwd
cd /d "{folder}" || (cd /d C:\ & cd > C:\winimg\attach.cwd & exit /b 1)
call :line
@set winimg_code=%errorlevel%
@cd > C:\winimg\attach.cwd
@exit /b %winimg_code%
:line
{line}
