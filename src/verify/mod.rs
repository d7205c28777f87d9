//! Whether a finished image is what its recipe says, found out without starting or mounting it.
//!
//! Reads the disk's own bytes: partitions, NTFS, registry hives. What only a running Windows knows is said to be
//! unknown, never taken to hold. Changes nothing and mends nothing.

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
pub use winimg_base::event::Severity;
use winimg_base::event::{Cancel, Sink};
use winimg_formats::disk::Disk;
use winimg_recipe::plan::{Check, Expected};
use winimg_recipe::recipe::target::Target;

pub use account::{User, machine_sid, users};
pub use finding::{Finding, Report, Verdict};
pub use image::{Answer, Image};
pub use service::services;
pub use stores::packages;
pub use system::{InstalledWindows, installed};

/// Checks what holds for every image, what a sealed one needs (also on the machines of its targets, where they are known),
/// then what each step expects. Without expectations no step has said that the build's own folder is gone and the image
/// generalized, so that is judged, too.
pub fn check(
    disk: &dyn Disk,
    expected: Option<&[Expected]>,
    targets: &[&Target],
    cancel: &Cancel,
) -> Result<Report> {
    let image = Image::open(disk)?;
    let mut report = Report::default();
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
        report.add(system::generalized(&image), None);
    }
    seal::check(&image, expected, targets, &mut report, cancel)?;
    add_expected(&image, expected.unwrap_or_default(), &mut report, cancel)?;
    report.findings.sort_by_key(|f| f.severity);
    Ok(report)
}

/// Checks a clone after its first boot: a disk that was closed in order, nothing left of the build, nothing that waits for a
/// restart, and what a `[[clone]]` asks for. Host keys and an agent's states belong to a clone.
pub fn check_clone(disk: &dyn Disk, expected: &[Expected], cancel: &Cancel) -> Result<Report> {
    let image = Image::open(disk)?;
    let mut report = Report::default();
    let common = system::CHECKS_OF_CLONES
        .iter()
        .copied()
        .flatten()
        .chain(leftovers::CHECKS_OF_CLONES);
    for check in common {
        cancel.check()?;
        report.add(check(&image), None);
    }
    answer_file::check_secrets(&image, &mut report);
    add_expected(&image, expected, &mut report, cancel)?;
    report.findings.sort_by_key(|f| f.severity);
    Ok(report)
}

/// Judges all that steps expect, on every processor; the findings come in the steps' order.
fn add_expected(
    image: &Image<'_>,
    expected: &[Expected],
    report: &mut Report,
    cancel: &Cancel,
) -> Result<()> {
    let asked: Vec<(&Expected, &Check)> = expected
        .iter()
        .flat_map(|step| step.checks.iter().map(move |check| (step, check)))
        .collect();
    let verdicts = pool::map(
        &asked,
        |(_, check)| bytes_read(check),
        |(_, check)| {
            cancel.check()?;
            Ok(one(image, check))
        },
    )?;
    for ((step, _), verdict) in asked.into_iter().zip(verdicts) {
        report.add(verdict, Some((&step.step, &step.place)));
    }
    Ok(())
}

/// About how much of the disk a check has to read; what is not known counts as nothing.
fn bytes_read(check: &Check) -> u64 {
    match check {
        Check::File { content, .. } => content.size,
        _ => 0,
    }
}

fn one(image: &Image<'_>, check: &Check) -> Verdict {
    match check {
        Check::File { path, content } => files::file(image, path, content),
        Check::Exists { path } => files::exists(image, path),
        Check::Missing { path } => files::missing(image, path),
        Check::Registry { key, value, data } => {
            registry::value(image, key, value.as_deref().unwrap_or_default(), data)
        }
        Check::Service(service) => service::service(image, service),
        Check::PathFolder { folder } => registry::path_folder(image, folder),
        Check::Firewall(rule) => firewall::rule(image, rule),
        Check::Feature { name, .. } => Err(Finding::unknown(format!("feature {name}"))),
        Check::Capability { name, .. } => Err(Finding::unknown(format!("capability {name}"))),
        Check::Driver { driver } => stores::driver(image, driver),
        Check::User {
            name,
            present,
            disabled,
        } => account::user(image, name, *present, *disabled),
        Check::Group {
            name,
            present,
            members,
        } => account::group(image, name, *present, members),
        Check::Acl(acl) => access::acl(image, acl),
        Check::Task { name, present } => stores::task(image, name, *present),
        Check::Update { kb } => stores::update(image, kb),
        Check::Windows { build, revision } => system::windows(image, *build, *revision),
        Check::ContainerImage {
            image: manifest,
            root,
        } => stores::container_image(image, manifest, root),
    }
}

/// Emits the findings, the gravest first, and the count.
pub fn report(report: &Report, image: &str, sink: &dyn Sink) {
    for finding in &report.findings {
        sink.emit(&finding.event());
    }
    sink.emit(&report.event(image));
}

/// The error of an image with findings that were reported before.
pub fn failed(image: &str, summary: &str) -> Error {
    Error::new(Kind::Verify, "the image is not what it should be")
        .at(image)
        .found(summary)
}
