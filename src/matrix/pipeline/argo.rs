//! Argo Workflows: one WorkflowTemplate, whose tasks are pods.

use serde_json::{Value, json};

use super::jobs::PipelineJob;
use super::view::{FINAL, escape_pod_text, list_build_ids, render_lines};
use super::{JobRunner, PipelineEngine, PipelineSource};
use winimg_base::error::{Error, Kind, Result};

pub const ENGINE: PipelineEngine = PipelineEngine {
    id: "argo",
    about: "Argo WorkflowTemplate",
    label: "Argo",
    suffix: ".argo.yaml",
    template: include_str!("templates/argo.yaml.hbs"),
    job_template: include_str!("templates/argo-job.yaml.hbs"),
    runner: JobRunner::Pods,
    escape: escape_pod_text,
    refuse_jobs,
    list_containers,
    describe_pipeline,
    describe_job,
    ..PipelineEngine::PLAIN
};

/// Refuses arguments with `{{`: Argo substitutes `{{…}}` everywhere and cannot escape it.
fn refuse_jobs(all: &[PipelineJob]) -> Result<()> {
    for job in all {
        let words = job.commands.iter().flatten();
        let tags: Vec<String> = words.filter(|word| word.contains("{{")).cloned().collect();
        if !tags.is_empty() {
            let fact = "Argo would substitute `{{` in an argument of `winimg build`";
            return Err(Error::new(Kind::Recipe, fact)
                .at(format!("the variant {}", job.variant))
                .lines(tags)
                .cure(
                    "write that value into the recipe, and let the matrix set a variable of it",
                ));
        }
    }
    Ok(())
}

/// Runs all commands in one container: Argo retries by the exit status of a pod's main container
/// and ignores that of the others (Argo Workflows: Retries, `lastRetry.exitCode`).
fn list_containers(job: &PipelineJob) -> Vec<Vec<String>> {
    match job.commands.as_slice() {
        [_] => job.commands.clone(),
        _ => {
            let script = render_lines(job).join("\n");
            vec![["sh", "-ec", &script].map(String::from).to_vec()]
        }
    }
}

fn describe_pipeline(_: PipelineSource<'_>, jobs: &[&PipelineJob]) -> Value {
    let ended: Vec<String> = list_build_ids(jobs)
        .iter()
        .map(|id| format!("({id}.Succeeded || {id}.Failed || {id}.Errored || {id}.Omitted)"))
        .collect();
    json!({ "after_builds": ended.join(" && ") })
}

fn describe_job(source: PipelineSource<'_>, job: &PipelineJob, _: &[&PipelineJob]) -> Value {
    let statuses = FINAL.map(|status| format!("'{status}'")).join(", ");
    json!({
        "depends": job.list_dependencies().join(" && "),
        "retries_word": source.pipeline.retries.to_string(),
        "is_passing": format!("!(lastRetry.exitCode in [{statuses}])"),
    })
}
