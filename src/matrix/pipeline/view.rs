//! What the templates are filled with: each job in the words of its engine.

use std::path::Path;

use serde_json::{Value, json};

use super::jobs::{Job, Stage, dns};
use super::{Engine, Source};
use winimg_base::argv;
use winimg_recipe::recipe::matrix::Pipeline;

/// For QEMU itself, the export and the page cache beside the guest's memory.
const MEMORY_BESIDE: u64 = 2 << 30;

/// The task that waits for a person.
const APPROVE: &str = "approve";

/// Exit statuses that another attempt does not change: somebody has to act (docs/exit-status.md).
const FINAL: [u8; 6] = [2, 5, 6, 7, 10, 11];

/// Those that it may: of the host, the network, the machine, the disk, the destination, and of a process that was killed.
const PASSING: [u8; 7] = [3, 4, 8, 9, 15, 137, 143];

pub fn of(engine: Engine, source: Source<'_>, jobs: &[&Job]) -> Value {
    let pipeline = source.pipeline;
    let of = |stage: Stage| jobs.iter().filter(move |job| job.stage == stage);
    let views = |stage: Stage| -> Vec<Value> {
        of(stage)
            .map(|job| job_view(engine, source, job, jobs))
            .collect()
    };
    let built: Vec<&&Job> = jobs.iter().filter(|j| j.stage != Stage::Publish).collect();
    let ids: Vec<&str> = built.iter().map(|job| job.id.as_str()).collect();
    let ended = ids
        .iter()
        .map(|id| format!("({id}.Succeeded || {id}.Failed || {id}.Errored || {id}.Omitted)"));
    let ended: Vec<String> = ended.collect();
    let builds: Vec<Value> = [views(Stage::Installation), views(Stage::Variant)].concat();
    json!({
        "file": match engine.has_pods() {
            true => source.file.display().to_string(),
            false => shielded(engine, &source.file.display().to_string()),
        },
        "title": shielded(engine, &stem(source.file)),
        "group": group(source.file),
        "branch": pipeline.branch,
        "on_branch": format!("$CI_COMMIT_BRANCH == \"{}\"", pipeline.branch),
        "builds": builds,
        "build_ids": ids,
        "after_builds": ended.join(" && "),
        "publishes": views(Stage::Publish),
        "has_publishes": of(Stage::Publish).next().is_some(),
    })
}

fn job_view(engine: Engine, source: Source<'_>, job: &Job, all: &[&Job]) -> Value {
    let parts = [
        place(source, job, all),
        work(engine, source, job),
        machine(source),
        limits(source.pipeline),
    ];
    let parts = parts.into_iter().filter_map(|part| match part {
        Value::Object(fields) => Some(fields),
        _ => None,
    });
    Value::Object(parts.flatten().collect())
}

