//! A guest whose clock was set: what goes by the time of day is now wrong by hours, in either direction.

use std::path::Path;

use serde_json::Value;

use crate::refusal::Refusal;

/// What tells the time of day, or is reckoned from it (Microsoft: DateTime.UtcNow, Get-Date, Win32_OperatingSystem.LastBootUpTime).
const CLOCKS: [&str; 4] = ["datetime", "get-date", "lastbootuptime", "get-uptime"];

/// Refuses a guest script that asks for it, and a script that it is given to run.
pub fn must_not_matter(scripts: &Path, script: &str, arguments: &[Value]) -> Result<(), Refusal> {
    let own = std::fs::read_to_string(scripts.join(format!("{script}.ps1")));
    let own = own.map_err(|e| Refusal::stand_in(format!("{script}.ps1: {e}")))?;
    let given = arguments.iter().filter_map(Value::as_str);
    match given.chain([own.as_str()]).find_map(clock) {
        Some(clock) => Err(Refusal::stand_in(format!(
            "the guest's clock has jumped, and the script {script} goes by it: {clock}"
        ))),
        None => Ok(()),
    }
}

/// The first line that tells the time, but for comments.
fn clock(text: &str) -> Option<&str> {
    let lines = text.lines().map(str::trim);
    let mut code = lines.filter(|line| !line.starts_with('#'));
    code.find(|line| {
        let line = line.to_lowercase();
        CLOCKS.iter().any(|clock| line.contains(clock))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_script_that_asks_for_the_time_is_found() {
        assert_eq!(
            clock("$a = 1\n    $ended = [DateTime]::UtcNow\n"),
            Some("$ended = [DateTime]::UtcNow")
        );
        assert_eq!(clock("$when = (get-date)"), Some("$when = (get-date)"));
        let watch = "# Not Get-Date.\n$watch = [System.Diagnostics.Stopwatch]::StartNew()";
        assert_eq!(clock(watch), None);
    }
}
