//! `winimg verify`: whether a finished image is what its recipe says.

use std::fmt;
use std::path::{Path, PathBuf};

use serde_json::json;
use tempfile::TempDir;

use crate::cli;
use crate::pool;
use crate::record::key::PublicKey;
use crate::record::manifest::Artifact;
use crate::record::{Manifest, check};
use crate::verify::{self, Finding, Report};
use winimg_base::error::{Error, Kind, Result};
use winimg_base::event::Cancel;
use winimg_base::io::{self, NotWithin};
use winimg_formats::disk::ntfs::Windows;
use winimg_formats::disk::qcow2::Qcow2;
use winimg_formats::disk::qemu_img;
use winimg_formats::disk::{self, Disk, Format, Image, gpt};
use winimg_recipe::plan::Expected;
use winimg_recipe::recipe::Options;
use winimg_recipe::recipe::target::{self, Target};

use super::documents::{Verified, VerifiedFile};
use super::{Context, is_record, lock_rule, must_exist, print, print_json, source};

pub fn run(args: &cli::Verify, context: &Context) -> Result<()> {
    must_exist(&args.file)?;
    let is_manifest = is_record(&args.file);
    let key = args.key.as_deref().map(PublicKey::given).transpose()?;
    let key = key.as_ref();
    match (is_manifest, &args.manifest) {
        (true, None) => listed(args, key, context),
        (true, Some(_)) => Err(Error::new(
            Kind::Recipe,
            "--manifest goes with an image, not with another manifest",
        )
        .cure("winimg verify IMAGE --manifest FILE")),
        (false, None) if key.is_some() => Err(Error::new(
            Kind::Recipe,
            "--key needs the manifest: that is what is signed",
        )
        .cure("winimg verify IMAGE --manifest FILE --key KEY")),
        (false, None) => {
            let report = image(&args.file, None, Report::default(), context)?;
            conclude(
                &[(args.file.display().to_string(), report)],
                args.json,
                context,
            )
        }
        (false, Some(path)) => one(args, path, key, context),
    }
}

/// One image, wherever it is; with a key it has to be one of those that were signed.
fn one(
    args: &cli::Verify,
    manifest: &Path,
    key: Option<&PublicKey>,
    context: &Context,
) -> Result<()> {
    let file = &args.file;
    let (mut reports, manifest) = read_for(manifest, key, context)?;
    let Some(manifest) = manifest else {
        return conclude(&reports, args.json, context);
    };
    let mut report = Report::default();
    if key.is_some() {
        report.add(is_listed(file, &manifest)?, None);
    }
    let report = image(file, Some(&Asked::of(&manifest, context)?), report, context)?;
    reports.push((file.display().to_string(), report));
    conclude(&reports, args.json, context)
}

type Named = (String, Report);

/// The manifest, and what its key says of it and its records. A key finds a manifest that can't be read; without one
/// that is an error.
fn read(
    path: &Path,
    key: Option<&PublicKey>,
    context: &Context,
) -> Result<(Vec<Named>, Option<Manifest>)> {
    let Some(key) = key else {
        let manifest = Manifest::read(path)?;
        if let Some(signature) = check::signatures(path).first() {
            context.sink.note(format!(
                "there are signatures ({} …), which are not looked at without --key",
                signature.display()
            ));
        }
        return Ok((Vec::new(), Some(manifest)));
    };
    let (report, manifest) = check::records(path, key)?;
    Ok((vec![(path.display().to_string(), report)], manifest))
}

/// The same, and what this host asks of the lock that the image was built with.
fn read_for(
    path: &Path,
    key: Option<&PublicKey>,
    context: &Context,
) -> Result<(Vec<Named>, Option<Manifest>)> {
    let (mut reports, manifest) = read(path, key, context)?;
    let rule = &context.host.said.lock;
    let report = manifest
        .as_ref()
        .and_then(|m| lock_rule::of_manifest(rule, m));
    reports.extend(report.map(|report| (format!("the lock of {}", path.display()), report)));
    Ok((reports, manifest))
}

/// An image that was signed for, whatever it is called now.
fn is_listed(file: &Path, manifest: &Manifest) -> Result<verify::Verdict> {
    let (digest, _) = io::sha256(file)?;
    let hex = digest.hex();
    if manifest.artifacts.iter().any(|a| a.sha256 == hex) {
        return Ok(Ok(()));
    }
    let what = format!("{} is not one of the manifest's artifacts", file.display());
    Ok(Err(Finding::error(what).found(digest).cure(
        "a file that was converted is not the one that was signed",
    )))
}

