@echo off
rem "payload.cmd 0007" runs s\0007.cmd of the payload disc, whatever letter its drive has, and passes its exit code on.
rem The list runs backwards, so that the first letter wins.
set drive=
for %%d in (Z Y X W V U T S R Q P O N M L K J I H G F E D) do if exist %%d:\winimg.payload set drive=%%d:
if "%drive%"=="" goto missing
call %drive%\s\%1.cmd
exit /b %errorlevel%
:missing
echo winimg: no drive from D: to Z: holds winimg.payload; is the payload disc in its drive?
exit /b 9
