@echo off
rem Windows Setup runs this as SYSTEM when it has finished, before the logon screen, and ignores its exit code. So the
rem outcome is written to C:\winimg\bootstrap.done, last of all: one "name=code" a step, then "result=ok" or "result=failed".
set result=ok
>C:\winimg\bootstrap.part echo stage=0
{{#if drivers}}
for %%d in ({{drivers}}) do call C:\winimg\driver.cmd %%d
{{/if}}
if exist C:\winimg\qemu-ga-x86_64.msi call C:\winimg\agent.cmd
>>C:\winimg\bootstrap.part echo result=%result%
copy /y C:\winimg\bootstrap.part C:\winimg\bootstrap.done >nul
exit /b 0
