//! Kubernetes Jobs: one file per stage, because Jobs have no order; the user applies them in turn.

use serde_json::{Value, json};

use super::jobs::PipelineJob;
use super::view::{FINAL, escape_pod_text, find_group};
use super::{JobRunner, PipelineEngine, PipelineSource};

pub const ENGINE: PipelineEngine = PipelineEngine {
    id: "kubernetes",
    about: "Kubernetes Jobs, one file per stage",
    label: "Kubernetes",
    suffix: ".yaml",
    template: include_str!("templates/kubernetes.yaml.hbs"),
    job_template: include_str!("templates/kubernetes-job.yaml.hbs"),
    runner: JobRunner::Pods,
    has_file_per_stage: true,
    escape: escape_pod_text,
    describe_job,
    ..PipelineEngine::PLAIN
};

fn describe_job(source: PipelineSource<'_>, job: &PipelineJob, _: &[&PipelineJob]) -> Value {
    json!({
        "object": format!("{}-{}", find_group(source.file), job.id),
        "final": FINAL,
    })
}
