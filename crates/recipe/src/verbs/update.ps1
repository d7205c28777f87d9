<#
Windows Update without a user. winimg runs "update.ps1 -Round N" for N = 1, 2, ... and restarts Windows between the
rounds; "-Round 0" comes last, installs nothing, and fails when something is left.

The work is done by this same file in a scheduled task of SYSTEM (-Work): Windows Update refuses some calls from remote
logons (Microsoft: Using WUA From a Remote Computer). What came of a round is in round-N.json beside this file.

Exit codes: 0 nothing is left or the next round tries again, 3010 restart and go on, 1 failed (only -Round 0).
#>
param(
    [Parameter(Mandatory = $true)][int] $Round,
    [switch] $Work
)
$ErrorActionPreference = 'Stop'
$ProgressPreference = 'SilentlyContinue'
$folder = Split-Path -Parent $MyInvocation.MyCommand.Path
$self = $MyInvocation.MyCommand.Path
$report = Join-Path $folder "round-$Round.json"
$nothingLeft = Join-Path $folder 'nothing-left'
$log = Join-Path $folder 'update.log'
$task = 'winimg update'
$wanted = Get-Content -Raw -Path (Join-Path $folder 'update.json') | ConvertFrom-Json

function Write-Line([string] $Text) {
    Write-Output $Text
    Add-Content -Path $log -Value $Text -Encoding UTF8
}

# Whole or not at all: the waiting side reads it as soon as it is there.
function Save-Report($Found) {
    $new = "$report.new"
    ConvertTo-Json -InputObject $Found -Depth 5 | Set-Content -Path $new -Encoding UTF8
    Move-Item -Path $new -Destination $report -Force
}

function Get-KB($Update) {
    foreach ($number in $Update.KBArticleIDs) {
        "KB$number"
    }
}

function Test-Wanted($Update) {
    if ($Update.InstallationBehavior.CanRequestUserInput) {
        return $false
    }
    if ($wanted.kbs.Count -gt 0) {
        $listed = @(Get-KB $Update | Where-Object { $wanted.kbs -contains $_ })
        if ($listed.Count -eq 0) {
            return $false
        }
    }
    if ($wanted.categories.Count -gt 0) {
        $listed = @($Update.Categories | Where-Object { $wanted.categories -contains $_.CategoryID })
        if ($listed.Count -eq 0) {
            return $false
        }
    }
    return $true
}

function Find-Update($Session) {
    $criteria = 'IsInstalled=0 and IsHidden=0'
    # Optional ones are offered to people who browse; a KB that the recipe names is wanted all the same.
    if ($wanted.kbs.Count -eq 0) {
        $criteria = "$criteria and BrowseOnly=0"
    }
    $searcher = $Session.CreateUpdateSearcher()
    $found = $searcher.Search($criteria)
    if ($found.ResultCode -ne 2) {
        throw "the search for updates ended with result code $($found.ResultCode)"
    }
    foreach ($update in $found.Updates) {
        if (Test-Wanted $update) {
            $update
        }
    }
}

# Of the KBs that the recipe names, those that Windows does not have.
function Get-Missing($Session) {
    if ($wanted.kbs.Count -eq 0) {
        return
    }
    $there = @(Get-HotFix | ForEach-Object { $_.HotFixID })
    $searcher = $Session.CreateUpdateSearcher()
    $found = $searcher.Search('IsInstalled=1')
    foreach ($update in $found.Updates) {
        $there += @(Get-KB $update)
    }
    $wanted.kbs | Where-Object { $there -notcontains $_ }
}

function Install-Found($Session, $Found) {
    $wanted = New-Object -ComObject Microsoft.Update.UpdateColl
    foreach ($update in $Found) {
        if (-not $update.EulaAccepted) {
            $update.AcceptEula()
        }
        [void] $wanted.Add($update)
    }
    $downloader = $Session.CreateUpdateDownloader()
    $downloader.Updates = $wanted
    [void] $downloader.Download()
    $ready = New-Object -ComObject Microsoft.Update.UpdateColl
    foreach ($update in $wanted) {
        if ($update.IsDownloaded) {
            [void] $ready.Add($update)
        }
        else {
            New-Result $update 'could not be downloaded' 0
        }
    }
    if ($ready.Count -eq 0) {
        return
    }
    $installer = $Session.CreateUpdateInstaller()
    $installer.Updates = $ready
    $outcome = $installer.Install()
    for ($n = 0; $n -lt $ready.Count; $n++) {
        $one = $outcome.GetUpdateResult($n)
        $words = 'failed'
        if ($one.ResultCode -eq 2 -or $one.ResultCode -eq 3) {
            $words = 'installed'
            if ($one.RebootRequired) {
                $words = 'installed, restart needed'
            }
        }
        New-Result $ready.Item($n) $words $one.HResult
    }
}

