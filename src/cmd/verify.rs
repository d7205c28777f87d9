//! `winimg verify`: checks that a finished image matches its recipe.

use std::fmt;
use std::path::Path;

use serde_json::json;

use crate::cli;
use crate::pool;
use crate::record::key::RecordKey;
use crate::record::manifest::ManifestArtifact;
use crate::record::writer;
use crate::record::{BuildManifest, check};
use crate::verify::{self, VerifyFinding, VerifyReport};
use winimg_base::error::{Error, Kind, Result};
use winimg_base::event::Cancel;
use winimg_base::io::{self, ContainedFileError};
use winimg_formats::disk::ntfs::WindowsVolume;
use winimg_formats::disk::{Disk, gpt};
use winimg_recipe::ReadOptions;
use winimg_recipe::plan::StepChecks;
use winimg_recipe::target::{self, TargetSpec};

use super::disk::open_disks;
use super::documents::{VerifiedFile, VerifyResult};
use super::{CommandContext, is_record, lock_rule, must_exist, print, print_json, source};

pub fn run(args: &cli::VerifyArgs, context: &CommandContext) -> Result<()> {
    must_exist(&args.file)?;
    if args.file.is_dir() {
        return Err(folder_error(&args.file));
    }
    let is_manifest = is_record(&args.file);
    let key = args
        .key
        .as_deref()
        .map(RecordKey::parse_argument)
        .transpose()?;
    let key = key.as_ref();
    match (is_manifest, &args.manifest) {
        (true, None) => verify_manifest(args, key, context),
        (true, Some(_)) => Err(Error::new(
            Kind::Recipe,
            "--manifest needs an image, not another manifest",
        )
        .cure("winimg verify IMAGE --manifest FILE")),
        (false, None) if key.is_some() => Err(Error::new(
            Kind::Recipe,
            "--key needs --manifest: the signature is the manifest's",
        )
        .cure("winimg verify IMAGE --manifest FILE --key KEY")),
        (false, None) => {
            let report = check_image(&args.file, None, VerifyReport::default(), context)?;
            report_results(
                &[(args.file.display().to_string(), report)],
                args.json,
                context,
            )
        }
        (false, Some(path)) => verify_image(args, path, key, context),
    }
}

/// Refuses a folder, with the command for the manifest in it.
fn folder_error(folder: &Path) -> Error {
    let manifest = folder.join(writer::MANIFEST);
    let cure = if manifest.is_file() {
        format!("pass its manifest: winimg verify {}", manifest.display())
    } else {
        "pass a disk image, or the manifest.json of a build".into()
    };
    let fact = format!("{} is a folder", folder.display());
    Error::new(Kind::Recipe, fact)
        .expected("a disk image, or a build's manifest.json")
        .cure(cure)
}

/// Verifies one image by its manifest; with a key, the signed manifest must list it.
fn verify_image(
    args: &cli::VerifyArgs,
    manifest: &Path,
    key: Option<&RecordKey>,
    context: &CommandContext,
) -> Result<()> {
    let file = &args.file;
    let (mut reports, manifest) = read_with_lock(manifest, key, context)?;
    let Some(manifest) = manifest else {
        return report_results(&reports, args.json, context);
    };
    let mut report = VerifyReport::default();
    if key.is_some() {
        report.add(is_listed(file, &manifest)?, None);
    }
    let report = check_image(
        file,
        Some(&ImageRequirements::from_manifest(&manifest, context)?),
        report,
        context,
    )?;
    reports.push((file.display().to_string(), report));
    report_results(&reports, args.json, context)
}

type NamedReport = (String, VerifyReport);

/// Reads the manifest, and with a key also checks its signatures and records. With a key an
/// unreadable manifest is a finding, otherwise an error.
fn read(
    path: &Path,
    key: Option<&RecordKey>,
    context: &CommandContext,
) -> Result<(Vec<NamedReport>, Option<BuildManifest>)> {
    let Some(key) = key else {
        let manifest = BuildManifest::read(path)?;
        if let Some(signature) = check::find_signatures(path).first() {
            context.sink.note(format!(
                "signatures ({} …) are not checked without --key",
                signature.display()
            ));
        }
        return Ok((Vec::new(), Some(manifest)));
    };
    let (report, manifest) = check::check_records(path, key)?;
    Ok((vec![(path.display().to_string(), report)], manifest))
}

