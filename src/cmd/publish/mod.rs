//! `winimg publish`: uploads a finished image to a destination.
//!
//! Checks every file before uploading anything, shows what exists and what will be uploaded,
//! uploads the file that marks completion last, and records the result. Refuses to replace a
//! different file without `--replace`.

mod image;
mod properties;

use std::path::Path;

use crate::cli;
use crate::record::BuildManifest;
use crate::record::published::{self, Publication, PublicationRecord};
use crate::record::writer::MANIFEST;
use winimg_base::error::{Error, Kind, Result};
use winimg_base::io;
use winimg_base::text::{column_width, count, format_size};
use winimg_supply::fetch::shared_cache::RegistryConfig;
use winimg_supply::publish::{
    Destination, KnownBy, ObjectStatus, PublishHost, PublishImage, PublishObject, PublishedObject,
    Publisher,
};

use super::{CommandContext, must_exist, print};

/// An object and its status at the destination.
struct PublishLine<'o> {
    object: &'o PublishObject,
    standing: ObjectStatus,
}

pub fn run(args: &cli::PublishArgs, context: &CommandContext) -> Result<()> {
    let destination = Destination::parse(&args.to, args.flags.0.clone())?;
    image::refuse_only(&destination, &args.only)?;
    must_exist(&args.image)?;
    let path = if args.image.is_dir() {
        args.image.join(MANIFEST)
    } else {
        args.image.clone()
    };
    let folder = io::folder_of(&path);
    let manifest = BuildManifest::read(&path)?;
    let mut image = image::check_files(&manifest, folder, &destination, &args.only)?;
    let configured = &context.host.config.cache;
    let registries = RegistryConfig {
        file: configured.credentials.clone(),
        token_host: configured.token_host.clone(),
    };
    let host = PublishHost::new(context.host.proxies.clone(), registries, &context.sink);
    let publisher = Publisher::open(&destination, host, &context.cancel)?;
    if matches!(destination, Destination::Glance(_)) {
        image.properties = properties::read(&manifest, context)?;
    }
    let done = publish(args, &destination, (&image, &path), &publisher);
    publisher.close();
    done
}

/// Shows the status of each object, uploads the missing ones, and records the result.
fn publish(
    args: &cli::PublishArgs,
    destination: &Destination,
    (image, manifest): (&PublishImage, &Path),
    publisher: &Publisher,
) -> Result<()> {
    let folder = io::folder_of(manifest);
    let earlier = PublicationRecord::read(folder)?;
    let objects = publisher.list_objects(image)?;
    let mut lines = Vec::new();
    for object in &objects {
        let standing = publisher.check_status(object)?;
        lines.push(PublishLine {
            object,
            standing: resolve_status(standing, object, &earlier),
        });
    }
    print(&render_plan(&image.name, destination, &lines, args.replace))?;
    refuse_replacements(&lines, args.replace)?;
    if args.dry_run {
        return Ok(());
    }
    let mut sent = Vec::new();
    for line in &lines {
        let PublishObject { at, sha256, .. } = line.object;
        let (known, id) = match &line.standing {
            ObjectStatus::Same(id) => (earlier.find_evidence(at, &sha256.hex()), id.clone()),
            _ => convert_arrival(publisher.send(line.object)?),
        };
        sent.push(record(line.object, known, id));
    }
    let summary = render_summary(destination, &lines, &sent);
    let (manifest, _) = io::compute_sha256(manifest)?;
    let publication = Publication {
        to: destination.to_string(),
        time: jiff::Timestamp::now().to_string(),
        manifest: manifest.hex(),
        objects: sent,
    };
    earlier.write(folder, publication)?;
    print(&summary)
}

/// Decides about an object whose digest the destination does not report: it is the same if an
/// earlier run uploaded it and the size matches.
fn resolve_status(
    standing: ObjectStatus,
    object: &PublishObject,
    earlier: &PublicationRecord,
) -> ObjectStatus {
    let ObjectStatus::Unknown { size: there } = standing else {
        return standing;
    };
    let is_ours = earlier.has_object(&object.at, &object.sha256.hex(), object.size);
    match there {
        Some(there) if is_ours && there == object.size => ObjectStatus::Same(None),
        Some(there) => ObjectStatus::Other(format!("{there} bytes, without a digest")),
        None => ObjectStatus::Other("a file without a size and a digest".into()),
    }
}

fn render_plan(
    name: &str,
    destination: &Destination,
    lines: &[PublishLine<'_>],
    replace: bool,
) -> String {
    let width = column_width(lines.iter().map(|l| l.object.name.chars().count()));
    let mut text = format!("{name} to {destination}\n");
    for PublishLine { object, standing } in lines {
        let what = match standing {
            ObjectStatus::Absent => format!("to be {}", object.done),
            ObjectStatus::Same(_) => "already there".into(),
            _ if replace => "to be replaced".into(),
            _ => "a different file exists there".into(),
        };
        let size = match object.size {
            0 => String::new(),
            bytes => format_size(bytes),
        };
        text += &format!("  {:<width$}  {size:>9}  {what}\n", object.name);
    }
    text
}

fn refuse_replacements(lines: &[PublishLine<'_>], replace: bool) -> Result<()> {
    let others: Vec<String> = lines
        .iter()
        .filter_map(|line| match &line.standing {
            ObjectStatus::Other(found) => Some(format!("{}: {found}", line.object.at)),
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
        .cure("choose another folder or tag, or use --replace"))
}

/// Renders the summary, with the ids that the platform assigned.
fn render_summary(
    destination: &Destination,
    lines: &[PublishLine<'_>],
    objects: &[published::PublicationObject],
) -> String {
    let there = lines
        .iter()
        .filter(|line| matches!(line.standing, ObjectStatus::Same(_)))
        .count();
    let new = lines.len() - there;
    let done = if lines.iter().all(|line| line.object.done == "sent") {
        "sent"
    } else {
        "done"
    };
    let mut text = format!("published to {destination}: {new} {done}, {there} already there\n");
    for object in objects {
        if let Some(id) = &object.id {
            text += &format!("  {}: {id}\n", object.name);
        }
    }
    text
}

fn convert_arrival(arrived: PublishedObject) -> (published::ObjectEvidence, Option<String>) {
    let known = match arrived.known {
        KnownBy::Digest => published::ObjectEvidence::Digest,
        KnownBy::Size => published::ObjectEvidence::Size,
    };
    (known, arrived.id)
}

fn record(
    object: &PublishObject,
    known: published::ObjectEvidence,
    id: Option<String>,
) -> published::PublicationObject {
    published::PublicationObject {
        name: object.name.clone(),
        at: object.at.clone(),
        size: object.size,
        sha256: object.sha256.hex(),
        known,
        id,
    }
}