/// What the job is called, and where it stands among the others.
fn place(source: Source<'_>, job: &Job, all: &[&Job]) -> Value {
    let is_needed = |other: &&&Job| job.needs.contains(&other.id);
    let needed = all.iter().filter(is_needed);
    let needed_names: Vec<&str> = needed.map(|other| other.name.as_str()).collect();
    let publish = source.pipeline.publish.as_ref();
    let environment = publish.map(|publish| publish.environment.as_str());
    let approve = (job.stage == Stage::Publish).then_some(APPROVE);
    let needs = job.needs.iter().map(String::as_str);
    let depends: Vec<&str> = approve.into_iter().chain(needs).collect();
    let object = format!("{}-{}", group(source.file), job.id);
    json!({
        "id": job.id,
        "name": job.name,
        "alone": format!("{object}-${{{{ github.ref }}}}"),
        "object": object,
        "group": group(source.file),
        "variant": job.variant,
        "stage": job.stage.name(),
        "is_publish": job.stage == Stage::Publish,
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

/// What it runs and keeps: as lines of a shell, and as containers of a pod.
fn work(engine: Engine, source: Source<'_>, job: &Job) -> Value {
    let line = |words: &Vec<String>| {
        let words: Vec<String> = words.iter().map(|word| argv::posix(word)).collect();
        words.join(" ")
    };
    let plain: Vec<String> = job.commands.iter().map(line).collect();
    let lines = plain.iter().map(|line| shielded(engine, line));
    let lines: Vec<String> = lines.collect();
    let commands = match engine {
        // It retries by the exit status of a pod's main container, and knows none of another (Argo Workflows: Retries,
        // `lastRetry.exitCode`): all commands are one there.
        Engine::Argo if plain.len() > 1 => {
            vec![["sh", "-ec", &plain.join("\n")].map(String::from).to_vec()]
        }
        _ => job.commands.clone(),
    };
    let containers = commands.iter();
    let mut containers: Vec<Value> = containers
        .map(|words| container(engine, source, job, words))
        .collect();
    // Those before it are the pod's init containers: they share its folder.
    let last = containers.pop();
    let secret =
        |name: &String| json!({ "name": name, "of_github": format!("${{{{ secrets.{name} }}}}") });
    let secrets: Vec<Value> = job.secrets.iter().map(secret).collect();
    let folder = engine.output().join(&job.variant).display().to_string();
    let kept = ["*.json", "*.jsonl", "report.html", "failure/**"];
    json!({
        "lines": lines,
        "then": &lines[1..],
        "attempts": attempts(source.pipeline, &lines[0]),
        "before": containers,
        "last": last,
        "secrets": secrets,
        "kept": kept.map(|name| format!("{folder}/{name}")),
    })
}

/// Where it may run.
fn machine(source: Source<'_>) -> Value {
    let pipeline = source.pipeline;
    let selector = pipeline.kubernetes.node_selector.iter();
    let selector = selector.map(|(key, value)| json!({ "key": key, "value": value }));
    let selector: Vec<Value> = selector.collect();
    json!({
        "labels": pipeline.labels,
        "queue": pipeline.queue.as_deref().unwrap_or_default(),
        "image": pipeline.image.as_deref().unwrap_or_default(),
        "has_image": pipeline.image.is_some(),
        "has_selector": !selector.is_empty(),
        "selector": selector,
    })
}

/// How long and how often it may run.
fn limits(pipeline: &Pipeline) -> Value {
    let minutes = minutes(pipeline);
    let limit = |status: &u8| json!({ "status": status, "limit": pipeline.retries });
    json!({
        "minutes": minutes,
        "all_minutes": minutes * u64::from(pipeline.retries + 1),
        "minutes_word": format!("{minutes} minutes"),
        "seconds": minutes * 60,
        "retries": pipeline.retries,
        "retries_word": pipeline.retries.to_string(),
        "has_retries": pipeline.retries > 0,
        "retried": PASSING.iter().map(limit).collect::<Vec<Value>>(),
        "passing": PASSING,
        "final": FINAL,
        "is_passing": format!("!(lastRetry.exitCode in [{}])", listed(&FINAL)),
    })
}

fn minutes(pipeline: &Pipeline) -> u64 {
    pipeline.timeout.as_secs() / 60
}

/// One of a pod, which runs these words.
fn container(engine: Engine, source: Source<'_>, job: &Job, words: &[String]) -> Value {
    let Pipeline {
        image, kubernetes, ..
    } = source.pipeline;
    let words: Vec<String> = words.iter().map(|word| shielded(engine, word)).collect();
    let secret = |name: &String| json!({ "name": name, "secret": kubernetes.secret });
    let secrets: Vec<Value> = job.secrets.iter().map(secret).collect();
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

/// What the first attempt and those after it are, where an engine has steps and no retries.
fn attempts(pipeline: &Pipeline, line: &str) -> Vec<Value> {
    let attempt = |number: u32| {
        json!({
            "id": format!("attempt-{number}"),
            "name": match number {
                1 => "build",
                _ => "build again, from the last layer",
            },
            "line": line,
            "minutes": minutes(pipeline),
            "is_first": number == 1,
            "is_last": number == pipeline.retries + 1,
            "after": format!("steps.attempt-{}.outcome == 'failure'", number - 1),
        })
    };
    (1..=pipeline.retries + 1).map(attempt).collect()
}

fn listed(statuses: &[u8]) -> String {
    let quoted: Vec<String> = statuses.iter().map(|s| format!("'{s}'")).collect();
    quoted.join(", ")
}

fn stem(file: &Path) -> String {
    file.file_stem()
        .unwrap_or_default()
        .to_string_lossy()
        .into_owned()
}

/// What the names of objects begin with: a letter first, at most 20 characters.
fn group(file: &Path) -> String {
    let plain = dns(&stem(file));
    let plain = plain.trim_start_matches(|c: char| !c.is_ascii_lowercase());
    let plain = &plain[..plain.len().min(20)];
    match plain.trim_end_matches('-') {
        "" => "matrix".to_owned(),
        plain => plain.to_owned(),
    }
}

/// The text, so that the engine passes on all of it as it is: what each puts into any text of a pipeline is written as its manual says.
///
/// - GitHub: `${{ … }}` (Evaluate expressions, literals)
/// - Buildkite: `$NAME` (Environment variables, variable interpolation)
/// - Kubernetes, and through it Argo: `$(NAME)`, and `$$` for `$` (Container, `command`)
///
/// GitLab puts nothing into a `script`: that is its shell's, for which words are in quotes.
fn shielded(engine: Engine, text: &str) -> String {
    match engine {
        Engine::Github => text.replace("${{", "${{ '${{' }}"),
        Engine::Buildkite | Engine::Kubernetes | Engine::Argo => text.replace('$', "$$"),
        Engine::Gitlab => text.to_owned(),
    }
}
