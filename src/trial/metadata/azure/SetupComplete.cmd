@echo off
rem In place of Azure's provisioning agent, which calls an image's own script when it is done.
if exist C:\Windows\OEM\SetupComplete2.cmd call C:\Windows\OEM\SetupComplete2.cmd
