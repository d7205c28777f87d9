//! Buildkite: one pipeline.

use serde_json::{Value, json};

use super::jobs::PipelineJob;
use super::view::{PASSING, list_build_ids};
use super::{JobRunner, PipelineEngine, PipelineSource};

pub const ENGINE: PipelineEngine = PipelineEngine {
    id: "buildkite",
    about: "Buildkite pipeline",
    label: "Buildkite",
    suffix: ".buildkite.yml",
    template: include_str!("templates/buildkite.yml.hbs"),
    job_template: include_str!("templates/buildkite-job.yml.hbs"),
    runner: JobRunner::Queue,
    escape,
    describe_pipeline,
    describe_job,
    ..PipelineEngine::PLAIN
};

/// Buildkite substitutes `$NAME` (Buildkite: Environment variables, variable interpolation).
fn escape(text: &str) -> String {
    text.replace('$', "$$")
}

fn describe_pipeline(_: PipelineSource<'_>, jobs: &[&PipelineJob]) -> Value {
    json!({ "build_ids": list_build_ids(jobs) })
}

fn describe_job(source: PipelineSource<'_>, job: &PipelineJob, _: &[&PipelineJob]) -> Value {
    let retries = source.pipeline.retries;
    json!({
        "depends_on": job.list_dependencies(),
        "retried": PASSING.map(|status| json!({ "status": status, "limit": retries })),
    })
}
