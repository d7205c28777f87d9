//! State of the disk on a clone's first boot: the answer file, pending scripts and programs, and
//! unfinished servicing.
//!
//! Sources: Microsoft, "Windows Setup Automation Overview" (implicit answer file search order),
//! "Add a custom script to Windows Setup" (SetupComplete.cmd), "Run and RunOnce registry keys", and
//! "Prepare a generalized image" for Azure. The meaning of `RebootInProgress` and `pending.xml` is
//! observed on real machines, not documented.

use winimg_recipe::RegistryKey;
use winimg_recipe::target::{RuleDemand, RuleSeverity, TargetCondition, TargetRule, TargetSpec};

use super::super::finding::{Verdict, VerifyFinding};
use super::super::image::InspectedImage;
use super::answer;
use super::expectations::SealExpectations;

const SETUP: RegistryKey = RegistryKey::from_static(r"HKLM\SYSTEM\Setup");
const SCRIPT: &str = r"C:\Windows\Setup\Scripts\SetupComplete.cmd";
const RUN_ONCE: [RegistryKey; 2] = [
    RegistryKey::from_static(r"HKLM\SOFTWARE\Microsoft\Windows\CurrentVersion\RunOnce"),
    RegistryKey::from_static(r"HKLM\SOFTWARE\WOW6432Node\Microsoft\Windows\CurrentVersion\RunOnce"),
];
const IN_PROGRESS: RegistryKey = RegistryKey::from_static(
    r"HKLM\SOFTWARE\Microsoft\Windows\CurrentVersion\Component Based Servicing\RebootInProgress",
);
const PENDING: &str = r"C:\Windows\WinSxS\pending.xml";
const BEFORE: &str = "remove it in a step before the image is sealed";

pub const CHECKS: &[fn(&InspectedImage<'_>, &SealExpectations<'_>) -> Verdict] = &[
    answer_file,
    other_answer_file,
    setup_script,
    |image, asked| run_once(image, asked, &RUN_ONCE[0]),
    |image, asked| run_once(image, asked, &RUN_ONCE[1]),
    restart_under_way,
    servicing_waits,
];

/// Requires an answer file: without one Setup waits for input, unless the platform provides it.
fn answer_file(image: &InspectedImage<'_>, asked: &SealExpectations<'_>) -> Verdict {
    let is_brought = asked
        .targets
        .iter()
        .any(|target| find_refusal(target).is_some());
    if is_brought || asked.refuses_file(answer::PATH) || image.volume.exists(answer::PATH)? {
        return Ok(());
    }
    let fact = "there is no answer file for a clone: its Setup waits for input unless the platform \
                provides one";
    Err(VerifyFinding::warning(fact).expected(answer::PATH).cure(
        "set an answer file in the step `generalize`, or set answer_file = \"none\" if there is \
         none",
    ))
}

/// Warns about `UnattendFile`, which takes precedence over all paths.
fn other_answer_file(image: &InspectedImage<'_>, asked: &SealExpectations<'_>) -> Verdict {
    const NAME: &str = "UnattendFile";
    let found = match image.read_text(&SETUP, NAME)? {
        Some(path) if !path.eq_ignore_ascii_case(answer::PATH) => path,
        _ => return Ok(()),
    };
    if asked.has_value(&SETUP, NAME) {
        return Ok(());
    }
    let fact = "the registry names another answer file, which a clone would use instead of the one \
                of sysprep";
    Err(VerifyFinding::warning(fact)
        .found(format!("{SETUP}, {NAME} = {found}"))
        .cure(BEFORE))
}

/// Finds the rule of a target that provides the answer file itself.
fn find_refusal(target: &TargetSpec) -> Option<&TargetRule> {
    target.rules.iter().find(|rule| {
        rule.when.is_none()
            && matches!(
                rule.demand,
                RuleDemand::Refuses(TargetCondition::AnswerFile(true))
            )
    })
}

/// Refuses an answer file that takes precedence over the platform's own. The target's rule decides
/// the severity.
pub fn platform_is_answered(
    image: &InspectedImage<'_>,
    asked: &SealExpectations<'_>,
    target: &TargetSpec,
) -> Verdict {
    let Some(rule) = find_refusal(target) else {
        return Ok(());
    };
    if asked.refuses_file(answer::PATH) || !image.volume.exists(answer::PATH)? {
        return Ok(());
    }
    let title = &target.title;
    let fact = format!(
        "a clone on {title} would use the image's answer file instead of the platform's: {}",
        rule.why
    );
    let finding = match rule.report {
        RuleSeverity::Refuse => VerifyFinding::error(fact),
        RuleSeverity::Warn => VerifyFinding::warning(fact),
    };
    Err(finding
        .expected(format!("no answer file ({})", rule.origin.source))
        .found(answer::PATH)
        .cure("seal with generalize = { answer_file = \"none\" }"))
}

/// Warns about a script that Setup would run on every clone, unless a step put it there or the
/// steps are unknown.
fn setup_script(image: &InspectedImage<'_>, asked: &SealExpectations<'_>) -> Verdict {
    if asked.steps.is_none() || asked.expects_file(SCRIPT) || asked.refuses_file(SCRIPT) {
        return Ok(());
    }
    if image.volume.exists(SCRIPT)? {
        Err(VerifyFinding::warning(
            "Setup would run a script on every clone that no step put there",
        )
        .found(SCRIPT)
        .cure(
            "remove it in a step before the image is sealed, or add it with a `file` or \
                     `copy` step if it is intended",
        ))
    } else {
        Ok(())
    }
}

/// Warns about RunOnce programs, which the first logon of an administrator to a clone runs.
fn run_once(
    image: &InspectedImage<'_>,
    asked: &SealExpectations<'_>,
    key: &RegistryKey,
) -> Verdict {
    let values = match image.open_key(key)? {
        Some(key) => key.read_values()?,
        None => Vec::new(),
    };
    let mut names: Vec<String> = values.into_iter().map(|(name, _)| name).collect();
    names.retain(|name| !name.is_empty() && !asked.has_value(key, name));
    names.sort();
    if names.is_empty() {
        Ok(())
    } else {
        Err(VerifyFinding::warning(
            "a program of the build would run at the first logon on every clone",
        )
        .found(format!("{key}: {}", names.join(", ")))
        .cure(
            "add a step reboot = {} after the step that installs it, or remove the value in a step",
        ))
    }
}

fn restart_under_way(image: &InspectedImage<'_>, _: &SealExpectations<'_>) -> Verdict {
    match image.open_key(&IN_PROGRESS)? {
        None => Ok(()),
        Some(_) => Err(VerifyFinding::error(
            "Windows was in the middle of an installation that needs a restart",
        )
        .found(&IN_PROGRESS)
        .cure("add a step reboot = {} before the image is sealed")),
    }
}

fn servicing_waits(image: &InspectedImage<'_>, _: &SealExpectations<'_>) -> Verdict {
    if image.volume.exists(PENDING)? {
        Err(VerifyFinding::warning(
            "changes to Windows' components are pending until the next start",
        )
        .found(PENDING)
        .cure("add a step reboot = {} before the image is sealed"))
    } else {
        Ok(())
    }
}
