//! `winimg publish`: a finished image to where a platform takes it from.
//!
//! Judges every file before anything is sent, shows what is there and what will be sent, sends it in an order whose last piece says
//! that all is there, and records it. Refuses to replace what is another file, unless that was asked for.

use std::collections::BTreeSet;
use std::env;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::cli;
use crate::page::size;
use crate::record::Manifest;
use crate::record::built::MANIFEST;
use crate::record::manifest::Artifact;
use crate::record::published::{self, Publication, Published};
use winimg_base::digest::Digest;
use winimg_base::error::{Error, Kind, Result};
use winimg_base::io;
use winimg_base::text::count;
use winimg_recipe::recipe::target::Output;
use winimg_supply::fetch::sharing::Places;
use winimg_supply::fetch::{FetchOptions, Patience};
use winimg_supply::publish::{
    Arrived, Destination, File, Image, Import, Known, Login, Object, Publisher, Role, Settings,
    Standing,
};

use super::{Context, must_exist, print};

/// A part of 16 MiB is one request, whose answer comes when all of it went.
const PATIENCE: Patience = Patience {
    connect: Duration::from_secs(30),
    answer: Duration::from_secs(300),
    stall: Duration::from_secs(60),
    slow: Duration::from_secs(600),
};

/// The records of an image and what they are; those that are not there were not made.
const RECORDS: [(&str, &str); 8] = [
    ("sbom.cdx.json", "application/vnd.cyclonedx+json"),
    ("sbom.spdx.json", "application/spdx+json"),
    ("provenance.intoto.json", "application/vnd.in-toto+json"),
    (
        "provenance.sigstore.json",
        "application/vnd.dev.sigstore.bundle.v0.3+json",
    ),
    (
        "provenance.dsse.json",
        "application/vnd.dsse.envelope.v1+json",
    ),
    ("provenance.intoto.json.minisig", "application/x-minisig"),
    ("manifest.json.sig", "application/octet-stream"),
    ("manifest.json.minisig", "application/x-minisig"),
];

/// What an object is at the destination, and what is done about it.
struct Line<'o> {
    object: &'o Object,
    standing: Standing,
}

pub fn run(args: &cli::Publish, context: &Context) -> Result<()> {
    let destination = Destination::parse(&args.to)?;
    refuse_regions(args, &destination)?;
    must_exist(&args.image)?;
    let path = match args.image.is_dir() {
        true => args.image.join(MANIFEST),
        false => args.image.clone(),
    };
    let folder = io::folder_of(&path).to_path_buf();
    let manifest = Manifest::read(&path)?;
    let image = image(&manifest, &folder, &destination, &args.only)?;
    let publisher = Publisher::open(
        &destination,
        settings(args, context)?,
        &context.sink,
        &context.cancel,
    )?;
    let earlier = Published::read(&folder)?;
    let objects = publisher.objects(&image)?;
    let mut lines = Vec::new();
    for object in &objects {
        let standing = publisher.standing(object)?;
        lines.push(Line {
            object,
            standing: judged(standing, object, &earlier),
        });
    }
    print(&shown(&image.name, &destination, &lines, args.replace))?;
    refuse_others(&lines, args.replace)?;
    if args.dry_run {
        return Ok(());
    }
    let mut sent = Vec::new();
    for line in &lines {
        let Object { at, sha256, .. } = line.object;
        let (known, id) = match &line.standing {
            Standing::Same(id) => (earlier.known(at, &sha256.hex()), id.clone()),
            _ => arrived(publisher.send(line.object)?),
        };
        sent.push(record(line.object, known, id));
    }
    let there = lines
        .iter()
        .filter(|l| matches!(l.standing, Standing::Same(_)))
        .count();
    let summary = ended(&destination, &sent, lines.len() - there);
    let (manifest, _) = io::sha256(&path)?;
    let publication = Publication {
        to: destination.to_string(),
        time: jiff::Timestamp::now().to_string(),
        manifest: manifest.hex(),
        objects: sent,
    };
    earlier.write(&folder, publication)?;
    print(&summary)
}

/// The files that go, each as the manifest lists it.
fn image(
    manifest: &Manifest,
    folder: &Path,
    destination: &Destination,
    only: &[String],
) -> Result<Image> {
    let wanted = wanted(manifest, destination, only)?;
    let mut files = Vec::new();
    let mut faults = Vec::new();
    for artifact in &wanted {
        let path = folder.join(&artifact.file);
        match fault(artifact, &path)? {
            Some(fault) => faults.push(fault),
            None => files.push(file(artifact, path)?),
        }
    }
    let is_ami = matches!(destination, Destination::Ami(_));
    if !faults.is_empty() {
        let fact = format!(
            "{} not what the build wrote",
            match faults.len() {
                1 => "1 file is".to_owned(),
                n => format!("{n} files are"),
            }
        );
        return Err(Error::new(Kind::Publish, fact)
            .at(folder.display())
            .lines(faults)
            .cure("publish from the folder of the build, or build again"));
    }
    if is_ami {
        files = vec![imported(&wanted, files, folder)?];
    }
    for (name, media_type) in RECORDS.into_iter().chain([(MANIFEST, "application/json")]) {
        let path = folder.join(name);
        if is_ami || !path.exists() {
            continue;
        }
        let (sha256, size) = io::sha256(&path)?;
        files.push(File {
            name: name.into(),
            path,
            size,
            sha256,
            media_type,
            role: Role::Record,
        });
    }
    Ok(Image {
        name: manifest.recipe.name.clone(),
        version: manifest.windows.build.clone(),
        created: manifest.finished.clone(),
        files,
    })
}

