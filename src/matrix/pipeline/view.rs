//! The values of the templates: each job in the terms of its engine.

use std::path::Path;

use serde_json::{Value, json};

use super::jobs::{PipelineJob, PipelineStage, to_dns_label};
use super::{PipelineEngine, PipelineSource};
use winimg_base::argv;
use winimg_recipe::recipe::matrix::Pipeline;

/// Memory in bytes beside the guest's, for QEMU itself, the export and the page cache.
const MEMORY_BESIDE: u64 = 2 << 30;

/// Name of the approval task.
const APPROVE: &str = "approve";

/// Exit statuses that another attempt cannot change: a person has to act (docs/exit-status.md).
const FINAL: [u8; 6] = [2, 5, 6, 7, 10, 11];

/// Exit statuses worth a retry: failures of the host, the network, the machine, the disk or the
/// destination, and killed processes.
const PASSING: [u8; 7] = [3, 4, 8, 9, 15, 137, 143];

pub fn build_view(
    engine: PipelineEngine,
    source: PipelineSource<'_>,
    jobs: &[&PipelineJob],
) -> Value {
    let pipeline = source.pipeline;
    let file = source.file.display().to_string();
    let file = if engine.has_pods() {
        file
    } else {
        escape_text(engine, &file)
    };
    let build_ids: Vec<&str> = jobs
        .iter()
        .filter(|job| job.stage != PipelineStage::Publish)
        .map(|job| job.id.as_str())
        .collect();
    let ended: Vec<String> = build_ids
        .iter()
        .map(|id| format!("({id}.Succeeded || {id}.Failed || {id}.Errored || {id}.Omitted)"))
        .collect();
    let mut builds = build_stage_views(engine, source, jobs, PipelineStage::Installation);
    builds.extend(build_stage_views(
        engine,
        source,
        jobs,
        PipelineStage::Variant,
    ));
    let publishes = build_stage_views(engine, source, jobs, PipelineStage::Publish);
    json!({
        "file": file,
        "title": escape_text(engine, &to_stem(source.file)),
        "group": find_group(source.file),
        "branch": pipeline.branch,
        "on_branch": format!("$CI_COMMIT_BRANCH == \"{}\"", pipeline.branch),
        "builds": builds,
        "build_ids": build_ids,
        "after_builds": ended.join(" && "),
        "has_publishes": !publishes.is_empty(),
        "publishes": publishes,
    })
}

fn build_stage_views(
    engine: PipelineEngine,
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
    engine: PipelineEngine,
    source: PipelineSource<'_>,
    job: &PipelineJob,
    all: &[&PipelineJob],
) -> Value {
    let parts = [
        describe_job(source, job, all),
        describe_commands(engine, source, job),
        describe_runner(source),
        describe_limits(source.pipeline),
    ];
    let fields = parts.into_iter().filter_map(|part| match part {
        Value::Object(fields) => Some(fields),
        _ => None,
    });
    Value::Object(fields.flatten().collect())
}

/// Returns the job's name and its relation to the other jobs.
fn describe_job(source: PipelineSource<'_>, job: &PipelineJob, all: &[&PipelineJob]) -> Value {
    let needed_names: Vec<&str> = all
        .iter()
        .filter(|other| job.needs.contains(&other.id))
        .map(|other| other.name.as_str())
        .collect();
    let publish = source.pipeline.publish.as_ref();
    let environment = publish.map(|publish| publish.environment.as_str());
    let approve = (job.stage == PipelineStage::Publish).then_some(APPROVE);
    let depends: Vec<&str> = approve
        .into_iter()
        .chain(job.needs.iter().map(String::as_str))
        .collect();
    let object = format!("{}-{}", find_group(source.file), job.id);
    json!({
        "id": job.id,
        "name": job.name,
        "alone": format!("{object}-${{{{ github.ref }}}}"),
        "object": object,
        "group": find_group(source.file),
        "variant": job.variant,
        "stage": job.stage.name(),
        "is_publish": job.stage == PipelineStage::Publish,
        "environment": environment.unwrap_or_default(),
        "branch": source.pipeline.branch,
        "on_ref": format!("github.ref == 'refs/heads/{}'", source.pipeline.branch),
        "needs": job.needs,
        "has_needs": !job.needs.is_empty(),
        "needed_names": needed_names,
        "depends": depends.join(" && "),
        "depends_on": depends,
    })
}

