//! Checks a finished image against its recipe without starting or mounting it.
//!
//! Reads the disk's own bytes: partitions, NTFS, registry hives. Anything that only a running
//! Windows knows is reported as unknown, never assumed to be right. Read-only.

mod access;
mod account;
mod answer_file;
mod files;
mod finding;
mod firewall;
mod image;
mod leftovers;
mod registry;
mod seal;
mod service;
mod stores;
mod system;

use crate::pool;
use winimg_base::error::{Error, Kind, Result};
pub use winimg_base::event::FindingSeverity;
use winimg_base::event::{Cancel, Sink};
use winimg_formats::disk::Disk;
use winimg_recipe::plan::{ImageCheck, StepChecks};
use winimg_recipe::target::TargetSpec;

pub use account::{LocalUser, list_users, machine_sid};
pub use finding::{ReportedFinding, Verdict, VerifyFinding, VerifyReport};
pub use image::{CheckResult, InspectedImage};
pub use service::list_services;
pub use stores::list_packages;
pub use system::{InstalledWindows, read_installed};

/// Checks the requirements of every image, those of a sealed one (also on the machines of known
/// targets), then the expectations of each step. Without expectations also requires that the
/// build's own folder is gone and that the image is generalized.
pub fn check(
    disk: &dyn Disk,
    expected: Option<&[StepChecks]>,
    targets: &[&TargetSpec],
    cancel: &Cancel,
) -> Result<VerifyReport> {
    let image = InspectedImage::open(disk)?;
    let mut report = VerifyReport::default();
    let common = system::CHECKS
        .iter()
        .copied()
        .flatten()
        .chain(leftovers::CHECKS);
    for check in common {
        cancel.check()?;
        report.add(check(&image), None);
    }
    answer_file::check(&image, &mut report);
    if expected.is_none() {
        report.add(leftovers::own_folder(&image), None);
        report.add(system::check_generalized(&image), None);
    }
    seal::check(&image, expected, targets, &mut report, cancel)?;
    add_expected(&image, expected.unwrap_or_default(), &mut report, cancel)?;
    report.findings.sort_by_key(|f| f.severity);
    Ok(report)
}

/// Checks a clone after its first boot: a clean shutdown, no leftovers of the build, no pending
/// restart, and the checks of `[[clone]]`. Host keys and an agent's state belong to a clone.
pub fn check_clone(
    disk: &dyn Disk,
    expected: &[StepChecks],
    cancel: &Cancel,
) -> Result<VerifyReport> {
    let image = InspectedImage::open(disk)?;
    let mut report = VerifyReport::default();
    let common = system::CLONE_CHECKS
        .iter()
        .copied()
        .flatten()
        .chain(leftovers::CLONE_CHECKS);
    for check in common {
        cancel.check()?;
        report.add(check(&image), None);
    }
    answer_file::check_secrets(&image, &mut report);
    add_expected(&image, expected, &mut report, cancel)?;
    report.findings.sort_by_key(|f| f.severity);
    Ok(report)
}

/// Checks the expectations of steps on all processors; the findings are in the order of the steps.
fn add_expected(
    image: &InspectedImage<'_>,
    expected: &[StepChecks],
    report: &mut VerifyReport,
    cancel: &Cancel,
) -> Result<()> {
    let asked: Vec<(&StepChecks, &ImageCheck)> = expected
        .iter()
        .flat_map(|step| step.checks.iter().map(move |check| (step, check)))
        .collect();
    let verdicts = pool::map(
        &asked,
        |(_, check)| bytes_read(check),
        |(_, check)| {
            cancel.check()?;
            Ok(check_one(image, check))
        },
    )?;
    for ((step, _), verdict) in asked.into_iter().zip(verdicts) {
        report.add(verdict, Some((&step.step, &step.place)));
    }
    Ok(())
}

/// Estimates the bytes that a check has to read; 0 if unknown.
fn bytes_read(check: &ImageCheck) -> u64 {
    match check {
        ImageCheck::File { content, .. } => content.size,
        _ => 0,
    }
}

fn check_one(image: &InspectedImage<'_>, check: &ImageCheck) -> Verdict {
    match check {
        ImageCheck::File { path, content } => files::check_file(image, path, content),
        ImageCheck::Exists { path } => files::check_exists(image, path),
        ImageCheck::Missing { path } => files::check_missing(image, path),
        ImageCheck::Registry { key, value, data } => {
            registry::check_value(image, key, value.as_deref().unwrap_or_default(), data)
        }
        ImageCheck::Service(service) => service::check_service(image, service),
        ImageCheck::PathFolder { folder } => registry::path_folder(image, folder),
        ImageCheck::Firewall(rule) => firewall::check_rule(image, rule),
        ImageCheck::Feature { name, .. } => Err(VerifyFinding::unknown(format!("feature {name}"))),
        ImageCheck::Capability { name, .. } => {
            Err(VerifyFinding::unknown(format!("capability {name}")))
        }
        ImageCheck::Driver { driver } => stores::check_driver(image, driver),
        ImageCheck::User {
            name,
            present,
            disabled,
        } => account::check_user(image, name, *present, *disabled),
        ImageCheck::Group {
            name,
            present,
            members,
        } => account::check_group(image, name, *present, members),
        ImageCheck::Acl(acl) => access::check_acl(image, acl),
        ImageCheck::Task { name, present } => stores::check_task(image, name, *present),
        ImageCheck::Update { kb } => stores::update(image, kb),
        ImageCheck::Windows { build, revision } => system::check_windows(image, *build, *revision),
        ImageCheck::ContainerImage {
            image: manifest,
            root,
        } => stores::container_image(image, manifest, root),
    }
}

/// Emits the findings, most severe first, and the count.
pub fn report(report: &VerifyReport, image: &str, sink: &dyn Sink) {
    for finding in &report.findings {
        sink.emit(&finding.to_event());
    }
    sink.emit(&report.to_event(image));
}

/// Returns the error of an image whose findings have been reported.
pub fn failed_image_error(image: &str, summary: &str) -> Error {
    Error::new(Kind::Verify, "the image failed verification")
        .at(image)
        .found(summary)
}
