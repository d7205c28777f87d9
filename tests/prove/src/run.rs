//! The run itself: row after row, and what each left judged.
//!
//! A stage that is done is not done again: each row's `row.json` is kept with the key of all that went into it. What failed is tried again, a
//! build from its last layer, and hides no other row. Rows of earlier runs stay in the proof as long as winimg, the medium and the probes are
//! the same.

use std::fs;
use std::path::{Path, PathBuf};

use winimg::record::sign;
use winimg_base::digest::Digest;
use winimg_base::event::Cancel;

use crate::cluster::Cluster;
use crate::judge;
use crate::ledger::Ledger;
use crate::proof::{Medium, Proof, Row, SCHEMA, Seen};
use crate::rows::{self, Wanted, What};
use crate::site::{Done, Site, at};
use crate::work::{self, Origin, Planned, Work};
use crate::{page, room};

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
    /// Keep artifacts and layers of rows that ended well, which are large.
    pub keep: bool,
    /// Set by an interrupt.
    pub cancel: Cancel,
}

/// Builds, tries and judges; the proof's files are written anew after each row.
///
/// # Errors
/// What keeps any row from being begun: a medium that is none, a folder that cannot be written, a host on which no machine starts. An
/// interrupt, after which the proof has what there is of the row.
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
    let order: Vec<String> = all.iter().map(|row| row.name.clone()).collect();
    let wanted = rows::chosen(all, &options.words);
    if wanted.is_empty() {
        return Err(format!("no row is called so: {}", options.words.join(", ")));
    }
    let origin = Origin {
        winimg: site.program()?,
        medium: medium.sha256.clone(),
        probes: probes(options)?,
    };
    let kept = order
        .iter()
        .filter_map(|name| work::kept(&site.work.join(name), &origin));
    let rows: Vec<Row> = kept.collect();
    let mut proof = Proof {
        schema: SCHEMA.into(),
        winimg: site.version()?,
        winimg_sha256: origin.winimg.clone(),
        commit: site.commit(),
        started: now(),
        ended: now(),
        has_control_plane: options.cluster.is_some()
            || rows.iter().any(|row| !row.joins.is_empty()),
        host: site.host()?,
        medium,
        rows,
        verdicts: Vec::new(),
    };
    let values = site.values(&proof.medium)?;
    for wanted in &wanted {
        let mut work = open(&site, wanted, &values, &proof.medium, &origin)?;
        let ended = done(&site, &mut work, &values);
        if ended.is_ok() {
            let word = if work.row.is_good() { "good" } else { "BAD" };
            let seconds: f64 = work.row.stages.iter().map(|stage| stage.seconds).sum();
            println!("{word:<4} {:6.1} min  {}", seconds / 60.0, work.row.name);
        }
        proof.rows.retain(|row| row.name != work.row.name);
        proof.rows.push(work.row);
        let place = |row: &Row| order.iter().position(|name| *name == row.name);
        proof.rows.sort_by_key(place);
        proof.ended = now();
        proof.verdicts = judge::verdicts(ledger, &proof.rows);
        write(&options.output, &proof, ledger)?;
        ended?;
    }
    Ok(proof)
}

fn now() -> String {
    let now = jiff::Timestamp::now();
    now.round(jiff::Unit::Second).unwrap_or(now).to_string()
}

/// `BUILD.json` and `BUILD.html`; signatures of what was there before go.
///
/// # Errors
/// A file cannot be written.
pub fn write(folder: &Path, proof: &Proof, ledger: &Ledger) -> Done<()> {
    let name = |ending: &str| folder.join(format!("{}.{ending}", proof.build()));
    let json = serde_json::to_string_pretty(proof).map_err(|e| e.to_string())? + "\n";
    for suffix in sign::BESIDE {
        // There may be none.
        let _ = fs::remove_file(name(&format!("json{suffix}")));
    }
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

/// SHA-256 of the probes, lower-case hex.
fn probes(options: &Options) -> Done<String> {
    let probes = options.tree.join("tests/prove/probes/probes.toml");
    let text = at(&probes, fs::read(&probes))?;
    Ok(Digest::sha256_of(&text).hex())
}

fn open(
    site: &Site<'_>,
    wanted: &Wanted,
    values: &[String],
    medium: &Medium,
    origin: &Origin,
) -> Done<Work> {
    let options = site.options;
    let with = options.with.as_deref();
    let recipe = rows::recipe(wanted, build(medium), &options.tree, with)?;
    let with = with.map(|with| at(with, fs::read_to_string(with)));
    let with = with.transpose()?.unwrap_or_default();
    let joins = options.cluster.as_ref().filter(|_| wanted.is_node());
    let planned = work::planned(wanted, joins.is_some());
    let stages: Vec<String> = planned.iter().map(Planned::to_string).collect();
    let joins = joins.map_or("", |cluster| cluster.join.endpoint());
    let key = key(&[
        &recipe,
        &origin.probes,
        &origin.winimg,
        &values.join("\n"),
        &with,
        &stages.join("\n"),
        joins,
    ]);
    let key = (key, origin.clone());
    let folder = site.work.join(&wanted.name);
    Work::open(folder, key, planned, empty(wanted, medium), &recipe)
}

/// Does what is not done of a row.
fn done(site: &Site<'_>, work: &mut Work, values: &[String]) -> Done<()> {
    if work.row.is_good() {
        return Ok(());
    }
    let ended = site.stages(work, values, site.options.cluster.as_ref());
    // After an interrupt, too.
    work.write()?;
    ended?;
    if !site.options.keep && work.row.is_good() {
        room::free(&work.folder, &site.cache().join("layers"))?;
    }
    Ok(())
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
        missing: Vec::new(),
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