/// Like [`read`], and also checks the lock that the image was built with by this host's rules.
fn read_with_lock(
    path: &Path,
    key: Option<&RecordKey>,
    context: &CommandContext,
) -> Result<(Vec<NamedReport>, Option<BuildManifest>)> {
    let (mut reports, manifest) = read(path, key, context)?;
    let rule = &context.host.config.lock;
    let report = manifest
        .as_ref()
        .and_then(|m| lock_rule::check_manifest(rule, m));
    reports.extend(report.map(|report| (format!("the lock of {}", path.display()), report)));
    Ok((reports, manifest))
}

/// Checks that the image is an artifact of the signed manifest, under any name.
fn is_listed(file: &Path, manifest: &BuildManifest) -> Result<verify::Verdict> {
    let (digest, _) = io::compute_sha256(file)?;
    let hex = digest.hex();
    if manifest.artifacts.iter().any(|a| a.sha256 == hex) {
        return Ok(Ok(()));
    }
    let what = format!("{} is not one of the manifest's artifacts", file.display());
    Ok(Err(VerifyFinding::error(what).found(digest).cure(
        "verify the original file: a converted one has a different digest",
    )))
}

/// Verifies every artifact of a manifest: its digest, and the contents of disks.
fn verify_manifest(
    args: &cli::VerifyArgs,
    key: Option<&RecordKey>,
    context: &CommandContext,
) -> Result<()> {
    let file = &args.file;
    let (mut reports, manifest) = read_with_lock(file, key, context)?;
    let Some(manifest) = manifest else {
        return report_results(&reports, args.json, context);
    };
    let asked = ImageRequirements::from_manifest(&manifest, context)?;
    if manifest.artifacts.is_empty() {
        let mut report = VerifyReport::default();
        let none = VerifyFinding::error("the manifest lists no artifacts to verify");
        report.add(
            Err(none.cure("use the manifest.json of a complete build")),
            None,
        );
        reports.push((file.display().to_string(), report));
    }
    let verdicts = check_digests(&manifest.artifacts, file, &context.cancel)?;
    for (artifact, verdict) in manifest.artifacts.iter().zip(verdicts) {
        context.cancel.check()?;
        let path = io::folder_of(file).join(&artifact.file);
        let mut report = VerifyReport::default();
        let is_whole = verdict.is_ok();
        report.add(verdict, None);
        if is_whole && artifact.is_disk() {
            report = check_image(&path, Some(&asked), report, context)?;
        }
        reports.push((artifact.file.clone(), report));
    }
    report_results(&reports, args.json, context)
}

/// Describes why a listed file cannot be read.
pub(super) fn describe_unreadable(name: &str, why: ContainedFileError) -> String {
    match why {
        ContainedFileError::Outside => format!("{name} is not in the manifest's folder"),
        ContainedFileError::Missing | ContainedFileError::NotRegular => format!("{name} {why}"),
    }
}

/// Checks size and digest of all artifacts; returns the verdicts in their order.
fn check_digests(
    artifacts: &[ManifestArtifact],
    manifest: &Path,
    cancel: &Cancel,
) -> Result<Vec<verify::Verdict>> {
    pool::map(
        artifacts,
        |artifact| artifact.size,
        |artifact| {
            cancel.check()?;
            check_digest(artifact, manifest)
        },
    )
}

/// Checks that size and digest match the manifest.
fn check_digest(artifact: &ManifestArtifact, manifest: &Path) -> Result<verify::Verdict> {
    let name = &artifact.file;
    let expected = format!("{} bytes, sha256:{}", artifact.size, artifact.sha256);
    let path = match io::find_contained_file(io::folder_of(manifest), name) {
        Ok(found) => found.path,
        Err(ContainedFileError::Missing) => {
            return Ok(Err(VerifyFinding::error(format!("{name} is missing"))
                .expected(expected)
                .cure("run verify in the folder with the artifacts")));
        }
        Err(why) => {
            let beside = "a file in the manifest's folder or below";
            return Ok(Err(
                VerifyFinding::error(describe_unreadable(name, why)).expected(beside)
            ));
        }
    };
    let (digest, size) = io::compute_sha256(&path)?;
    if (size, digest.hex().as_str()) == (artifact.size, artifact.sha256.as_str()) {
        return Ok(Ok(()));
    }
    Ok(Err(VerifyFinding::error(format!(
        "{name} is not the file that the build wrote"
    ))
    .expected(expected)
    .found(format!("{size} bytes, {digest}"))
    .cure("copy it again from the build machine")))
}

/// Requirements of a manifest for its images.
struct ImageRequirements {
    expected: Vec<StepChecks>,
    targets: Vec<TargetSpec>,
    /// Names of targets that were not found.
    unknown: Vec<String>,
}

