# Script of a job, which its task runs as SYSTEM. stdout and stderr are written to one file as they arrive; the exit code is written last,
# with an atomic rename.
param([string] $Folder)
$ErrorActionPreference = 'Stop'
$status = @{ exit = $null; error = $null }
try {
    $job = [System.IO.File]::ReadAllText("$Folder\job.json") | ConvertFrom-Json
    $info = New-Object System.Diagnostics.ProcessStartInfo
    $info.FileName = $job.program
    $info.Arguments = $job.line
    $info.UseShellExecute = $false
    $info.CreateNoWindow = $true
    $info.RedirectStandardInput = $true
    $info.RedirectStandardOutput = $true
    $info.RedirectStandardError = $true
    $output = New-Object System.IO.FileStream "$Folder\output.bin", 'Create', 'Write', 'ReadWrite, Delete', 1
    $process = [System.Diagnostics.Process]::Start($info)
    [System.IO.File]::WriteAllText("$Folder\pid", [string]$process.Id)
    $process.StandardInput.Close()
    $open = New-Object System.Collections.ArrayList
    foreach ($stream in @($process.StandardOutput.BaseStream, $process.StandardError.BaseStream)) {
        $buffer = New-Object byte[] 65536
        $read = $stream.ReadAsync($buffer, 0, $buffer.Length)
        [void]$open.Add(@{ stream = $stream; buffer = $buffer; read = $read })
    }
    $ended = $null
    while ($open.Count -gt 0) {
        $reads = [System.Threading.Tasks.Task[]]@($open | ForEach-Object { $_.read })
        $which = [System.Threading.Tasks.Task]::WaitAny($reads, 200)
        if ($which -ge 0) {
            $one = $open[$which]
            $count = $one.read.Result
            if ($count -eq 0) {
                $open.RemoveAt($which)
            } else {
                $output.Write($one.buffer, 0, $count)
                $output.Flush()
                $one.read = $one.stream.ReadAsync($one.buffer, 0, $one.buffer.Length)
            }
        } elseif ($process.HasExited) {
            # A remaining child process may keep the outputs open forever.
            # A stopwatch is independent of changes of the clock.
            if ($null -eq $ended) { $ended = [System.Diagnostics.Stopwatch]::StartNew() }
            if ($ended.Elapsed.TotalSeconds -gt 5) { break }
        }
    }
    $process.WaitForExit()
    $output.Dispose()
    $status.exit = [long]$process.ExitCode
} catch {
    $cause = $_.Exception
    while ($null -ne $cause.InnerException) { $cause = $cause.InnerException }
    $status.error = $cause.Message
}
[System.IO.File]::WriteAllText("$Folder\status.part", (ConvertTo-Json -InputObject $status -Compress))
[System.IO.File]::Move("$Folder\status.part", "$Folder\status.json")
