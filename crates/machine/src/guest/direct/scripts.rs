//! Scripts for the guest. The part that all of them share is in `boot.ps1`, which replaces a marker
//! line in each script.
//!
//! Pure. Values are never inserted into a script's text: scripts have parameters.

/// All scripts by name; the channel runs no others.
const SCRIPTS: [(&str, &str); 8] = [
    ("look", include_str!("scripts/look.ps1")),
    ("start", include_str!("scripts/start.ps1")),
    ("poll", include_str!("scripts/poll.ps1")),
    ("forget", include_str!("scripts/forget.ps1")),
    ("put", include_str!("scripts/put.ps1")),
    ("get", include_str!("scripts/get.ps1")),
    ("restart", include_str!("scripts/restart.ps1")),
    ("off", include_str!("scripts/off.ps1")),
];

/// Script that a job's task runs; `start` writes it beside the job.
pub const JOB: &str = include_str!("scripts/job.ps1");

/// Defines `Get-Boot`, which returns the id of the current boot.
const BOOT: &str = include_str!("scripts/boot.ps1");
/// Line that is replaced by `boot.ps1`, after `param`, which must come first.
const MARKER: &str = "# boot.ps1 is inserted here.";

/// Returns the complete scripts by name.
pub fn list_scripts() -> Vec<(&'static str, String)> {
    let all = SCRIPTS.iter();
    all.map(|(name, text)| (*name, with_boot(text))).collect()
}

fn with_boot(script: &str) -> String {
    script.replacen(MARKER, BOOT.trim_end(), 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn boot_takes_the_place_of_the_marker() {
        let script = "param([string] $Id)\n# boot.ps1 is inserted here.\nGet-Boot\n";
        let (head, tail) = ("param([string] $Id)\n", "\nGet-Boot\n");
        assert_eq!(
            with_boot(script),
            format!("{head}{}{tail}", BOOT.trim_end())
        );
    }

    #[test]
    fn every_script_has_one_marker_before_it_asks() {
        for (name, text) in SCRIPTS {
            let lines: Vec<&str> = text.lines().collect();
            let found = |what: &str| lines.iter().position(|l| l.contains(what));
            let (stop, marker) = (found("$ErrorActionPreference"), found(MARKER));
            let asks = found("Get-Boot");
            assert!(stop < marker && marker < asks && asks.is_some(), "{name}");
            assert_eq!(text.matches(MARKER).count(), 1, "{name}");
            assert!(!text.contains("function Get-Boot"), "{name}");
        }
        let whole = list_scripts();
        assert!(
            whole
                .iter()
                .all(|(_, text)| text.contains("function Get-Boot {") && !text.contains(MARKER))
        );
    }
}
