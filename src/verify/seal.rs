//! Whether a sealed disk comes up as another machine: Setup is armed, its first boot finds what it needs and nothing that the
//! build left, and no identity is in it that clones would share.
//!
//! Judged of an image that its steps seal, or, without a manifest, of one that says it is sealed. What a step expects itself
//! is left to that step, so that one fault is one finding. What the targets ask is judged where they are known.
//!
//! Sources: Microsoft, "Sysprep command-line options" and "Windows Setup states" (tag, `ImageState`); cofoundry's gate of
//! sealed templates (`SetupType`, `CmdLine`: a template of Server 2022 that was not armed came up as the build machine);
//! cloudbase-init, `osutils/windows.py` (a `GeneralizationState` of 7 is a finished machine; that a sealed one has 3 and a
//! `CleanupState` of 2 is remembered, so another is doubtful only).

mod answer;
mod asked;
mod boot_driver;
mod first_boot;
mod identity;
mod provision;

use winimg_base::error::Result;
use winimg_base::event::Cancel;
use winimg_recipe::plan::Expected;
use winimg_recipe::recipe::RegistryKey;
use winimg_recipe::recipe::target::Target;

use super::finding::{Finding, Report, Verdict};
use super::image::Image;
use asked::Asked;

const SETUP: RegistryKey = RegistryKey::known(r"HKLM\SYSTEM\Setup");
const SYSPREP: RegistryKey = RegistryKey::known(r"HKLM\SYSTEM\Setup\Status\SysprepStatus");
const TAG: &str = r"C:\Windows\System32\Sysprep\Sysprep_succeeded.tag";
/// `SetupType`: the next start runs `CmdLine` in place of Windows.
const ARMED: u32 = 2;
const WINDEPLOY: &str = r"oobe\windeploy.exe";
const GENERALIZED: u32 = 3;
const CLEANED: u32 = 2;
const AGAIN: &str = "build the image again: nothing may start it after the step `generalize`";

const CHECKS: &[fn(&Image<'_>, &Asked<'_>) -> Verdict] = &[
    |image, _| armed(image),
    |image, _| setup_program(image),
    |image, _| {
        let fact = "sysprep did not leave the image as one that it generalized";
        status(image, "GeneralizationState", GENERALIZED, fact)
    },
    |image, _| {
        let fact = "sysprep did not end its clean-up";
        status(image, "CleanupState", CLEANED, fact)
    },
    tag,
];

/// `steps`: what the recipe's steps expect; `None`: nobody says. `targets`: the places that the image is for.
pub fn check(
    image: &Image<'_>,
    steps: Option<&[Expected]>,
    targets: &[&Target],
    report: &mut Report,
    cancel: &Cancel,
) -> Result<()> {
    let asked = Asked { steps, targets };
    if !asked.seals(image) {
        return Ok(());
    }
    let parts = [
        CHECKS,
        first_boot::CHECKS,
        provision::CHECKS,
        identity::CHECKS,
    ];
    for check in parts.into_iter().flatten() {
        cancel.check()?;
        report.add(check(image, &asked), None);
    }
    for target in targets {
        cancel.check()?;
        report.add(
            first_boot::platform_is_answered(image, &asked, target),
            None,
        );
        report.add(boot_driver::starts(image, target), None);
        if !target.hardware.also.is_empty() {
            report.add(boot_driver::starts_on_some_sizes(image, target), None);
        }
    }
    Ok(())
}

fn armed(image: &Image<'_>) -> Verdict {
    let found = image.number(&SETUP, "SetupType")?;
    if found == Some(ARMED) {
        return Ok(());
    }
    let fact = "Setup does not run on a clone: it would come up as the machine of the build";
    Err(Finding::error(fact)
        .expected(format!("{SETUP}, SetupType = {ARMED}"))
        .found(number(found))
        .cure(AGAIN))
}

fn setup_program(image: &Image<'_>) -> Verdict {
    let found = image.text(&SETUP, "CmdLine")?;
    let is_it = |line: &String| line.eq_ignore_ascii_case(WINDEPLOY);
    if found.as_ref().is_some_and(is_it) {
        return Ok(());
    }
    let found = match found.as_deref() {
        None => "no such text",
        Some("") => "an empty text",
        Some(line) => line,
    };
    Err(
        Finding::error("the first start of a clone runs another program than Setup's")
            .expected(format!("{SETUP}, CmdLine = {WINDEPLOY}"))
            .found(found)
            .cure(AGAIN),
    )
}

fn status(image: &Image<'_>, name: &str, expected: u32, fact: &str) -> Verdict {
    let found = image.number(&SYSPREP, name)?;
    if found == Some(expected) {
        return Ok(());
    }
    Err(Finding::warning(fact)
        .expected(format!("{SYSPREP}, {name} = {expected}"))
        .found(number(found))
        .cure(AGAIN))
}

fn number(found: Option<u32>) -> String {
    found.map_or_else(|| "no such number".to_owned(), |n| n.to_string())
}

/// The step `generalize` expects it by itself.
fn tag(image: &Image<'_>, asked: &Asked<'_>) -> Verdict {
    if asked.steps.is_some() || image.volume.exists(TAG)? {
        return Ok(());
    }
    Err(Finding::error(format!(
        "sysprep did not say that it succeeded: {TAG} is missing"
    ))
    .cure(AGAIN))
}
