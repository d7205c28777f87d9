//! The jobs of a pipeline, independent of the engine.

use std::collections::BTreeMap;

use super::{PipelineEngine, PipelineSource};
use crate::matrix::ScheduledVariant;
use winimg_base::digest::Digest;

/// A stage of a pipeline, in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum PipelineStage {
    /// The first variant of each installation of Windows: makes it for the others.
    Installation,
    Variant,
    /// Waits for an approval.
    Publish,
}

impl PipelineStage {
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
pub struct PipelineJob {
    /// Unique; at most 42 lowercase letters, digits and `-`, starting with a letter.
    pub id: String,
    /// Display name.
    pub name: String,
    pub variant: String,
    pub stage: PipelineStage,
    /// Ids of the jobs that have to end first.
    pub needs: Vec<String>,
    /// Argument lists to run in order. The first is the build, which resumes from the last layer on
    /// any machine.
    pub commands: Vec<Vec<String>>,
    /// Names of environment variables.
    pub secrets: Vec<String>,
    pub cpus: u32,
    /// In bytes.
    pub memory: u64,
}

impl PipelineJob {
    /// Returns the ids of the approval, if it waits for one, and of the jobs that have to end
    /// first.
    pub fn list_dependencies(&self) -> Vec<&str> {
        let approval = (self.stage == PipelineStage::Publish).then_some("approve");
        let needs = self.needs.iter().map(String::as_str);
        approval.into_iter().chain(needs).collect()
    }
}

/// Returns the jobs by stage, and within each stage in the order of the schedule.
pub fn list_jobs(engine: &PipelineEngine, source: PipelineSource<'_>) -> Vec<PipelineJob> {
    let PipelineSource {
        pipeline, schedule, ..
    } = source;
    let parts = compute_id_parts(&schedule.variants);
    let mut all = Vec::new();
    for variant in &schedule.variants {
        let name = variant.name.as_str();
        let id_part = &parts[name];
        let build = render_build_command(variant, source);
        // Publishing never builds: the approved image is the one in the cache.
        let again = [build.clone(), vec!["--from-cache".to_owned()]].concat();
        let made_by = schedule
            .installations
            .iter()
            .find(|i| i.key == variant.installation)
            .filter(|i| i.first != *name);
        let job = PipelineJob {
            id: format!("build-{id_part}"),
            name: format!("build {name}"),
            variant: name.into(),
            stage: match made_by {
                None => PipelineStage::Installation,
                Some(_) => PipelineStage::Variant,
            },
            needs: made_by
                .map(|i| format!("build-{}", parts[i.first.as_str()]))
                .into_iter()
                .collect(),
            commands: vec![build],
            secrets: pipeline.secrets.clone(),
            cpus: variant.cpus,
            memory: variant.memory,
        };
        if let Some(approved) = &pipeline.publish {
            let more = approved
                .secrets
                .iter()
                .filter(|name| !pipeline.secrets.contains(name));
            all.push(PipelineJob {
                id: format!("publish-{id_part}"),
                name: format!("publish {name}"),
                stage: PipelineStage::Publish,
                needs: vec![job.id.clone()],
                commands: vec![
                    again,
                    render_publish_command(engine, name, &approved.to.render(name)),
                ],
                secrets: pipeline.secrets.iter().chain(more).cloned().collect(),
                ..job.clone()
            });
        }
        let store = pipeline
            .store
            .iter()
            .map(|store| render_publish_command(engine, name, &store.render(name)));
        let commands = job.commands.iter().cloned().chain(store).collect();
        all.push(PipelineJob { commands, ..job });
    }
    all.sort_by_key(|job| job.stage);
    all
}

fn render_publish_command(engine: &PipelineEngine, variant: &str, to: &str) -> Vec<String> {
    let folder = engine.output().join(variant).display().to_string();
    // The previous run's file differs, because the records contain their time: replace it.
    ["winimg", "publish", &folder, "--to", to, "--replace"]
        .map(String::from)
        .to_vec()
}

/// Returns the build command with the options of the shared cache.
fn render_build_command(variant: &ScheduledVariant, source: PipelineSource<'_>) -> Vec<String> {
    let cache = &source.pipeline.cache;
    let mut words: Vec<String> = ["winimg", "build"].map(String::from).to_vec();
    words.extend(variant.arguments.iter().cloned());
    if !source.names_machine {
        // Without KVM the build would silently take hours.
        words.extend(["--accel", "kvm"].map(String::from));
    }
    words.extend(["--cache-remote".to_owned(), cache.remote.clone()]);
    for key in &cache.keys {
        words.extend(["--cache-key".to_owned(), key.clone()]);
    }
    // Other jobs resume from the pushed layers.
    words.push("--cache-push=required".to_owned());
    words.extend(source.pipeline.arguments.iter().cloned());
    words
}

/// Characters of a variant's name in an id.
const MAX_NAME_LEN: usize = 34;

/// Returns the suffix of each variant's ids: its name in the characters of ids. A suffix that is
/// truncated or not unique gets the first digits of a digest.
fn compute_id_parts(variants: &[ScheduledVariant]) -> BTreeMap<&str, String> {
    let all: Vec<String> = variants
        .iter()
        .map(|variant| to_dns_label(&variant.name))
        .collect();
    variants
        .iter()
        .zip(&all)
        .map(|(variant, plain)| {
            let is_once = all.iter().filter(|other| *other == plain).count() == 1;
            let part = if is_once && plain.len() <= MAX_NAME_LEN {
                plain.clone()
            } else {
                let digest = Digest::sha256_of(variant.name.as_bytes()).hex();
                let kept = &plain[..plain.len().min(MAX_NAME_LEN - 9)];
                format!("{}-{}", kept.trim_end_matches('-'), &digest[..8])
            };
            (variant.name.as_str(), part)
        })
        .collect()
}

/// Converts a name to lowercase letters, digits and `-`, which replaces everything else.
pub fn to_dns_label(name: &str) -> String {
    name.chars()
        .map(|c| c.to_ascii_lowercase())
        .map(|c| match c {
            'a'..='z' | '0'..='9' => c,
            _ => '-',
        })
        .collect()
}
