//! The jobs of a pipeline, before any engine's words for them.

use std::collections::BTreeMap;

use super::{Engine, Source};
use crate::matrix::Variant;
use winimg_base::digest::Digest;

/// Which of a pipeline's stages, in their order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stage {
    /// The first variant of each installation of Windows: makes it for the others.
    Installation,
    Variant,
    /// Waits for an approval.
    Publish,
}

impl Stage {
    pub fn name(self) -> &'static str {
        match self {
            Self::Installation => "installations",
            Self::Variant => "variants",
            Self::Publish => "publish",
        }
    }
}

/// One job.
#[derive(Clone, Debug)]
pub struct Job {
    /// Small letters, digits and `-`, a letter first, at most 42; there once.
    pub id: String,
    /// For people.
    pub name: String,
    pub variant: String,
    pub stage: Stage,
    /// The ids of those that have to be there first.
    pub needs: Vec<String>,
    /// One after the other, as words. The first is the build, which goes on from the last layer wherever it runs.
    pub commands: Vec<Vec<String>>,
    /// Environment variables.
    pub secrets: Vec<String>,
    pub cpus: u32,
    /// Bytes.
    pub memory: u64,
}

/// In the order of stages, and in each in that of the schedule.
pub fn all(engine: Engine, source: Source<'_>) -> Vec<Job> {
    let Source {
        pipeline, schedule, ..
    } = source;
    let parts = id_parts(&schedule.variants);
    let id = |verb: &str, variant: &str| format!("{verb}-{}", parts[variant]);
    let mut all = Vec::new();
    for variant in &schedule.variants {
        let name = variant.name.as_str();
        let build = build(variant, source);
        // An approved image is the one that was built, or none.
        let again = [build.clone(), vec!["--from-cache".to_owned()]].concat();
        let of_same = |i: &&crate::matrix::Installation| i.key == variant.installation;
        let made_by = schedule.installations.iter().find(of_same);
        let made_by = made_by.filter(|i| i.first != *name);
        let job = Job {
            id: id("build", name),
            name: format!("build {name}"),
            variant: name.into(),
            stage: match made_by {
                None => Stage::Installation,
                Some(_) => Stage::Variant,
            },
            needs: made_by.map(|i| id("build", &i.first)).into_iter().collect(),
            commands: vec![build],
            secrets: pipeline.secrets.clone(),
            cpus: variant.cpus,
            memory: variant.memory,
        };
        let publish = |to: String| {
            let folder = engine.output().join(name).display().to_string();
            // What the run before has put there is another file: the records say when they were made.
            let words = ["winimg", "publish", &folder, "--to", &to, "--replace"];
            words.map(String::from).to_vec()
        };
        if let Some(approved) = &pipeline.publish {
            let more = approved.secrets.iter();
            let more = more.filter(|name| !pipeline.secrets.contains(name));
            all.push(Job {
                id: id("publish", name),
                name: format!("publish {name}"),
                stage: Stage::Publish,
                needs: vec![job.id.clone()],
                commands: vec![again, publish(approved.to.of(name))],
                secrets: pipeline.secrets.iter().chain(more).cloned().collect(),
                ..job.clone()
            });
        }
        let store = pipeline.store.iter().map(|store| publish(store.of(name)));
        let commands = job.commands.iter().cloned().chain(store).collect();
        all.push(Job { commands, ..job });
    }
    all.sort_by_key(|job| job.stage);
    all
}

/// The build, with what it takes from the shared cache and gives to it.
fn build(variant: &Variant, source: Source<'_>) -> Vec<String> {
    let cache = &source.pipeline.cache;
    let mut words: Vec<String> = ["winimg", "build"].map(String::from).to_vec();
    words.extend(variant.arguments.iter().cloned());
    if !source.names_machine {
        // Without it Windows would take hours, and nobody would know why.
        words.extend(["--accel", "kvm"].map(String::from));
    }
    words.extend(["--cache-remote".to_owned(), cache.remote.clone()]);
    for key in &cache.keys {
        words.extend(["--cache-key".to_owned(), key.clone()]);
    }
    // What another job goes on from has to be there.
    words.push("--cache-push=required".to_owned());
    words.extend(source.pipeline.arguments.iter().cloned());
    words
}

/// Characters of a variant's name in an id.
const LONGEST: usize = 34;

/// Of each variant what its ids end with: its name as far as ids have its characters. One that is cut, or that another one would have
/// as well, gets the beginning of a digest.
fn id_parts(variants: &[Variant]) -> BTreeMap<&str, String> {
    let plain = |variant: &Variant| dns(&variant.name);
    let all: Vec<String> = variants.iter().map(plain).collect();
    let part = |(variant, plain): (&'_ Variant, &String)| {
        let is_once = all.iter().filter(|other| *other == plain).count() == 1;
        if is_once && plain.len() <= LONGEST {
            return plain.clone();
        }
        let digest = Digest::sha256_of(variant.name.as_bytes()).hex();
        let kept = &plain[..plain.len().min(LONGEST - 9)];
        format!("{}-{}", kept.trim_end_matches('-'), &digest[..8])
    };
    let names = variants.iter().map(|variant| variant.name.as_str());
    let parts = variants.iter().zip(&all).map(part);
    names.zip(parts).collect()
}

/// Small letters, digits and `-` in place of all else.
pub fn dns(name: &str) -> String {
    let fitting = |c: char| match c.to_ascii_lowercase() {
        c if c.is_ascii_lowercase() || c.is_ascii_digit() => c,
        _ => '-',
    };
    name.chars().map(fitting).collect()
}
