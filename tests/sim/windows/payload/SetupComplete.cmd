@echo off
rem Before the first logon: the driver of the agent port and the agent.
for %%d in (D E F G H) do if exist %%d:\vioserial\2k22\amd64\vioser.inf pnputil.exe /add-driver %%d:\vioserial\2k22\amd64\vioser.inf /install >> C:\winimg\bootstrap.log 2>&1
for %%d in (D E F G H) do if exist %%d:\guest-agent\qemu-ga-x86_64.msi msiexec.exe /i %%d:\guest-agent\qemu-ga-x86_64.msi /qn /norestart /l*v C:\winimg\qga-msi.log
echo msiexec %ERRORLEVEL% >> C:\winimg\bootstrap.log
sc.exe query QEMU-GA >> C:\winimg\bootstrap.log 2>&1
echo OK > C:\winimg\bootstrap.done
exit /b 0
