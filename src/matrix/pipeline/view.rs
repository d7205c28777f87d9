//! The values of the templates: each job in the terms of its engine.

use std::path::Path;

use serde_json::{Value, json};

use super::jobs::{PipelineJob, PipelineStage, to_dns_label};
use super::{JobRunner, PipelineEngine, PipelineSource};
use winimg_base::argv;
use winimg_recipe::matrix::Pipeline;

/// Memory in bytes beside the guest's, for QEMU itself, the export and the page cache.
const MEMORY_BESIDE: u64 = 2 << 30;

/// Exit statuses that another attempt cannot change: a person has to act (docs/exit-status.md).
pub const FINAL: [u8; 6] = [2, 5, 6, 7, 10, 11];

/// Exit statuses worth a retry: failures of the host, the network, the machine, the disk or the
/// destination, and killed processes.
pub const PASSING: [u8; 7] = [3, 4, 8, 9, 15, 137, 143];

pub fn build_view(
    engine: &PipelineEngine,
    source: PipelineSource<'_>,
    jobs: &[&PipelineJob],
) -> Value {
    let file = source.file.display().to_string();
    let file = match engine.runner {
        JobRunner::Pods => file,
        JobRunner::Labels | JobRunner::Queue => (engine.escape)(&file),
    };
    let mut builds = build_stage_views(engine, source, jobs, PipelineStage::Installation);
    builds.extend(build_stage_views(
        engine,
        source,
        jobs,
        PipelineStage::Variant,
    ));
    let publishes = build_stage_views(engine, source, jobs, PipelineStage::Publish);
    let common = json!({
        "file": file,
        "group": find_group(source.file),
        "branch": source.pipeline.branch,
        "builds": builds,
        "has_publishes": !publishes.is_empty(),
        "publishes": publishes,
    });
    merge([common, (engine.describe_pipeline)(source, jobs)])
}

/// Merges objects; values of later ones win.
fn merge(parts: impl IntoIterator<Item = Value>) -> Value {
    let fields = parts.into_iter().filter_map(|part| match part {
        Value::Object(fields) => Some(fields),
        _ => None,
    });
    Value::Object(fields.flatten().collect())
}

/// Lists the ids of the jobs that build.
pub fn list_build_ids<'j>(jobs: &[&'j PipelineJob]) -> Vec<&'j str> {
    jobs.iter()
        .filter(|job| job.stage != PipelineStage::Publish)
        .map(|job| job.id.as_str())
        .collect()
}

fn build_stage_views(
    engine: &PipelineEngine,
    source: PipelineSource<'_>,
    jobs: &[&PipelineJob],
    stage: PipelineStage,
) -> Vec<Value> {
    jobs.iter()
        .filter(|job| job.stage == stage)
        .map(|job| build_job_view(engine, source, job, jobs))
        .collect()
}

fn build_job_view(
    engine: &PipelineEngine,
    source: PipelineSource<'_>,
    job: &PipelineJob,
    all: &[&PipelineJob],
) -> Value {
    merge([
        describe_job(source, job),
        describe_commands(engine, source, job),
        describe_runner(source),
        describe_limits(source.pipeline),
        (engine.describe_job)(source, job, all),
    ])
}

/// Returns the job's name and its relation to the other jobs.
fn describe_job(source: PipelineSource<'_>, job: &PipelineJob) -> Value {
    let publish = source.pipeline.publish.as_ref();
    let environment = publish.map(|publish| publish.environment.as_str());
    json!({
        "id": job.id,
        "name": job.name,
        "group": find_group(source.file),
        "variant": job.variant,
        "stage": job.stage.name(),
        "is_publish": job.stage == PipelineStage::Publish,
        "environment": environment.unwrap_or_default(),
        "branch": source.pipeline.branch,
        "needs": job.needs,
        "has_needs": !job.needs.is_empty(),
    })
}

/// Returns the job's commands as shell lines.
pub fn render_lines(job: &PipelineJob) -> Vec<String> {
    job.commands
        .iter()
        .map(|words| {
            let words: Vec<String> = words.iter().map(|word| argv::quote_posix(word)).collect();
            words.join(" ")
        })
        .collect()
}

