//! GitHub Actions: one workflow. GitHub retries no job, so a job has a step for each attempt.

use serde_json::{Value, json};

use super::jobs::PipelineJob;
use super::view::{find_group, render_lines, to_minutes, to_stem};
use super::{JobRunner, PipelineEngine, PipelineSource, SettingFault};

pub const ENGINE: PipelineEngine = PipelineEngine {
    id: "github",
    about: "GitHub Actions workflow",
    label: "GitHub",
    suffix: ".yml",
    template: include_str!("templates/github.yml.hbs"),
    job_template: include_str!("templates/github-job.yml.hbs"),
    runner: JobRunner::Labels,
    check,
    escape,
    describe_pipeline,
    describe_job,
    ..PipelineEngine::PLAIN
};

/// (GitHub: Using secrets in GitHub Actions, naming your secrets)
fn check(source: PipelineSource<'_>) -> Vec<SettingFault> {
    let own = source.pipeline.publish.iter();
    let own = own.flat_map(|publish| &publish.secrets);
    let names = source.pipeline.secrets.iter().chain(own);
    names
        .filter(|name| name.starts_with("GITHUB_"))
        .map(|name| {
            let fact = format!("GitHub cannot have a secret called {name}");
            (fact, "its secret names must not start with `GITHUB_`")
        })
        .collect()
}

/// GitHub substitutes `${{ … }}` (GitHub: Evaluate expressions, literals).
fn escape(text: &str) -> String {
    text.replace("${{", "${{ '${{' }}")
}

fn describe_pipeline(source: PipelineSource<'_>, _: &[&PipelineJob]) -> Value {
    json!({ "title": escape(&to_stem(source.file)) })
}

fn describe_job(source: PipelineSource<'_>, job: &PipelineJob, _: &[&PipelineJob]) -> Value {
    let pipeline = source.pipeline;
    let object = format!("{}-{}", find_group(source.file), job.id);
    let secrets = job
        .secrets
        .iter()
        .map(|name| json!({ "name": name, "value": format!("${{{{ secrets.{name} }}}}") }));
    let minutes = to_minutes(pipeline);
    json!({
        "alone": format!("{object}-${{{{ github.ref }}}}"),
        "on_ref": format!("github.ref == 'refs/heads/{}'", pipeline.branch),
        "secrets": secrets.collect::<Vec<_>>(),
        "all_minutes": minutes * u64::from(pipeline.retries + 1),
        "attempts": list_attempts(pipeline.retries, minutes, &escape(&render_lines(job)[0])),
    })
}

fn list_attempts(retries: u32, minutes: u64, line: &str) -> Vec<Value> {
    (1..=retries + 1)
        .map(|number| {
            json!({
                "id": format!("attempt-{number}"),
                "name": match number {
                    1 => "build",
                    _ => "retry from the last layer",
                },
                "line": line,
                "minutes": minutes,
                "is_first": number == 1,
                "is_last": number == retries + 1,
                "after": format!("steps.attempt-{}.outcome == 'failure'", number - 1),
            })
        })
        .collect()
}
