//! GitLab CI/CD: one configuration. GitLab substitutes nothing in a `script`; its shell does, for
//! which words are quoted.

use serde_json::{Value, json};

use super::jobs::PipelineJob;
use super::view::{PASSING, to_minutes};
use super::{JobRunner, PipelineEngine, PipelineSource};

pub const ENGINE: PipelineEngine = PipelineEngine {
    id: "gitlab",
    about: "GitLab CI/CD configuration",
    label: "GitLab",
    suffix: ".gitlab-ci.yml",
    template: include_str!("templates/gitlab.yml.hbs"),
    job_template: include_str!("templates/gitlab-job.yml.hbs"),
    runner: JobRunner::Labels,
    describe_pipeline,
    describe_job,
    ..PipelineEngine::PLAIN
};

fn describe_pipeline(source: PipelineSource<'_>, _: &[&PipelineJob]) -> Value {
    let branch = &source.pipeline.branch;
    json!({ "on_branch": format!("$CI_COMMIT_BRANCH == \"{branch}\"") })
}

fn describe_job(source: PipelineSource<'_>, job: &PipelineJob, jobs: &[&PipelineJob]) -> Value {
    let needed_names: Vec<&str> = jobs
        .iter()
        .filter(|other| job.needs.contains(&other.id))
        .map(|other| other.name.as_str())
        .collect();
    json!({
        "needed_names": needed_names,
        "minutes_word": format!("{} minutes", to_minutes(source.pipeline)),
        "passing": PASSING,
    })
}