/// Every artifact of a manifest: its bytes, and what a disk holds.
fn listed(args: &cli::Verify, key: Option<&PublicKey>, context: &Context) -> Result<()> {
    let file = &args.file;
    let (mut reports, manifest) = read_for(file, key, context)?;
    let Some(manifest) = manifest else {
        return conclude(&reports, args.json, context);
    };
    let asked = Asked::of(&manifest, context)?;
    if manifest.artifacts.is_empty() {
        let mut report = Report::default();
        let none = Finding::error("the manifest names no artifact, so there is nothing to verify");
        report.add(
            Err(none.cure("take the manifest.json of a whole build")),
            None,
        );
        reports.push((file.display().to_string(), report));
    }
    let verdicts = all_bytes(&manifest.artifacts, file, &context.cancel)?;
    for (artifact, verdict) in manifest.artifacts.iter().zip(verdicts) {
        context.cancel.check()?;
        let path = io::folder_of(file).join(&artifact.file);
        let mut report = Report::default();
        let is_whole = verdict.is_ok();
        report.add(verdict, None);
        if is_whole && artifact.is_disk() {
            report = image(&path, Some(&asked), report, context)?;
        }
        reports.push((artifact.file.clone(), report));
    }
    conclude(&reports, args.json, context)
}

/// Why a file that a manifest lists is not looked at.
pub(super) fn not_beside(name: &str, why: NotWithin) -> String {
    match why {
        NotWithin::Outside => format!("{name} is not in the manifest's folder"),
        NotWithin::Missing | NotWithin::NotRegular => format!("{name} {why}"),
    }
}

/// What is to be said of each artifact's bytes, in their order.
fn all_bytes(
    artifacts: &[Artifact],
    manifest: &Path,
    cancel: &Cancel,
) -> Result<Vec<verify::Verdict>> {
    pool::map(
        artifacts,
        |artifact| artifact.size,
        |artifact| {
            cancel.check()?;
            bytes(artifact, manifest)
        },
    )
}

/// Size and digest as the manifest has them.
fn bytes(artifact: &Artifact, manifest: &Path) -> Result<verify::Verdict> {
    let name = &artifact.file;
    let expected = format!("{} bytes, sha256:{}", artifact.size, artifact.sha256);
    let path = match io::file_within(io::folder_of(manifest), name) {
        Ok(found) => found.path,
        Err(NotWithin::Missing) => {
            return Ok(Err(Finding::error(format!("{name} is missing"))
                .expected(expected)
                .cure("verify the manifest where its artifacts are")));
        }
        Err(why) => {
            let beside = "a file beside the manifest, or below its folder";
            return Ok(Err(Finding::error(not_beside(name, why)).expected(beside)));
        }
    };
    let (digest, size) = io::sha256(&path)?;
    if (size, digest.hex().as_str()) == (artifact.size, artifact.sha256.as_str()) {
        return Ok(Ok(()));
    }
    Ok(Err(Finding::error(format!(
        "{name} is not the file that the build wrote"
    ))
    .expected(expected)
    .found(format!("{size} bytes, {digest}"))
    .cure("copy it again from where it was built")))
}

/// What a manifest asks of its images.
struct Asked {
    expected: Vec<Expected>,
    targets: Vec<Target>,
    /// Names of targets whose files are not here.
    unknown: Vec<String>,
}

impl Asked {
    /// The targets are those of the current folder, of `WINIMG_RECIPES` and of winimg.
    fn of(manifest: &Manifest, context: &Context) -> Result<Self> {
        let (search, shipped) = source::search_dirs(context)?;
        let options = Options {
            search,
            shipped,
            ..Options::default()
        };
        let names = &manifest.targets;
        let mut targets = match names.is_empty() {
            true => Vec::new(),
            false => target::all(&options).0,
        };
        targets.retain(|target| names.contains(&target.name));
        let is_here = |name: &&String| targets.iter().any(|target| target.name == **name);
        let unknown = names.iter().filter(|name| !is_here(name));
        Ok(Self {
            expected: manifest.expected(),
            unknown: unknown.cloned().collect(),
            targets,
        })
    }
}

