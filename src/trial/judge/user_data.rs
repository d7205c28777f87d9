//! Judges if cloudbase-init accepted the user data, and if its scripts succeeded.

use super::ExpectedClone;
use crate::trial::state::{AgentLog, CloudbaseInitState, ScriptEnd};
use crate::verify::{Verdict, VerifyFinding, VerifyReport};

/// Exit codes with which a script requests a restart, another run or both (cloudbase-init:
/// `plugins/common/execcmd.py`).
const ASKS: std::ops::RangeInclusive<i64> = 1001..=1003;

pub fn judge(
    found: &CloudbaseInitState,
    log: &AgentLog,
    expected: &ExpectedClone,
    report: &mut VerifyReport,
) {
    if !found.runs_user_data {
        let finding = expected
            .report_not_configured("cloudbase-init is not configured to use user data")
            .cure("add UserDataPlugin to `plugins` of cloudbase-init.conf");
        return report.add(Err(finding), None);
    }
    let all = log.runs.iter().map(|run| &run.user_data);
    let refused: Vec<&String> = all.clone().flat_map(|run| &run.refused).collect();
    report.add(judge_parts(refused), None);
    for script in all.flat_map(|run| &run.scripts) {
        report.add(judge_script(script), None);
    }
}

fn judge_parts(refused: Vec<&String>) -> Verdict {
    if refused.is_empty() {
        Ok(())
    } else {
        Err(
            VerifyFinding::error("cloudbase-init could not use the user data")
                .lines(refused)
                .cure(
                    "use a supported format: `#cloud-config`, `#ps1`, `rem cmd`, MIME parts \
                 (cloudbase-init: doc/source/userdata.rst)",
                ),
        )
    }
}

fn judge_script(script: &ScriptEnd) -> Verdict {
    match script.code {
        0 => Ok(()),
        code if ASKS.contains(&code) => Ok(()),
        code => Err(VerifyFinding::error("a script of the user data failed on the clone")
            .expected("exit code 0, or 1001 to 1003 to request a restart or another run")
            .found(format!("exit code {code}"))
            .lines(&script.said)
            .cure(
                "see its output, which is logged if `debug` in cloudbase-init.conf is on; text of \
                 the user data is shown as ***",
            )),
    }
}
