//! The run itself: row after row, and what each left judged.
//!
//! A row that is done is not done again: its `row.json` is kept with the key of all that went into it. A row that failed is tried again from
//! its last layer, and hides no other.

use std::fs;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use winimg_base::digest::Digest;
use winimg_base::event::Cancel;

use crate::cluster::Cluster;
use crate::judge;
use crate::ledger::Ledger;
use crate::page;
use crate::proof::{Medium, Proof, Row, SCHEMA, Seen};
use crate::rows::{self, Wanted, What};
use crate::site::{Done, Site, at};

/// What was asked for.
pub struct Options {
    pub winimg: PathBuf,
    /// The top of the source tree.
    pub tree: PathBuf,
    pub iso: PathBuf,
    pub virtio: Option<PathBuf>,
    /// For the proof, and below `work` for the rows.
    pub output: PathBuf,
    /// A recipe of the site's own that every row includes last.
    pub with: Option<PathBuf>,
    /// `NAME=VALUE` and `PATH=VALUE` for each build.
    pub vars: Vec<String>,
    pub sets: Vec<String>,
    /// Words of rows' names; none: all rows.
    pub words: Vec<String>,
    pub hypervisor: String,
    pub accel: Option<String>,
    pub settle: Option<String>,
    /// What clones of node images join.
    pub cluster: Option<Cluster>,
    /// Keep artifacts, which are large.
    pub keep: bool,
    /// Set by an interrupt.
    pub cancel: Cancel,
}

/// A row as it was kept.
#[derive(Serialize, Deserialize)]
struct Kept {
    key: String,
    row: Row,
}

/// Builds, tries and judges; the proof's files are written anew after each row.
///
/// # Errors
/// What keeps any row from being begun: a medium that is none, a folder that cannot be written.
pub fn run(options: &Options, ledger: &Ledger) -> Done<Proof> {
    let work = options.output.join("work");
    at(&work, fs::create_dir_all(&work))?;
    let site = Site { options, work };
    if let Some(cluster) = &options.cluster {
        // Before hours of building: kubectl is there, and the cluster answers.
        cluster.is_free()?;
    }
    let medium = site.medium(ledger)?;
    let all = rows::all(&options.hypervisor, build(&medium));
    let wanted = rows::chosen(all, &options.words);
    if wanted.is_empty() {
        return Err(format!("no row is called so: {}", options.words.join(", ")));
    }
    let mut proof = Proof {
        schema: SCHEMA.into(),
        winimg: site.version()?,
        started: now(),
        ended: now(),
        has_control_plane: options.cluster.is_some(),
        host: site.host()?,
        medium,
        rows: Vec::new(),
        verdicts: Vec::new(),
    };
    let values = site.values(&proof.medium)?;
    for wanted in &wanted {
        let row = row(&site, wanted, &values, &proof)?;
        let word = if row.is_good() { "good" } else { "BAD" };
        let seconds: f64 = row.stages.iter().map(|stage| stage.seconds).sum();
        println!("{word:<4} {:6.1} min  {}", seconds / 60.0, row.name);
        proof.rows.push(row);
        proof.ended = now();
        proof.verdicts = judge::verdicts(ledger, &proof.rows);
        write(&options.output, &proof, ledger)?;
    }
    Ok(proof)
}

fn now() -> String {
    let now = jiff::Timestamp::now();
    now.round(jiff::Unit::Second).unwrap_or(now).to_string()
}

/// `BUILD.json` and `BUILD.html`.
///
/// # Errors
/// A file cannot be written.
pub fn write(folder: &Path, proof: &Proof, ledger: &Ledger) -> Done<()> {
    let name = |ending: &str| folder.join(format!("{}.{ending}", proof.build()));
    let json = serde_json::to_string_pretty(proof).map_err(|e| e.to_string())? + "\n";
    for (path, text) in [
        (name("json"), json),
        (name("html"), page::page(proof, ledger)),
    ] {
        at(&path, fs::write(&path, text))?;
    }
    Ok(())
}

/// What identifies a row: its recipe, with everything that goes into the build beside it.
fn key(parts: &[&str]) -> String {
    Digest::sha256_of(parts.join("\0").as_bytes()).hex()
}

fn row(site: &Site<'_>, wanted: &Wanted, values: &[String], proof: &Proof) -> Done<Row> {
    let options = site.options;
    let folder = site.work.join(&wanted.name);
    let with = options.with.as_deref();
    let recipe = rows::recipe(wanted, build(&proof.medium), &options.tree, with)?;
    let probes = options.tree.join("tests/prove/probes/probes.toml");
    let probes = at(&probes, fs::read_to_string(&probes))?;
    let with = with.map(|with| at(with, fs::read_to_string(with)));
    let with = with.transpose()?.unwrap_or_default();
    let cluster = options.cluster.as_ref().filter(|_| wanted.is_node());
    let joins = cluster.map_or("", |cluster| cluster.join.endpoint());
    let values_text = values.join("\n");
    let key = key(&[&recipe, &probes, &proof.winimg, &values_text, &with, joins]);
    let file = folder.join("row.json");
    let kept = fs::read_to_string(&file).ok();
    let kept: Option<Kept> = kept.and_then(|text| serde_json::from_str(&text).ok());
    match kept {
        Some(kept) if kept.key == key && kept.row.is_good() => return Ok(kept.row),
        // The same once more: recipe with its pins, and the events of what an earlier run did, stay.
        Some(kept) if kept.key == key => {}
        _ => {
            let _ = fs::remove_dir_all(&folder);
            at(&folder, fs::create_dir_all(&folder))?;
            let path = folder.join("recipe.toml");
            at(&path, fs::write(&path, &recipe))?;
        }
    }
    let mut row = empty(wanted, &proof.medium);
    site.stages(&folder, values, cluster, &mut row)?;
    let kept = Kept { key, row };
    let text = serde_json::to_string_pretty(&kept).map_err(|e| e.to_string())?;
    at(&file, fs::write(&file, text))?;
    if !options.keep && kept.row.is_good() {
        site.forget(&folder)?;
    }
    Ok(kept.row)
}

fn empty(wanted: &Wanted, medium: &Medium) -> Row {
    Row {
        name: wanted.name.clone(),
        machine: wanted.machine.clone(),
        windows: medium.build.clone(),
        shipped: match &wanted.what {
            What::Own { .. } => None,
            What::Shipped { recipe, .. } => Some((*recipe).to_owned()),
        },
        stages: Vec::new(),
        seen: Seen::default(),
        verified: None,
        trials: Vec::new(),
        joins: Vec::new(),
    }
}

/// Without the revision: `20348`.
fn build(medium: &Medium) -> &str {
    medium.build.split('.').next().unwrap_or_default()
}