impl ImageRequirements {
    /// Collects the requirements. Targets are searched in the current folder, in `WINIMG_RECIPES`
    /// and in winimg.
    fn from_manifest(manifest: &BuildManifest, context: &CommandContext) -> Result<Self> {
        let (search, shipped) = source::find_search_dirs(context)?;
        let options = ReadOptions {
            search,
            shipped,
            ..ReadOptions::default()
        };
        let names = &manifest.targets;
        let mut targets = if names.is_empty() {
            Vec::new()
        } else {
            target::load_all(&options).0
        };
        targets.retain(|target| names.contains(&target.name));
        let unknown = names
            .iter()
            .filter(|name| !targets.iter().any(|target| target.name == **name))
            .cloned()
            .collect();
        Ok(Self {
            expected: manifest.list_expected(),
            unknown,
            targets,
        })
    }
}

/// Verifies the disks of an image. A damaged disk or one without Windows is a finding, so that the
/// others are still checked.
fn check_image(
    path: &Path,
    asked: Option<&ImageRequirements>,
    mut report: VerifyReport,
    context: &CommandContext,
) -> Result<VerifyReport> {
    let opened = open_disks(path, context);
    let Some((disks, _work)) = record_error(opened, path.display(), &mut report)? else {
        return Ok(report);
    };
    let is_several = disks.len() > 1;
    let mut with_windows = 0;
    for (name, disk) in &disks {
        let place = match name {
            Some(name) => format!("{name} in {}", path.display()),
            None => path.display().to_string(),
        };
        if is_several {
            let table = record_error(gpt::read_table(disk.as_ref()), &place, &mut report)?;
            let Some(table) = table else { continue };
            match WindowsVolume::find(disk.as_ref(), &table) {
                Ok(_) => with_windows += 1,
                Err(error) if error.kind() == Kind::Verify => {
                    report.passed += 1;
                    continue;
                }
                Err(error) => return Err(error.or_at(place)),
            }
        }
        check_disk(disk.as_ref(), &place, asked, &mut report, context)?;
    }
    if is_several && with_windows == 0 {
        let what = format!("none of the {} disks contains Windows", disks.len());
        report.add(Err(VerifyFinding::error(what)), None);
    }
    for name in asked.iter().flat_map(|asked| &asked.unknown) {
        let what = format!(
            "requirements of the target `{name}`: no readable targets/{name}.toml was found"
        );
        report.add(Err(VerifyFinding::unknown(what)), None);
    }
    Ok(report)
}

fn check_disk(
    disk: &dyn Disk,
    place: &str,
    asked: Option<&ImageRequirements>,
    report: &mut VerifyReport,
    context: &CommandContext,
) -> Result<()> {
    let expected = asked.map(|asked| asked.expected.as_slice());
    let targets: Vec<&TargetSpec> = asked.iter().flat_map(|asked| &asked.targets).collect();
    let checked = verify::check(disk, expected, &targets, &context.cancel);
    if let Some(found) = record_error(checked, place, report)? {
        report.passed += found.passed;
        report.findings.extend(found.findings);
    }
    Ok(())
}

/// Turns an error about the image into a finding; returns any other error.
fn record_error<T>(
    answer: Result<T>,
    place: impl fmt::Display,
    report: &mut VerifyReport,
) -> Result<Option<T>> {
    match answer {
        Ok(found) => Ok(Some(found)),
        Err(error) if matches!(error.kind(), Kind::Verify | Kind::Failed) => {
            report.add(Err(error.or_at(place).into()), None);
            Ok(None)
        }
        Err(error) => Err(error.or_at(place)),
    }
}

/// Emits the findings as events and prints the summary; fails if there are errors.
fn report_results(reports: &[NamedReport], as_json: bool, context: &CommandContext) -> Result<()> {
    let mut text = String::new();
    let mut bad = None;
    for (name, report) in reports {
        verify::report(report, name, context.sink.as_ref());
        text += &format!("{name}: {}\n", report.summarize());
        if !report.is_good() {
            bad.get_or_insert_with(|| verify::failed_image_error(name, &report.summarize()));
        }
    }
    if as_json {
        print_json(&json!(VerifyResult {
            good: bad.is_none(),
            files: reports
                .iter()
                .map(|(name, report)| VerifiedFile::from_report(name, report))
                .collect(),
        }))?;
    } else {
        print(&text)?;
    }
    match bad {
        None => Ok(()),
        Some(error) => Err(error.mark_reported()),
    }
}