/// Returns the commands and the kept files: as shell lines, and as containers of a pod.
fn describe_commands(
    engine: &PipelineEngine,
    source: PipelineSource<'_>,
    job: &PipelineJob,
) -> Value {
    let lines: Vec<String> = render_lines(job)
        .iter()
        .map(|line| (engine.escape)(line))
        .collect();
    let mut containers: Vec<Value> = (engine.list_containers)(job)
        .iter()
        .map(|words| describe_container(engine, source, job, words))
        .collect();
    // The others are the pod's init containers, which share its folder.
    let last = containers.pop();
    let secrets = job.secrets.iter().map(|name| json!({ "name": name }));
    let folder = engine.output().join(&job.variant).display().to_string();
    let kept = ["*.json", "*.jsonl", "report.html", "failure/**"];
    json!({
        "lines": lines,
        "then": &lines[1..],
        "before": containers,
        "last": last,
        "secrets": secrets.collect::<Vec<_>>(),
        "kept": kept.map(|name| format!("{folder}/{name}")),
    })
}

/// Returns the runner labels, queue, image and node selector.
fn describe_runner(source: PipelineSource<'_>) -> Value {
    let pipeline = source.pipeline;
    let selector: Vec<Value> = pipeline
        .kubernetes
        .node_selector
        .iter()
        .map(|(key, value)| json!({ "key": key, "value": value }))
        .collect();
    json!({
        "labels": pipeline.labels,
        "queue": pipeline.queue.as_deref().unwrap_or_default(),
        "image": pipeline.image.as_deref().unwrap_or_default(),
        "has_image": pipeline.image.is_some(),
        "has_selector": !selector.is_empty(),
        "selector": selector,
    })
}

/// Returns the timeout and the retries.
fn describe_limits(pipeline: &Pipeline) -> Value {
    let minutes = to_minutes(pipeline);
    json!({
        "minutes": minutes,
        "seconds": minutes * 60,
        "retries": pipeline.retries,
        "has_retries": pipeline.retries > 0,
    })
}

pub fn to_minutes(pipeline: &Pipeline) -> u64 {
    pipeline.timeout.as_secs() / 60
}

/// Returns a container of a pod that runs this command.
fn describe_container(
    engine: &PipelineEngine,
    source: PipelineSource<'_>,
    job: &PipelineJob,
    words: &[String],
) -> Value {
    let Pipeline {
        image, kubernetes, ..
    } = source.pipeline;
    let words: Vec<String> = words.iter().map(|word| (engine.escape)(word)).collect();
    let secrets: Vec<Value> = job
        .secrets
        .iter()
        .map(|name| json!({ "name": name, "secret": kubernetes.secret }))
        .collect();
    json!({
        "image": image.as_deref().unwrap_or_default(),
        "workdir": kubernetes.workdir,
        "words": words,
        "secrets": secrets,
        "cpus": job.cpus.to_string(),
        "memory": format!("{}Mi", (job.memory + MEMORY_BESIDE) >> 20),
        "storage": format!("{}Mi", kubernetes.storage >> 20),
        "kvm": kubernetes.kvm,
    })
}

pub fn to_stem(file: &Path) -> String {
    file.file_stem()
        .unwrap_or_default()
        .to_string_lossy()
        .into_owned()
}

/// Returns the prefix of object names: starts with a letter and has at most 20 characters.
pub fn find_group(file: &Path) -> String {
    let name = to_dns_label(&to_stem(file));
    let plain = name.trim_start_matches(|c: char| !c.is_ascii_lowercase());
    match plain[..plain.len().min(20)].trim_end_matches('-') {
        "" => "matrix".to_owned(),
        plain => plain.to_owned(),
    }
}

/// Escapes a text of a pod: Kubernetes, and through it Argo, substitutes `$(NAME)`, and `$$` by
/// `$`. (Kubernetes: Container, `command`)
pub fn escape_pod_text(text: &str) -> String {
    text.replace('$', "$$")
}
