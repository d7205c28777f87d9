//! A matrix as the pipeline of an engine that runs jobs on a cluster: installations first, then what goes on from their layers, then
//! what is published once somebody has approved it.
//!
//! Pure: the same schedule and `[pipeline]` give the same bytes. Schedules nothing itself; which machine runs what and when is the
//! engine's business. Holds names of secrets and no secret.

mod jobs;
mod needs;
mod view;

use std::path::Path;

use clap::ValueEnum;
use handlebars::Handlebars;
use serde_json::Value;

use crate::matrix::Schedule;
use jobs::{Job, Stage};
pub use needs::missing;
use winimg_base::error::{Error, Kind, Result};
use winimg_recipe::recipe::matrix::Pipeline;

/// What runs a pipeline. `--help` shows the sentences below.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Engine {
    /// A workflow of GitHub Actions
    Github,
    /// A configuration of GitLab CI/CD
    Gitlab,
    /// A WorkflowTemplate of Argo Workflows
    Argo,
    /// Jobs of Kubernetes, one file for each stage
    Kubernetes,
    /// A pipeline of Buildkite
    Buildkite,
}

/// How each file begins.
pub const HEADING: &str = "# Made from ";

/// One file of a pipeline.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct File {
    /// In the folder that it is written into.
    pub name: String,
    pub text: String,
}

/// What is rendered.
#[derive(Clone, Copy, Debug)]
pub struct Source<'a> {
    /// The matrix' file, as it is named on the command line.
    pub file: &'a Path,
    pub pipeline: &'a Pipeline,
    pub schedule: &'a Schedule,
    /// Whether `arguments` say what machines run on.
    pub names_machine: bool,
}

impl Engine {
    /// Whether its jobs are pods, which have an image's folder and no checkout of a repository.
    pub fn has_pods(self) -> bool {
        matches!(self, Self::Argo | Self::Kubernetes)
    }

    /// The folder of the variants' output folders.
    pub fn output(self) -> &'static Path {
        Path::new(match self.has_pods() {
            true => "/mnt/winimg/out",
            false => "out",
        })
    }

    /// The template of the whole, and that of one job in it.
    fn templates(self) -> (&'static str, &'static str) {
        match self {
            Self::Github => (
                include_str!("templates/github.yml.hbs"),
                include_str!("templates/github-job.yml.hbs"),
            ),
            Self::Gitlab => (
                include_str!("templates/gitlab.yml.hbs"),
                include_str!("templates/gitlab-job.yml.hbs"),
            ),
            Self::Argo => (
                include_str!("templates/argo.yaml.hbs"),
                include_str!("templates/argo-job.yaml.hbs"),
            ),
            Self::Kubernetes => (
                include_str!("templates/kubernetes.yaml.hbs"),
                include_str!("templates/kubernetes-job.yaml.hbs"),
            ),
            Self::Buildkite => (
                include_str!("templates/buildkite.yml.hbs"),
                include_str!("templates/buildkite-job.yml.hbs"),
            ),
        }
    }

    fn name(self, file: &Path, stage: &str) -> String {
        let stem = file.file_stem().unwrap_or_default();
        format!("{}{stage}{}", stem.to_string_lossy(), self.ending())
    }

    /// What follows the matrix' name in that of the file.
    fn ending(self) -> &'static str {
        match self {
            Self::Github => ".yml",
            Self::Gitlab => ".gitlab-ci.yml",
            Self::Argo => ".argo.yaml",
            Self::Kubernetes => ".yaml",
            Self::Buildkite => ".buildkite.yml",
        }
    }
}

/// The files of the pipeline.
///
/// # Errors
///
/// An argument that the engine has no way to pass on as it is.
pub fn render(engine: Engine, source: Source<'_>) -> Result<Vec<File>> {
    let all = jobs::all(engine, source);
    if engine == Engine::Argo {
        refuse_tags(&all)?;
    }
    let file = |stage: &str, jobs: &[&Job]| {
        let name = engine.name(source.file, stage);
        let view = view::of(engine, source, jobs);
        filled(engine, &view).map(|text| File { name, text })
    };
    if engine != Engine::Kubernetes {
        return Ok(vec![file("", &all.iter().collect::<Vec<_>>())?]);
    }
    let of = |stage: Stage| all.iter().filter(move |job| job.stage == stage);
    let stages = STAGES.into_iter().map(|(stage, name)| (of(stage), name));
    let stages = stages.map(|(jobs, name)| (jobs.collect::<Vec<_>>(), name));
    let stages = stages.filter(|(jobs, _)| !jobs.is_empty());
    stages.map(|(jobs, name)| file(name, &jobs)).collect()
}

/// The stages of which each is a file where jobs know no order: who applies them does.
const STAGES: [(Stage, &str); 3] = [
    (Stage::Installation, "-1-installations"),
    (Stage::Variant, "-2-variants"),
    (Stage::Publish, "-3-publish"),
];

/// What the files of a pipeline of this matrix can be called.
pub fn names(engine: Engine, file: &Path) -> Vec<String> {
    let stages = STAGES.iter().map(|(_, stage)| engine.name(file, stage));
    match engine {
        Engine::Kubernetes => stages.collect(),
        _ => vec![engine.name(file, "")],
    }
}

/// Argo fills in `{{…}}` wherever it stands, and has no way to write one.
fn refuse_tags(all: &[Job]) -> Result<()> {
    let has_tag = |job: &&Job| job.commands.iter().flatten().any(|w| w.contains("{{"));
    let Some(job) = all.iter().find(has_tag) else {
        return Ok(());
    };
    let words = job.commands.iter().flatten();
    let tags = words.filter(|word| word.contains("{{")).cloned();
    let fact = "Argo would fill in `{{` in an argument of `winimg build`";
    Err(Error::new(Kind::Recipe, fact)
        .at(format!("the variant {}", job.variant))
        .lines(tags)
        .cure("write that value into the recipe, and let the matrix set a variable of it"))
}

/// One of a pod, in Kubernetes' words.
const CONTAINER: &str = include_str!("templates/container.yaml.hbs");

/// Every `{{value}}` of a template is a text in double quotes, whatever is in it; only `{{{value}}}` is not.
fn filled(engine: Engine, view: &Value) -> Result<String> {
    let (whole, job) = engine.templates();
    let mut handlebars = Handlebars::new();
    handlebars.set_strict_mode(true);
    handlebars.register_escape_fn(quoted);
    let parsed = [("whole", whole), ("job", job), ("container", CONTAINER)]
        .into_iter()
        .try_for_each(|(name, text)| handlebars.register_template_string(name, text));
    let wrong = || Error::failed("a template of the pipeline is wrong");
    parsed.map_err(|e| wrong().because(e))?;
    handlebars
        .render("whole", view)
        .map_err(|e| wrong().because(e))
}

/// The text as JSON and YAML both read it, with nothing in it that YAML takes for a break of a line or refuses to print (YAML 1.2.2,
/// 5.1 and 5.7).
fn quoted(text: &str) -> String {
    let mut quoted = String::from("\"");
    for c in text.chars() {
        match c {
            '"' | '\\' => quoted.extend(['\\', c]),
            ' '..='~' => quoted.push(c),
            c if c.is_alphanumeric() => quoted.push(c),
            c if u32::from(c) <= 0xffff => quoted += &format!("\\u{:04x}", u32::from(c)),
            c => quoted += &format!("\\U{:08x}", u32::from(c)),
        }
    }
    quoted + "\""
}

#[cfg(test)]
mod tests;