/// A disk that is damaged or has no Windows is a finding, too: the others are still looked at.
fn image(
    path: &Path,
    asked: Option<&Asked>,
    mut report: Report,
    context: &Context,
) -> Result<Report> {
    let opened = opened_all(path, context);
    let Some((disks, _work)) = judged(opened, path.display(), &mut report)? else {
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
            let table = judged(gpt::table(disk.as_ref()), &place, &mut report)?;
            let Some(table) = table else { continue };
            match Windows::find(disk.as_ref(), &table) {
                Ok(_) => with_windows += 1,
                Err(error) if error.kind() == Kind::Verify => {
                    report.holds += 1;
                    continue;
                }
                Err(error) => return Err(error.or_at(place)),
            }
        }
        one_disk(disk.as_ref(), &place, asked, &mut report, context)?;
    }
    if is_several && with_windows == 0 {
        let what = format!("there is no Windows on any of the {} disks", disks.len());
        report.add(Err(Finding::error(what)), None);
    }
    for name in asked.iter().flat_map(|asked| &asked.unknown) {
        let what = format!(
            "what the target `{name}` asks of the image: there is no targets/{name}.toml here that can be read"
        );
        report.add(Err(Finding::unknown(what)), None);
    }
    Ok(report)
}

fn one_disk(
    disk: &dyn Disk,
    place: &str,
    asked: Option<&Asked>,
    report: &mut Report,
    context: &Context,
) -> Result<()> {
    let expected = asked.map(|asked| asked.expected.as_slice());
    let targets = asked.iter().flat_map(|asked| &asked.targets);
    let targets: Vec<&Target> = targets.collect();
    let checked = verify::check(disk, expected, &targets, &context.cancel);
    if let Some(found) = judged(checked, place, report)? {
        report.holds += found.holds;
        report.findings.extend(found.findings);
    }
    Ok(())
}

/// Makes a finding of an error that says something of the image; any other one is returned.
fn judged<T>(
    answer: Result<T>,
    place: impl fmt::Display,
    report: &mut Report,
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

/// The disks of an image, with their names where there are several.
type Disks = Vec<(Option<String>, Box<dyn Disk>)>;

fn opened_all(path: &Path, context: &Context) -> Result<(Disks, Option<TempDir>)> {
    if Format::of(path)? == Format::Ova {
        return Ok((disk::open_all(path, &context.cancel)?, None));
    }
    let (disk, work) = opened(path, context)?;
    Ok((Vec::from([(None, disk)]), work))
}

/// A compressed qcow2 is unpacked beside it first; the folder goes when it is dropped.
pub fn opened(path: &Path, context: &Context) -> Result<(Box<dyn Disk>, Option<TempDir>)> {
    if Format::of(path)? != Format::Qcow2 {
        return Ok((disk::open(path, &context.cancel)?, None));
    }
    if let Some(disk) = Qcow2::look(Image::alone(path), &context.cancel)? {
        return Ok((Box::new(disk), None));
    }
    let work = tempfile::Builder::new()
        .prefix(".winimg-verify-")
        .tempdir_in(io::folder_of(path))
        .map_err(|e| Error::io("write beside", path, e))?;
    let flat: PathBuf = work.path().join("flat.qcow2");
    context
        .sink
        .note(format!("{}: unpacking it", path.display()));
    qemu_img::flatten(
        &qemu_img::Named::file(path, "qcow2"),
        &flat,
        &context.cancel,
    )?;
    let disk = Qcow2::open(Image::alone(&flat), &context.cancel)?;
    Ok((Box::new(disk), Some(work)))
}

/// Findings are events; the counts are what the command prints.
fn conclude(reports: &[Named], as_json: bool, context: &Context) -> Result<()> {
    let mut text = String::new();
    let mut bad = None;
    for (name, report) in reports {
        verify::report(report, name, context.sink.as_ref());
        text += &format!("{name}: {}\n", report.summary());
        if !report.is_good() {
            bad.get_or_insert_with(|| verify::failed(name, &report.summary()));
        }
    }
    match as_json {
        true => print_json(&json!(Verified {
            good: bad.is_none(),
            files: reports
                .iter()
                .map(|(name, report)| VerifiedFile::of(name, report))
                .collect(),
        }))?,
        false => print(&text)?,
    }
    match bad {
        None => Ok(()),
        Some(error) => Err(error.reported()),
    }
}
