# Sets the machine that is removed when winimg ends; none for an empty id.
param([string] $VmId)
if ($VmId -eq '') { $global:WinimgOwned = '' } else { $global:WinimgOwned = ([guid]$VmId).ToString() }
[ordered]@{ owned = $global:WinimgOwned }
