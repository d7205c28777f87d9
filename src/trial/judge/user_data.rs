//! Whether cloudbase-init could use the user data, and whether what they run ended well.

use super::Expected;
use crate::trial::state::{AgentLog, CloudbaseInit, ScriptEnd};
use crate::verify::{Finding, Report, Verdict};

/// By these a script asks for a restart, for another turn or for both (cloudbase-init: `plugins/common/execcmd.py`).
const ASKS: std::ops::RangeInclusive<i64> = 1001..=1003;

pub fn judge(found: &CloudbaseInit, log: &AgentLog, expected: &Expected, report: &mut Report) {
    if !found.runs_user_data {
        let finding = expected
            .left_out("cloudbase-init is not set up to use user data")
            .cure("add UserDataPlugin to `plugins` of cloudbase-init.conf");
        return report.add(Err(finding), None);
    }
    let all = log.runs.iter().map(|run| &run.user_data);
    let refused: Vec<&String> = all.clone().flat_map(|run| &run.refused).collect();
    report.add(used(refused), None);
    for script in all.flat_map(|run| &run.scripts) {
        report.add(ended(script), None);
    }
}

fn used(refused: Vec<&String>) -> Verdict {
    match refused.is_empty() {
        true => Ok(()),
        false => Err(Finding::error("cloudbase-init could not use the user data")
            .lines(refused)
            .cure("see which kinds it takes: `#cloud-config`, `#ps1`, `rem cmd`, MIME parts (cloudbase-init: doc/source/userdata.rst)")),
    }
}

fn ended(script: &ScriptEnd) -> Verdict {
    match script.code {
        0 => Ok(()),
        code if ASKS.contains(&code) => Ok(()),
        code => Err(Finding::error("a script of the user data failed on the clone")
            .expected("exit code 0, or 1001 to 1003 to ask for a restart or another turn")
            .found(format!("exit code {code}"))
            .lines(&script.said)
            .cure("see its words, where `debug` of cloudbase-init.conf is on; what the user data themselves have is shown as ***")),
    }
}