/// The artifacts that `--only` names; of a containerDisk itself alone.
fn wanted<'m>(
    manifest: &'m Manifest,
    destination: &Destination,
    only: &[String],
) -> Result<Vec<&'m Artifact>> {
    let container_disk = [Output::ContainerDisk.name().to_owned()];
    let ami = [Output::Ami.name().to_owned()];
    let only = match (destination, only) {
        (Destination::ContainerDisk(_), []) => &container_disk,
        (Destination::Ami(_), _) => &ami,
        (_, only) => only,
    };
    let kinds: BTreeSet<&str> = manifest.artifacts.iter().map(|a| a.kind.as_str()).collect();
    let unknown: Vec<&str> = only
        .iter()
        .map(String::as_str)
        .filter(|kind| !kinds.contains(kind))
        .collect();
    if !unknown.is_empty() {
        let kinds: Vec<&str> = kinds.into_iter().collect();
        return Err(
            Error::new(Kind::Recipe, "the image has no such output")
                .at("--only")
                .expected(format!("of {}", kinds.join(", ")))
                .found(unknown.join(", "))
                .cure("add it under [outputs] and build again, or make it from what is there: winimg export"),
        );
    }
    let all = manifest.artifacts.iter();
    let disks = all.clone().filter(|a| a.kind == ami[0]);
    let disks: Vec<&str> = disks.filter_map(|a| a.disk.as_deref()).collect();
    let is_ami = matches!(destination, Destination::Ami(_));
    Ok(all
        .filter(|a| {
            only.is_empty() || only.contains(&a.kind) || is_ami && disks.contains(&a.file.as_str())
        })
        .collect())
}

/// Why a file is not the one that the manifest lists.
fn fault(artifact: &Artifact, path: &Path) -> Result<Option<String>> {
    if !path.exists() {
        return Ok(Some(format!("{} is missing", artifact.file)));
    }
    let (digest, size) = io::sha256(path)?;
    if (digest.hex().as_str(), size) == (artifact.sha256.as_str(), artifact.size) {
        return Ok(None);
    }
    Ok(Some(format!(
        "{}: expected {} bytes, sha256:{}; found {size} bytes, {digest}",
        artifact.file, artifact.size, artifact.sha256
    )))
}

fn file(artifact: &Artifact, path: PathBuf) -> Result<File> {
    let broken = |why| Error::failed(format!("the manifest's digest {why}"));
    let is_container_disk = artifact.kind == Output::ContainerDisk.name();
    Ok(File {
        name: artifact.file.clone(),
        path,
        size: artifact.size,
        sha256: Digest::from_hex(&artifact.sha256).map_err(broken)?,
        media_type: match artifact.kind.as_str() {
            "ova" | "container_disk" => "application/x-tar",
            "ami" => "application/json",
            _ => "application/octet-stream",
        },
        role: match is_container_disk {
            true => Role::ContainerDisk,
            false => Role::Artifact,
        },
    })
}

/// The disk that the export's request to VM Import speaks of, of these two.
fn imported(listed: &[&Artifact], files: Vec<File>, folder: &Path) -> Result<File> {
    let (requests, disks): (Vec<_>, Vec<_>) = listed
        .iter()
        .zip(files)
        .partition(|(artifact, _)| artifact.kind == Output::Ami.name());
    let first = |files: Vec<(_, File)>| files.into_iter().next().map(|(_, file)| file);
    let (Some(request), Some(disk)) = (first(requests), first(disks)) else {
        return Err(
            Error::failed("the manifest lists no disk for its request to import one")
                .at(folder.display()),
        );
    };
    let text = std::fs::read_to_string(&request.path);
    let text = text.map_err(|e| Error::io("read", &request.path, e))?;
    let import: Import = serde_json::from_str(&text).map_err(|e| {
        Error::failed("this is not a request to import a disk that winimg wrote")
            .at(request.path.display())
            .because(e)
            .cure("make it again: winimg export")
    })?;
    Ok(File {
        role: Role::Imported(Box::new(import)),
        ..disk
    })
}

