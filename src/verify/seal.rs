//! Checks that a sealed disk starts as a new machine: Setup runs on the first boot and finds
//! everything it needs, there are no leftovers of the build, and clones share no identity.
//!
//! Applies to an image that its steps seal, or, without a manifest, to one whose registry says that
//! it is sealed. A step's own expectations are left to that step, so that one fault is one finding.
//! The targets' requirements are checked if the targets are known.
//!
//! Sources: Microsoft, "Sysprep command-line options" and "Windows Setup states" (tag,
//! `ImageState`); cofoundry's gate of sealed templates (`SetupType`, `CmdLine`: a template of
//! Server 2022 whose Setup was not armed came up as the build machine); cloudbase-init,
//! `osutils/windows.py` (a `GeneralizationState` of 7 is a finished machine). The values 3 of a
//! sealed one and 2 of its `CleanupState` are undocumented, so others are only warnings.

mod answer;
mod boot_driver;
mod expectations;
mod first_boot;
mod identity;
mod provision;

use winimg_base::error::Result;
use winimg_base::event::Cancel;
use winimg_recipe::RegistryKey;
use winimg_recipe::plan::StepChecks;
use winimg_recipe::target::TargetSpec;

use super::finding::{Verdict, VerifyFinding, VerifyReport};
use super::image::InspectedImage;
use expectations::SealExpectations;

const SETUP: RegistryKey = RegistryKey::from_static(r"HKLM\SYSTEM\Setup");
const SYSPREP: RegistryKey = RegistryKey::from_static(r"HKLM\SYSTEM\Setup\Status\SysprepStatus");
const TAG: &str = r"C:\Windows\System32\Sysprep\Sysprep_succeeded.tag";
/// `SetupType`: the next start runs `CmdLine` instead of Windows.
const ARMED: u32 = 2;
const WINDEPLOY: &str = r"oobe\windeploy.exe";
const GENERALIZED: u32 = 3;
const CLEANED: u32 = 2;
const AGAIN: &str = "build the image again: nothing may start it after the step `generalize`";

const CHECKS: &[fn(&InspectedImage<'_>, &SealExpectations<'_>) -> Verdict] = &[
    |image, _| check_armed(image),
    |image, _| setup_program(image),
    |image, _| {
        let fact = "sysprep did not mark the image as generalized";
        check_status(image, "GeneralizationState", GENERALIZED, fact)
    },
    |image, _| {
        let fact = "sysprep did not finish its cleanup";
        check_status(image, "CleanupState", CLEANED, fact)
    },
    check_tag,
];

/// Checks a sealed image. `steps` are the expectations of the recipe's steps, `None` if unknown;
/// `targets` are the platforms of the image.
pub fn check(
    image: &InspectedImage<'_>,
    steps: Option<&[StepChecks]>,
    targets: &[&TargetSpec],
    report: &mut VerifyReport,
    cancel: &Cancel,
) -> Result<()> {
    let asked = SealExpectations { steps, targets };
    if !asked.is_sealed(image) {
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
        report.add(boot_driver::check_boot_drivers(image, target), None);
        if !target.hardware.also.is_empty() {
            report.add(boot_driver::starts_on_some_sizes(image, target), None);
        }
    }
    Ok(())
}

fn check_armed(image: &InspectedImage<'_>) -> Verdict {
    let found = image.read_number(&SETUP, "SetupType")?;
    if found == Some(ARMED) {
        return Ok(());
    }
    let fact = "Setup would not run on a clone: it would start as the build machine";
    Err(VerifyFinding::error(fact)
        .expected(format!("{SETUP}, SetupType = {ARMED}"))
        .found(render_number(found))
        .cure(AGAIN))
}

fn setup_program(image: &InspectedImage<'_>) -> Verdict {
    let found = image.read_text(&SETUP, "CmdLine")?;
    if found
        .as_ref()
        .is_some_and(|line| line.eq_ignore_ascii_case(WINDEPLOY))
    {
        return Ok(());
    }
    let found = match found.as_deref() {
        None => "no such text",
        Some("") => "an empty text",
        Some(line) => line,
    };
    Err(VerifyFinding::error(
        "the first boot of a clone would run another program instead of Setup",
    )
    .expected(format!("{SETUP}, CmdLine = {WINDEPLOY}"))
    .found(found)
    .cure(AGAIN))
}

fn check_status(image: &InspectedImage<'_>, name: &str, expected: u32, fact: &str) -> Verdict {
    let found = image.read_number(&SYSPREP, name)?;
    if found == Some(expected) {
        return Ok(());
    }
    Err(VerifyFinding::warning(fact)
        .expected(format!("{SYSPREP}, {name} = {expected}"))
        .found(render_number(found))
        .cure(AGAIN))
}

fn render_number(found: Option<u32>) -> String {
    found.map_or_else(|| "no such number".to_owned(), |n| n.to_string())
}

/// Checks sysprep's tag, unless the step `generalize` expects it itself.
fn check_tag(image: &InspectedImage<'_>, asked: &SealExpectations<'_>) -> Verdict {
    if asked.steps.is_some() || image.volume.exists(TAG)? {
        return Ok(());
    }
    Err(
        VerifyFinding::error(format!("sysprep did not report success: {TAG} is missing"))
            .cure(AGAIN),
    )
}
