//! Renders a matrix as the pipeline of a CI engine: installations first, then the variants that
//! start from their layers, then publishing after approval.
//!
//! Pure: the same schedule and `[pipeline]` give the same bytes. The engine decides which machine
//! runs what and when. Contains names of secrets but no secret.

mod jobs;
mod settings;
mod view;

use std::path::Path;

use clap::ValueEnum;
use handlebars::Handlebars;
use serde_json::Value;

use crate::matrix::Schedule;
use jobs::{PipelineJob, PipelineStage};
pub use settings::check_settings;
use winimg_base::error::{Error, Kind, Result};
use winimg_recipe::recipe::matrix::Pipeline;

/// A CI engine. `--help` shows the descriptions below.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum PipelineEngine {
    /// GitHub Actions workflow
    Github,
    /// GitLab CI/CD configuration
    Gitlab,
    /// Argo WorkflowTemplate
    Argo,
    /// Kubernetes Jobs, one file per stage
    Kubernetes,
    /// Buildkite pipeline
    Buildkite,
}

/// First words of each file.
pub const HEADING: &str = "# Made from ";

/// One file of a pipeline.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PipelineFile {
    /// Relative to the output folder.
    pub name: String,
    pub text: String,
}

/// Input of the rendering.
#[derive(Clone, Copy, Debug)]
pub struct PipelineSource<'a> {
    /// The matrix file, as given on the command line.
    pub file: &'a Path,
    pub pipeline: &'a Pipeline,
    pub schedule: &'a Schedule,
    /// `arguments` already select an accelerator.
    pub names_machine: bool,
}

impl PipelineEngine {
    /// Returns true if its jobs are pods, which have an image's folder and no repository checkout.
    pub fn has_pods(self) -> bool {
        matches!(self, Self::Argo | Self::Kubernetes)
    }

    /// Returns the parent folder of the variants' output folders.
    pub fn output(self) -> &'static Path {
        Path::new(if self.has_pods() {
            "/mnt/winimg/out"
        } else {
            "out"
        })
    }

    /// Returns the templates of the pipeline and of one job.
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

    fn file_name(self, file: &Path, stage: &str) -> String {
        let stem = file.file_stem().unwrap_or_default();
        format!("{}{stage}{}", stem.to_string_lossy(), self.file_suffix())
    }

    /// Returns the suffix of the file name after the name of the matrix.
    fn file_suffix(self) -> &'static str {
        match self {
            Self::Github => ".yml",
            Self::Gitlab => ".gitlab-ci.yml",
            Self::Argo => ".argo.yaml",
            Self::Kubernetes => ".yaml",
            Self::Buildkite => ".buildkite.yml",
        }
    }
}

/// Renders the files of the pipeline.
///
/// # Errors
///
/// Fails if the engine cannot pass on an argument literally.
pub fn render(engine: PipelineEngine, source: PipelineSource<'_>) -> Result<Vec<PipelineFile>> {
    let all = jobs::list_jobs(engine, source);
    if engine == PipelineEngine::Argo {
        refuse_tags(&all)?;
    }
    if engine != PipelineEngine::Kubernetes {
        let jobs: Vec<&PipelineJob> = all.iter().collect();
        return Ok(vec![render_file(engine, source, "", &jobs)?]);
    }
    let mut files = Vec::new();
    for (stage, name) in STAGES {
        let jobs: Vec<&PipelineJob> = all.iter().filter(|job| job.stage == stage).collect();
        if !jobs.is_empty() {
            files.push(render_file(engine, source, name, &jobs)?);
        }
    }
    Ok(files)
}

fn render_file(
    engine: PipelineEngine,
    source: PipelineSource<'_>,
    stage: &str,
    jobs: &[&PipelineJob],
) -> Result<PipelineFile> {
    let view = view::build_view(engine, source, jobs);
    Ok(PipelineFile {
        name: engine.file_name(source.file, stage),
        text: fill_templates(engine, &view)?,
    })
}

/// Stages with a file each, for an engine whose jobs have no order: the user applies them in turn.
const STAGES: [(PipelineStage, &str); 3] = [
    (PipelineStage::Installation, "-1-installations"),
    (PipelineStage::Variant, "-2-variants"),
    (PipelineStage::Publish, "-3-publish"),
];

/// Returns the possible names of the files of this matrix' pipeline.
pub fn list_names(engine: PipelineEngine, file: &Path) -> Vec<String> {
    let stages = STAGES
        .iter()
        .map(|(_, stage)| engine.file_name(file, stage));
    match engine {
        PipelineEngine::Kubernetes => stages.collect(),
        _ => vec![engine.file_name(file, "")],
    }
}

/// Refuses arguments with `{{`: Argo substitutes `{{…}}` everywhere and cannot escape it.
fn refuse_tags(all: &[PipelineJob]) -> Result<()> {
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

/// Template of a pod's container.
const CONTAINER: &str = include_str!("templates/container.yaml.hbs");

/// Renders the templates. Every `{{value}}` becomes a double-quoted text; only `{{{value}}}` does
/// not.
fn fill_templates(engine: PipelineEngine, view: &Value) -> Result<String> {
    let (whole, job) = engine.templates();
    let mut handlebars = Handlebars::new();
    handlebars.set_strict_mode(true);
    handlebars.register_escape_fn(quote_text);
    for (name, text) in [("whole", whole), ("job", job), ("container", CONTAINER)] {
        handlebars
            .register_template_string(name, text)
            .map_err(|e| Error::failed("a pipeline template is invalid").because(e))?;
    }
    handlebars
        .render("whole", view)
        .map_err(|e| Error::failed("cannot render a pipeline template").because(e))
}

/// Quotes a text for JSON and YAML, and escapes everything that YAML reads as a line break or
/// treats as non-printable (YAML 1.2.2, 5.1 and 5.7).
fn quote_text(text: &str) -> String {
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