/// Regions and accounts are AWS'.
fn refuse_regions(args: &cli::Publish, destination: &Destination) -> Result<()> {
    let (is_ami, has_only) = (
        matches!(destination, Destination::Ami(_)),
        !args.only.is_empty(),
    );
    // A region is a part of a host's name.
    let word = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    if let Some(region) = args
        .copy_to
        .iter()
        .find(|r| r.is_empty() || !r.chars().all(word))
    {
        return Err(Error::new(Kind::Recipe, "this is no region of AWS")
            .at("--copy-to")
            .expected("such as eu-west-1")
            .found(region));
    }
    let is_account = |a: &String| a.len() == 12 && a.chars().all(|c| c.is_ascii_digit());
    if let Some(account) = args.share.iter().find(|a| !is_account(a)) {
        return Err(Error::new(Kind::Recipe, "this is no AWS account")
            .at("--share")
            .expected("12 digits")
            .found(account));
    }
    let option = match (args.copy_to.is_empty(), args.share.is_empty()) {
        _ if is_ami && has_only => "--only",
        _ if is_ami => return Ok(()),
        (false, _) => "--copy-to",
        (true, false) => "--share",
        (true, true) => return Ok(()),
    };
    let fact = match is_ami {
        true => "an AMI is made from the one disk that its request names",
        false => "only an AMI is copied to regions and shared with accounts",
    };
    Err(Error::new(Kind::Recipe, fact)
        .at(option)
        .found(destination)
        .cure(format!("leave {option} out")))
}

fn settings(args: &cli::Publish, context: &Context) -> Result<Settings> {
    let set = |name: &str| env::var(name).ok().filter(|value| !value.is_empty());
    let configured = &context.host.said.cache;
    Ok(Settings {
        places: Places {
            file: configured.credentials.clone(),
            token_host: configured.token_host.clone(),
        },
        region: set("AWS_REGION").or_else(|| set("AWS_DEFAULT_REGION")),
        endpoint: set("AWS_ENDPOINT_URL_S3").or_else(|| set("AWS_ENDPOINT_URL")),
        compute: set("AWS_ENDPOINT_URL_EC2").or_else(|| set("AWS_ENDPOINT_URL")),
        copies: args.copy_to.clone(),
        accounts: args.share.clone(),
        login: Login::of_environment()?,
        options: FetchOptions {
            proxies: context.host.proxies.clone(),
            patience: PATIENCE,
            ..FetchOptions::default()
        },
    })
}

/// What nobody names the digest of is ours where an earlier run sent it and it has its size.
fn judged(standing: Standing, object: &Object, earlier: &Published) -> Standing {
    let Standing::Unknown { size: there } = standing else {
        return standing;
    };
    let is_ours = earlier.has(&object.at, &object.sha256.hex(), object.size);
    match there {
        Some(there) if is_ours && there == object.size => Standing::Same(None),
        Some(there) => Standing::Other(format!("{there} bytes, without a digest")),
        None => Standing::Other("a file without a size and a digest".into()),
    }
}

fn shown(name: &str, destination: &Destination, lines: &[Line<'_>], replace: bool) -> String {
    let longest = lines.iter().map(|l| l.object.name.chars().count()).max();
    let width = longest.unwrap_or(0);
    let mut text = format!("{name} to {destination}\n");
    for Line { object, standing } in lines {
        let what = match standing {
            Standing::Absent => format!("to be {}", object.done()),
            Standing::Same(_) => "there already".into(),
            _ if replace => "to be replaced".into(),
            _ => "another file is there".into(),
        };
        let size = match object.size {
            0 => String::new(),
            bytes => size(bytes),
        };
        text += &format!("  {:<width$}  {size:>9}  {what}\n", object.name);
    }
    text
}

fn refuse_others(lines: &[Line<'_>], replace: bool) -> Result<()> {
    let others: Vec<String> = lines
        .iter()
        .filter_map(|line| match &line.standing {
            Standing::Other(found) => Some(format!("{}: {found}", line.object.at)),
            _ => None,
        })
        .collect();
    if replace || others.is_empty() {
        return Ok(());
    }
    let fact = format!(
        "{} at the destination would be replaced",
        count(others.len(), "file")
    );
    Err(Error::new(Kind::Publish, fact)
        .lines(others)
        .cure("give another folder or tag, or --replace"))
}

/// The last lines: how much was done, and what the platform calls it.
fn ended(destination: &Destination, objects: &[published::Object], new: usize) -> String {
    let there = objects.len() - new;
    let done = match destination {
        Destination::Ami(_) => "done",
        _ => "sent",
    };
    let mut text = format!("published to {destination}: {new} {done}, {there} there already\n");
    for object in objects {
        if let Some(id) = &object.id {
            text += &format!("  {}: {id}\n", object.name);
        }
    }
    text
}

fn arrived(arrived: Arrived) -> (published::Known, Option<String>) {
    let known = match arrived.known {
        Known::Digest => published::Known::Digest,
        Known::Size => published::Known::Size,
    };
    (known, arrived.id)
}

fn record(object: &Object, known: published::Known, id: Option<String>) -> published::Object {
    published::Object {
        name: object.name.clone(),
        at: object.at.clone(),
        size: object.size,
        sha256: object.sha256.hex(),
        known,
        id,
    }
}