function New-Result($Update, [string] $Words, [int] $Code) {
    $kb = @(Get-KB $Update) -join ' '
    if ($kb -eq '') {
        $kb = 'no KB'
    }
    [pscustomobject] @{ kb = $kb; title = $Update.Title; result = $Words; code = ('0x{0:x8}' -f $Code) }
}

function Start-Work {
    $found = [ordered] @{ round = $Round; updates = @(); left = @(); missing = @(); restart = $false; error = '' }
    try {
        $session = New-Object -ComObject Microsoft.Update.Session
        $session.ClientApplicationID = 'winimg'
        $updates = @(Find-Update $session)
        if ($Round -eq 0) {
            $found.left = @($updates | ForEach-Object { New-Result $_ 'not installed' 0 })
            $found.missing = @(Get-Missing $session)
        }
        elseif ($updates.Count -gt 0) {
            $found.updates = @(Install-Found $session $updates)
        }
        $system = New-Object -ComObject Microsoft.Update.SystemInfo
        $found.restart = [bool] $system.RebootRequired
    }
    catch {
        $found.error = "$_"
    }
    Save-Report $found
}

# Servicing goes on for a while after a start and after an installation; what is begun meanwhile can be cut off.
function Wait-Quiet([int] $Minutes) {
    $limit = (Get-Date).AddMinutes($Minutes)
    $quiet = 0
    while ($quiet -lt 15 -and (Get-Date) -lt $limit) {
        Start-Sleep -Seconds 1
        $quiet = $quiet + 1
        if (Get-Process -Name TiWorker -ErrorAction SilentlyContinue) {
            $quiet = 0
        }
    }
}

function Invoke-Task {
    Remove-Item -Path $report -Force -ErrorAction SilentlyContinue
    $arguments = "-NoLogo -NoProfile -NonInteractive -ExecutionPolicy Bypass -File ""$self"" -Round $Round -Work"
    $powershell = Join-Path $PSHOME 'powershell.exe'
    $action = New-ScheduledTaskAction -Execute $powershell -Argument $arguments
    $system = New-ScheduledTaskPrincipal -UserId 'S-1-5-18' -RunLevel Highest
    # 7, the usual priority of a task, is that of background work.
    $day = New-TimeSpan -Hours 24
    $settings = New-ScheduledTaskSettingsSet -Priority 4 -ExecutionTimeLimit $day -MultipleInstances IgnoreNew
    [void] (Register-ScheduledTask -TaskName $task -Action $action -Principal $system -Settings $settings -Force)
    try {
        Start-ScheduledTask -TaskName $task
        $limit = (Get-Date).AddHours(24)
        $idle = 0
        while (-not (Test-Path -Path $report) -and $idle -lt 60 -and (Get-Date) -lt $limit) {
            Start-Sleep -Seconds 1
            $idle = $idle + 1
            if ((Get-ScheduledTask -TaskName $task).State -eq 'Running') {
                $idle = 0
            }
        }
        if (-not (Test-Path -Path $report)) {
            $info = Get-ScheduledTaskInfo -TaskName $task
            throw ('the scheduled task left no report; its last result is 0x{0:x8}' -f $info.LastTaskResult)
        }
    }
    finally {
        Unregister-ScheduledTask -TaskName $task -Confirm:$false
    }
    Get-Content -Raw -Path $report | ConvertFrom-Json
}

if ($Work) {
    Start-Work
    exit 0
}
if ($Round -gt 0 -and (Test-Path -Path $nothingLeft)) {
    Write-Line "round ${Round}: nothing is left"
    exit 0
}
Wait-Quiet 30
try {
    $done = Invoke-Task
}
catch {
    $done = [pscustomobject] @{ updates = @(); left = @(); missing = @(); restart = $false; error = "$_" }
}
foreach ($update in $done.updates) {
    Write-Line "$($update.kb): $($update.result) ($($update.code)) - $($update.title)"
}
if ($done.error -ne '') {
    Write-Line "round ${Round}: $($done.error)"
}
if ($Round -eq 0) {
    foreach ($update in $done.left) {
        Write-Line "$($update.kb): not installed - $($update.title)"
    }
    foreach ($kb in $done.missing) {
        Write-Line "${kb}: not installed and not offered to this Windows; it may be a part of a later update"
    }
    if ($done.error -ne '' -or @($done.left).Count -gt 0 -or @($done.missing).Count -gt 0) {
        exit 1
    }
    Write-Line 'nothing is left to install'
    exit 0
}
Wait-Quiet 30
if (@($done.updates).Count -gt 0 -or $done.restart) {
    exit 3010
}
if ($done.error -eq '') {
    [void] (New-Item -Path $nothingLeft -ItemType File -Force)
    Write-Line "round ${Round}: nothing is left"
    exit 0
}
# A network that is not up yet, a server that is busy: the next round finds out.
Start-Sleep -Seconds (30 * $Round)
exit 0
