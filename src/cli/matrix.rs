//! `winimg matrix`: many builds from one file.

use std::path::{Path, PathBuf};

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use clap::{Args, Subcommand};

use super::{HypervisorArgs, NetworkArgs};
use crate::matrix::pipeline::{ENGINES, PipelineEngine};

#[derive(Debug, Subcommand)]
pub enum MatrixCommand {
    /// Show every variant: what is cached, what it shares, how long it takes
    ///
    /// Variants are listed in build order: those that share an installation or steps follow each
    /// other.
    Plan(MatrixPlanArgs),
    /// Resolve the inputs of every variant, each input once
    ///
    /// Writes one lock for each variant: nodes.locks/NAME.lock beside nodes.toml. Commit them.
    Lock(MatrixLockArgs),
    /// Build the variants, as many at once as this host's memory and processors allow
    ///
    /// Runs a separate `winimg build` for each variant, into out/NAME, with its log in
    /// out/NAME.log. Variants that share an installation wait until the first of them has made it.
    /// Arguments after `--` are passed to every build.
    Build(MatrixBuildArgs),
    /// Write out/matrix.html, one page about all variants
    ///
    /// `matrix build` writes it too. It is generated from the records in the variants' output
    /// folders.
    Report(MatrixReportArgs),
    /// Write the builds as a pipeline of GitHub, GitLab, Argo, Kubernetes or Buildkite
    ///
    /// The pipeline installs Windows first, builds the other variants from those layers in
    /// parallel, and publishes after an approval. Configured by [pipeline] in the matrix. The
    /// output is deterministic.
    Render(MatrixRenderArgs),
}

/// Selects the matrix and its output folder.
#[derive(Debug, Args)]
pub struct MatrixArgs {
    /// File with the matrix, such as nodes.toml
    #[arg(value_name = "MATRIX")]
    pub file: PathBuf,
    /// Parent folder of the variants' output folders
    #[arg(long, short, value_name = "DIR", default_value = "out")]
    pub output: PathBuf,
}

#[derive(Debug, Args)]
pub struct MatrixPlanArgs {
    #[command(flatten)]
    pub matrix: MatrixArgs,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub hypervisor: HypervisorArgs,
}

#[derive(Debug, Args)]
pub struct MatrixLockArgs {
    #[command(flatten)]
    pub matrix: MatrixArgs,
    /// Re-resolve this input; may be repeated
    #[arg(long, value_name = "NAME")]
    pub refresh: Vec<String>,
    /// Write nothing; exit with status 2 if a lock would change
    #[arg(long)]
    pub check: bool,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
    /// Accept a lower version than the locked one
    ///
    /// Also accepts a lock that is older than one used here before.
    #[arg(long)]
    pub allow_rollback: bool,
    #[command(flatten)]
    pub network: NetworkArgs,
}

#[derive(Debug, Args)]
pub struct MatrixBuildArgs {
    #[command(flatten)]
    pub matrix: MatrixArgs,
    /// Build only these variants, separated by commas; may be repeated
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    pub only: Vec<String>,
    /// Continue with the other variants after one has failed
    ///
    /// By default no further variant is started, and running builds are finished.
    #[arg(long)]
    pub keep_going: bool,
    /// Build at most this many at once
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    pub jobs: Option<u16>,
    /// Print the result as JSON
    #[arg(long)]
    pub json: bool,
    /// Arguments for every `winimg build`, after `--`
    #[arg(last = true, value_name = "BUILD ARGUMENT")]
    pub arguments: Vec<String>,
}

#[derive(Debug, Args)]
pub struct MatrixReportArgs {
    #[command(flatten)]
    pub matrix: MatrixArgs,
}

#[derive(Debug, Args)]
pub struct MatrixRenderArgs {
    /// File with the matrix, such as nodes.toml; relative to the folder that jobs start in
    #[arg(value_name = "MATRIX")]
    pub file: PathBuf,
    /// Engine that runs the pipeline
    #[arg(long, value_parser = parse_engine())]
    pub engine: &'static PipelineEngine,
    /// Folder to write the pipeline into [default: standard output]
    #[arg(long, short, value_name = "DIR")]
    pub output: Option<PathBuf>,
    /// Write nothing; exit with status 2 if a file in DIR would change
    #[arg(long, requires = "output")]
    pub check: bool,
}

fn parse_engine() -> impl TypedValueParser<Value = &'static PipelineEngine> {
    let names = ENGINES
        .iter()
        .map(|engine| PossibleValue::new(engine.id).help(engine.about));
    PossibleValuesParser::new(names).try_map(|name| {
        let mut engines = ENGINES.iter();
        engines.find(|engine| engine.id == name).ok_or(name)
    })
}

impl MatrixCommand {
    pub fn file(&self) -> &Path {
        match self {
            Self::Plan(args) => &args.matrix.file,
            Self::Lock(args) => &args.matrix.file,
            Self::Build(args) => &args.matrix.file,
            Self::Report(args) => &args.matrix.file,
            Self::Render(args) => &args.file,
        }
    }
}
