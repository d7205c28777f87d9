//! What Setup finds on the disk when a clone starts for the first time: the answer file, scripts and programs that wait, and
//! servicing that was not finished.
//!
//! Sources: Microsoft, "Windows Setup Automation Overview" (implicit answer file search order), "Add a custom script to
//! Windows Setup" (SetupComplete.cmd), "Run and RunOnce registry keys", and "Prepare a generalized image" for Azure. That
//! `RebootInProgress` and `pending.xml` are servicing under way is seen on real machines, not documented.

use winimg_recipe::recipe::RegistryKey;
use winimg_recipe::recipe::target::{Condition, Demand, Report as Outcome, Rule, Target};

use super::super::finding::{Finding, Verdict};
use super::super::image::Image;
use super::answer;
use super::asked::Asked;

const SETUP: RegistryKey = RegistryKey::known(r"HKLM\SYSTEM\Setup");
const SCRIPT: &str = r"C:\Windows\Setup\Scripts\SetupComplete.cmd";
const RUN_ONCE: [RegistryKey; 2] = [
    RegistryKey::known(r"HKLM\SOFTWARE\Microsoft\Windows\CurrentVersion\RunOnce"),
    RegistryKey::known(r"HKLM\SOFTWARE\WOW6432Node\Microsoft\Windows\CurrentVersion\RunOnce"),
];
const IN_PROGRESS: RegistryKey = RegistryKey::known(
    r"HKLM\SOFTWARE\Microsoft\Windows\CurrentVersion\Component Based Servicing\RebootInProgress",
);
const PENDING: &str = r"C:\Windows\WinSxS\pending.xml";
const BEFORE: &str = "remove it in a step before the image is sealed";

pub const CHECKS: &[fn(&Image<'_>, &Asked<'_>) -> Verdict] = &[
    answer_file,
    other_answer_file,
    setup_script,
    |image, asked| run_once(image, asked, &RUN_ONCE[0]),
    |image, asked| run_once(image, asked, &RUN_ONCE[1]),
    restart_under_way,
    servicing_waits,
];

/// Without one Setup asks its questions on the screen, unless the platform brings it.
fn answer_file(image: &Image<'_>, asked: &Asked<'_>) -> Verdict {
    let is_brought = asked.targets.iter().any(|target| refusal(target).is_some());
    if is_brought || asked.refuses(answer::PATH) || image.volume.exists(answer::PATH)? {
        return Ok(());
    }
    let fact = "there is no answer file for a clone: its Setup waits at the screen unless the platform brings one";
    Err(Finding::warning(fact)
        .expected(answer::PATH)
        .cure("give the step `generalize` an answer file, or say that it has none: answer_file = \"none\""))
}

/// `UnattendFile` stands before all other places.
fn other_answer_file(image: &Image<'_>, asked: &Asked<'_>) -> Verdict {
    const NAME: &str = "UnattendFile";
    let found = match image.text(&SETUP, NAME)? {
        Some(path) if !path.eq_ignore_ascii_case(answer::PATH) => path,
        _ => return Ok(()),
    };
    if asked.decides(&SETUP, NAME) {
        return Ok(());
    }
    let fact = "the registry names another answer file, which a clone takes before the one that sysprep was given";
    Err(Finding::warning(fact)
        .found(format!("{SETUP}, {NAME} = {found}"))
        .cure(BEFORE))
}

/// The target's rule that it brings the answer file itself.
fn refusal(target: &Target) -> Option<&Rule> {
    let is_it = |rule: &&Rule| {
        rule.when.is_none() && matches!(rule.demand, Demand::Refuses(Condition::AnswerFile(true)))
    };
    target.rules.iter().find(is_it)
}

/// No answer file stands before that of the platform's own disc. How grave one is, the target's rule says.
pub fn platform_is_answered(image: &Image<'_>, asked: &Asked<'_>, target: &Target) -> Verdict {
    let Some(rule) = refusal(target) else {
        return Ok(());
    };
    if asked.refuses(answer::PATH) || !image.volume.exists(answer::PATH)? {
        return Ok(());
    }
    let title = &target.title;
    let fact = format!(
        "a clone on {title} takes the image's answer file in place of the platform's: {}",
        rule.why
    );
    let finding = match rule.report {
        Outcome::Refuse => Finding::error(fact),
        Outcome::Warn => Finding::warning(fact),
    };
    Err(finding
        .expected(format!("no answer file ({})", rule.origin.source))
        .found(answer::PATH)
        .cure("seal with generalize = { answer_file = \"none\" }"))
}

/// Setup runs it on every clone. A step's own is meant; where nobody says what the steps were, it may be.
fn setup_script(image: &Image<'_>, asked: &Asked<'_>) -> Verdict {
    if asked.steps.is_none() || asked.wants(SCRIPT) || asked.refuses(SCRIPT) {
        return Ok(());
    }
    match image.volume.exists(SCRIPT)? {
        false => Ok(()),
        true => Err(
            Finding::warning("Setup runs a script on every clone that no step put there")
                .found(SCRIPT)
                .cure("remove it in a step before the image is sealed; one that is meant belongs into a `file` or `copy` step"),
        ),
    }
}

/// The first administrator who logs on to a clone runs what is there.
fn run_once(image: &Image<'_>, asked: &Asked<'_>, key: &RegistryKey) -> Verdict {
    let values = match image.key(key)? {
        Some(key) => key.values()?,
        None => Vec::new(),
    };
    let mut names: Vec<String> = values.into_iter().map(|(name, _)| name).collect();
    names.retain(|name| !name.is_empty() && !asked.decides(key, name));
    names.sort();
    match names.is_empty() {
        true => Ok(()),
        false => Err(Finding::warning(
            "a program of the build waits for the first logon on every clone",
        )
        .found(format!("{key}: {}", names.join(", ")))
        .cure(
            "add a step reboot = {} after the step that installs it, or remove the value in a step",
        )),
    }
}

fn restart_under_way(image: &Image<'_>, _: &Asked<'_>) -> Verdict {
    match image.key(&IN_PROGRESS)? {
        None => Ok(()),
        Some(_) => Err(Finding::error(
            "Windows was in the middle of an installation that goes over a restart",
        )
        .found(&IN_PROGRESS)
        .cure("add a step reboot = {} before the image is sealed")),
    }
}

fn servicing_waits(image: &Image<'_>, _: &Asked<'_>) -> Verdict {
    match image.volume.exists(PENDING)? {
        false => Ok(()),
        true => Err(
            Finding::warning("changes to Windows' components wait for the next start")
                .found(PENDING)
                .cure("add a step reboot = {} before the image is sealed"),
        ),
    }
}
