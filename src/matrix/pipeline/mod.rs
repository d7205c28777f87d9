//! Renders a matrix as the pipeline of a CI engine: installations first, then the variants that
//! start from their layers, then publishing after approval.
//!
//! Pure: the same schedule and `[pipeline]` give the same bytes. The engine decides which machine
//! runs what and when. Contains names of secrets but no secret.

mod argo;
mod buildkite;
mod check;
mod github;
mod gitlab;
mod jobs;
mod kubernetes;
mod view;

use std::path::Path;

use handlebars::Handlebars;
use serde_json::Value;

use crate::matrix::Schedule;
pub use check::check_settings;
use jobs::{PipelineJob, PipelineStage};
use winimg_base::error::{Error, Result};
use winimg_recipe::matrix::Pipeline;

/// A CI engine: its names, its templates, and how it differs from the others.
#[derive(Clone, Copy, Debug)]
pub struct PipelineEngine {
    /// The value of `--engine`.
    pub id: &'static str,
    /// Shown by `--help`.
    pub about: &'static str,
    /// Its name in messages.
    label: &'static str,
    /// Suffix of the file name after the name of the matrix.
    suffix: &'static str,
    template: &'static str,
    job_template: &'static str,
    runner: JobRunner,
    /// Its jobs have no order, so each stage has a file that the user applies in turn.
    has_file_per_stage: bool,
    /// Complains about settings that the engine does not accept.
    check: fn(PipelineSource<'_>) -> Vec<SettingFault>,
    /// Refuses arguments that the engine cannot pass on literally.
    refuse_jobs: fn(&[PipelineJob]) -> Result<()>,
    /// Escapes the substitutions that the engine makes in any text, so that it passes on the text
    /// literally.
    escape: fn(&str) -> String,
    /// Returns the commands of a pod's containers.
    list_containers: fn(&PipelineJob) -> Vec<Vec<String>>,
    /// Returns values that only this engine's templates use: of the pipeline with these jobs, and
    /// of one of them.
    describe_pipeline: fn(PipelineSource<'_>, &[&PipelineJob]) -> Value,
    describe_job: fn(PipelineSource<'_>, &PipelineJob, &[&PipelineJob]) -> Value,
}

/// Kind of machine that runs the jobs, which decides the settings that an engine needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum JobRunner {
    Labels,
    Queue,
    /// Pods, which have an image's folder and no repository checkout.
    Pods,
}

/// The fact and the help of a complaint.
type SettingFault = (String, &'static str);

/// All engines in the order of `--help`.
pub static ENGINES: [PipelineEngine; 5] = [
    github::ENGINE,
    gitlab::ENGINE,
    argo::ENGINE,
    kubernetes::ENGINE,
    buildkite::ENGINE,
];

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
    /// Values that most engines share.
    const PLAIN: Self = Self {
        id: "",
        about: "",
        label: "",
        suffix: "",
        template: "",
        job_template: "",
        runner: JobRunner::Labels,
        has_file_per_stage: false,
        check: |_| Vec::new(),
        refuse_jobs: |_| Ok(()),
        escape: str::to_owned,
        list_containers: |job| job.commands.clone(),
        describe_pipeline: |_, _| Value::Null,
        describe_job: |_, _, _| Value::Null,
    };

    /// Returns the parent folder of the variants' output folders.
    pub fn output(&self) -> &'static Path {
        Path::new(match self.runner {
            JobRunner::Pods => "/mnt/winimg/out",
            JobRunner::Labels | JobRunner::Queue => "out",
        })
    }

    fn file_name(&self, file: &Path, stage: &str) -> String {
        let stem = file.file_stem().unwrap_or_default();
        format!("{}{stage}{}", stem.to_string_lossy(), self.suffix)
    }
}

/// Renders the files of the pipeline.
///
/// # Errors
///
/// Fails if the engine cannot pass on an argument literally.
pub fn render(engine: &PipelineEngine, source: PipelineSource<'_>) -> Result<Vec<PipelineFile>> {
    let all = jobs::list_jobs(engine, source);
    (engine.refuse_jobs)(&all)?;
    if !engine.has_file_per_stage {
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
    engine: &PipelineEngine,
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

/// Suffixes of the files of stages.
const STAGES: [(PipelineStage, &str); 3] = [
    (PipelineStage::Installation, "-1-installations"),
    (PipelineStage::Variant, "-2-variants"),
    (PipelineStage::Publish, "-3-publish"),
];

/// Returns the possible names of the files of this matrix' pipeline.
pub fn list_names(engine: &PipelineEngine, file: &Path) -> Vec<String> {
    if !engine.has_file_per_stage {
        return vec![engine.file_name(file, "")];
    }
    STAGES
        .iter()
        .map(|(_, stage)| engine.file_name(file, stage))
        .collect()
}

/// Template of a pod's container.
const CONTAINER: &str = include_str!("templates/container.yaml.hbs");

/// Renders the templates. Every `{{value}}` becomes a double-quoted text; only `{{{value}}}` does
/// not.
fn fill_templates(engine: &PipelineEngine, view: &Value) -> Result<String> {
    let mut handlebars = Handlebars::new();
    handlebars.set_strict_mode(true);
    handlebars.register_escape_fn(quote_text);
    for (name, text) in [
        ("whole", engine.template),
        ("job", engine.job_template),
        ("container", CONTAINER),
    ] {
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
