//! `winimg publish`: a finished image to where a platform takes it from.
//!
//! Judges every file before anything is sent, shows what is there and what will be sent, sends it in an order whose last piece says
//! that all is there, and records it. Refuses to replace what is another file, unless that was asked for.

mod image;
mod options;
mod properties;

use std::path::Path;

use crate::cli;
use crate::page::size;
use crate::record::Manifest;
use crate::record::built::MANIFEST;
use crate::record::published::{self, Publication, Published};
use winimg_base::error::{Error, Kind, Result};
use winimg_base::io;
use winimg_base::text::{column_width, count};
use winimg_supply::publish::{Arrived, Destination, Image, Known, Object, Publisher, Standing};

use super::{Context, must_exist, print};

/// What an object is at the destination, and what is done about it.
struct Line<'o> {
    object: &'o Object,
    standing: Standing,
}

pub fn run(args: &cli::Publish, context: &Context) -> Result<()> {
    let destination = Destination::parse(&args.to)?;
    options::refuse_foreign(args, &destination)?;
    must_exist(&args.image)?;
    let path = match args.image.is_dir() {
        true => args.image.join(MANIFEST),
        false => args.image.clone(),
    };
    let folder = io::folder_of(&path);
    let manifest = Manifest::read(&path)?;
    let image = image::judged(&manifest, folder, &destination, &args.only)?;
    let publisher = Publisher::open(
        &destination,
        options::settings(args, &destination, &manifest, context)?,
        &context.sink,
        &context.cancel,
    )?;
    let done = published(args, &destination, (&image, &path), &publisher);
    publisher.close();
    done
}

/// Shows what is there and what is not, sends what is not, and records it.
fn published(
    args: &cli::Publish,
    destination: &Destination,
    (image, manifest): (&Image, &Path),
    publisher: &Publisher,
) -> Result<()> {
    let folder = io::folder_of(manifest);
    let earlier = Published::read(folder)?;
    let objects = publisher.objects(image)?;
    let mut lines = Vec::new();
    for object in &objects {
        let standing = publisher.standing(object)?;
        lines.push(Line {
            object,
            standing: judged(standing, object, &earlier),
        });
    }
    print(&shown(&image.name, destination, &lines, args.replace))?;
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
    let summary = ended(destination, &lines, &sent);
    let (manifest, _) = io::sha256(manifest)?;
    let publication = Publication {
        to: destination.to_string(),
        time: jiff::Timestamp::now().to_string(),
        manifest: manifest.hex(),
        objects: sent,
    };
    earlier.write(folder, publication)?;
    print(&summary)
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
    let width = column_width(lines.iter().map(|l| l.object.name.chars().count()));
    let mut text = format!("{name} to {destination}\n");
    for Line { object, standing } in lines {
        let what = match standing {
            Standing::Absent => format!("to be {}", object.done),
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
fn ended(destination: &Destination, lines: &[Line<'_>], objects: &[published::Object]) -> String {
    let is_there = |line: &&Line<'_>| matches!(line.standing, Standing::Same(_));
    let there = lines.iter().filter(is_there).count();
    let new = lines.len() - there;
    let done = match lines.iter().all(|line| line.object.done == "sent") {
        true => "sent",
        false => "done",
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