/// Returns the commands and the kept files: as shell lines, and as containers of a pod.
fn describe_commands(
    engine: PipelineEngine,
    source: PipelineSource<'_>,
    job: &PipelineJob,
) -> Value {
    let plain: Vec<String> = job
        .commands
        .iter()
        .map(|words| {
            let words: Vec<String> = words.iter().map(|word| argv::quote_posix(word)).collect();
            words.join(" ")
        })
        .collect();
    let lines: Vec<String> = plain.iter().map(|line| escape_text(engine, line)).collect();
    let commands = match engine {
        // Argo retries by the exit status of a pod's main container and ignores that of the others
        // (Argo Workflows: Retries, `lastRetry.exitCode`), so one container runs all commands.
        PipelineEngine::Argo if plain.len() > 1 => {
            vec![["sh", "-ec", &plain.join("\n")].map(String::from).to_vec()]
        }
        _ => job.commands.clone(),
    };
    let mut containers: Vec<Value> = commands
        .iter()
        .map(|words| describe_container(engine, source, job, words))
        .collect();
    // The others are the pod's init containers, which share its folder.
    let last = containers.pop();
    let secrets: Vec<Value> = job
        .secrets
        .iter()
        .map(|name| json!({ "name": name, "of_github": format!("${{{{ secrets.{name} }}}}") }))
        .collect();
    let folder = engine.output().join(&job.variant).display().to_string();
    let kept = ["*.json", "*.jsonl", "report.html", "failure/**"];
    json!({
        "lines": lines,
        "then": &lines[1..],
        "attempts": list_attempts(source.pipeline, &lines[0]),
        "before": containers,
        "last": last,
        "secrets": secrets,
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
    let retried = PASSING.map(|status| json!({ "status": status, "limit": pipeline.retries }));
    json!({
        "minutes": minutes,
        "all_minutes": minutes * u64::from(pipeline.retries + 1),
        "minutes_word": format!("{minutes} minutes"),
        "seconds": minutes * 60,
        "retries": pipeline.retries,
        "retries_word": pipeline.retries.to_string(),
        "has_retries": pipeline.retries > 0,
        "retried": retried,
        "passing": PASSING,
        "final": FINAL,
        "is_passing": format!("!(lastRetry.exitCode in [{}])", join_statuses(&FINAL)),
    })
}

fn to_minutes(pipeline: &Pipeline) -> u64 {
    pipeline.timeout.as_secs() / 60
}

/// Returns a container of a pod that runs this command.
fn describe_container(
    engine: PipelineEngine,
    source: PipelineSource<'_>,
    job: &PipelineJob,
    words: &[String],
) -> Value {
    let Pipeline {
        image, kubernetes, ..
    } = source.pipeline;
    let words: Vec<String> = words.iter().map(|word| escape_text(engine, word)).collect();
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

/// Returns all attempts, for an engine that has steps but no retries.
fn list_attempts(pipeline: &Pipeline, line: &str) -> Vec<Value> {
    (1..=pipeline.retries + 1)
        .map(|number| {
            json!({
                "id": format!("attempt-{number}"),
                "name": match number {
                    1 => "build",
                    _ => "retry from the last layer",
                },
                "line": line,
                "minutes": to_minutes(pipeline),
                "is_first": number == 1,
                "is_last": number == pipeline.retries + 1,
                "after": format!("steps.attempt-{}.outcome == 'failure'", number - 1),
            })
        })
        .collect()
}

fn join_statuses(statuses: &[u8]) -> String {
    let quoted: Vec<String> = statuses.iter().map(|s| format!("'{s}'")).collect();
    quoted.join(", ")
}

fn to_stem(file: &Path) -> String {
    file.file_stem()
        .unwrap_or_default()
        .to_string_lossy()
        .into_owned()
}

/// Returns the prefix of object names: starts with a letter and has at most 20 characters.
fn find_group(file: &Path) -> String {
    let name = to_dns_label(&to_stem(file));
    let plain = name.trim_start_matches(|c: char| !c.is_ascii_lowercase());
    match plain[..plain.len().min(20)].trim_end_matches('-') {
        "" => "matrix".to_owned(),
        plain => plain.to_owned(),
    }
}

/// Escapes the substitutions that the engine makes in any text, so that it passes on the text
/// literally. By their manuals:
///
/// - GitHub: `${{ … }}` (Evaluate expressions, literals)
/// - Buildkite: `$NAME` (Environment variables, variable interpolation)
/// - Kubernetes, and through it Argo: `$(NAME)`, and `$$` for `$` (Container, `command`)
///
/// GitLab substitutes nothing in a `script`; its shell does, for which words are quoted.
fn escape_text(engine: PipelineEngine, text: &str) -> String {
    match engine {
        PipelineEngine::Github => text.replace("${{", "${{ '${{' }}"),
        PipelineEngine::Buildkite | PipelineEngine::Kubernetes | PipelineEngine::Argo => {
            text.replace('$', "$$")
        }
        PipelineEngine::Gitlab => text.to_owned(),
    }
}
