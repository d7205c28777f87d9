//! `winimg matrix`: many builds from one file.

use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};

use super::{HypervisorArgs, NetworkArgs};
use crate::matrix::pipeline::Engine;

#[derive(Debug, Subcommand)]
pub enum Matrix {
    /// Show every variant: what is cached, what it shares, how long it takes
    ///
    /// Variants stand in the order in which they are built: those that share an installation or steps follow each other.
    Plan(MatrixPlan),
    /// Resolve the inputs of every variant, each input once
    ///
    /// Writes one lock for each variant: nodes.locks/NAME.lock beside nodes.toml. Commit them.
    Lock(MatrixLock),
    /// Build the variants, as many at once as this host's memory and processors allow
    ///
    /// Each variant is a `winimg build` of its own, into out/NAME, with its log in out/NAME.log. Variants that share an installation
    /// wait until the first of them has made it. What stands after `--` goes to every build.
    Build(MatrixBuild),
    /// Write out/matrix.html, one page about all variants
    ///
    /// `matrix build` writes it itself. It is made from the records in the variants' output folders.
    Report(MatrixReport),
    /// Write the builds as a pipeline of GitHub, GitLab, Argo, Kubernetes or Buildkite
    ///
    /// Installations of Windows come first, the other variants go on from their layers on as many machines as there are, and what is
    /// published waits for an approval. [pipeline] in the matrix says where. The same matrix, recipes and locks give the same bytes.
    Render(MatrixRender),
}

/// Which matrix, and where its builds go.
#[derive(Debug, Args)]
pub struct MatrixArgs {
    /// File with the matrix, such as nodes.toml
    #[arg(value_name = "MATRIX")]
    pub file: PathBuf,
    /// Folder of the variants' output folders
    #[arg(long, short, value_name = "DIR", default_value = "out")]
    pub output: PathBuf,
}

#[derive(Debug, Args)]
pub struct MatrixPlan {
    #[command(flatten)]
    pub matrix: MatrixArgs,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub hypervisor: HypervisorArgs,
}

#[derive(Debug, Args)]
pub struct MatrixLock {
    #[command(flatten)]
    pub matrix: MatrixArgs,
    /// Resolve this input again although no recipe changed; may be repeated
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
    /// Also accepts a lock that is older than one that was used here before.
    #[arg(long)]
    pub allow_rollback: bool,
    #[command(flatten)]
    pub network: NetworkArgs,
}

#[derive(Debug, Args)]
pub struct MatrixBuild {
    #[command(flatten)]
    pub matrix: MatrixArgs,
    /// Build only these variants; may be repeated, or names with commas between them
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    pub only: Vec<String>,
    /// Go on with the other variants after one has failed
    ///
    /// Otherwise no further one is started, and those that run are built to their end.
    #[arg(long)]
    pub keep_going: bool,
    /// Build at most this many at once
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    pub jobs: Option<u16>,
    /// Print the result as JSON
    #[arg(long)]
    pub json: bool,
    /// Arguments of `winimg build` for every variant, after `--`
    #[arg(last = true, value_name = "BUILD ARGUMENT")]
    pub arguments: Vec<String>,
}

#[derive(Debug, Args)]
pub struct MatrixReport {
    #[command(flatten)]
    pub matrix: MatrixArgs,
}

#[derive(Debug, Args)]
pub struct MatrixRender {
    /// File with the matrix, such as nodes.toml; relative to the folder that jobs start in
    #[arg(value_name = "MATRIX")]
    pub file: PathBuf,
    /// What runs the pipeline
    #[arg(long, value_enum)]
    pub engine: Engine,
    /// Folder to write the pipeline into [default: standard output]
    #[arg(long, short, value_name = "DIR")]
    pub output: Option<PathBuf>,
    /// Write nothing; exit with status 2 if a file in DIR would change
    #[arg(long, requires = "output")]
    pub check: bool,
}

impl Matrix {
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
