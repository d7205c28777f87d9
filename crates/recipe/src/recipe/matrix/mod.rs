//! A matrix: one TOML file that makes many variants of recipes, each with a name, variables and values of its own.
//!
//! Pure: a text in, variants and complaints out, all at once and each at its line. Reads no recipe, builds nothing, and shares nothing:
//! which layers variants share follows from their keys.

mod combine;
mod name;
pub mod pipeline;
mod read;
mod value;

pub use pipeline::Pipeline;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::Root;
use super::context::Context;
use super::mask::mask_matrix;
use super::overlay::Overlay;
use super::sources::Sources;
use super::value::parse;
use super::vars::Scope;
use winimg_base::diag::Diagnostics;
use winimg_base::text::{Located, Place};

/// More variants than anybody builds: beyond it an axis was meant otherwise.
pub const MOST: usize = 256;

/// What the file says.
#[derive(Clone, Debug)]
pub struct Matrix {
    /// In the order of the file: the last axis changes fastest, those of `[[matrix.include]]` follow.
    pub variants: Vec<Variant>,
    /// The names of the axes.
    pub axes: Vec<String>,
    /// Where a cluster builds them.
    pub pipeline: Option<Pipeline>,
}

/// One build.
#[derive(Clone, Debug)]
pub struct Variant {
    /// Also that of its recipe: it names the output folder, the artifacts, and what is remembered of its builds.
    pub name: Located<String>,
    /// As it is opened: beside the matrix's file.
    pub recipe: Located<PathBuf>,
    /// Of each of its axes the name of the value.
    pub values: Vec<(String, String)>,
    /// With the name among its settings.
    pub overlay: Overlay,
}

/// Reads a matrix's text. `path` is what messages call it, and its folder is where the paths of its recipes start. There is a
/// matrix only where none of the complaints is an error.
pub fn read(path: &Path, text: String) -> (Option<Matrix>, Diagnostics) {
    let mut sources = Sources::default();
    let folder = path.parent().unwrap_or(Path::new("")).to_path_buf();
    let name = path.display().to_string();
    let text = mask_matrix(&name, text);
    let source = sources.add_file(name, text, folder, Root::Recipe);
    let (tree, mut problems) = parse(&source);
    let scope = Scope::default();
    let cx = Context::new(&sources, &scope, !problems.is_empty());
    let start = Place::new(&source, 0..0);
    let matrix = read::matrix(&cx, &tree, &start);
    problems.extend(cx.into_parts().0);
    let mut diagnostics = Diagnostics(problems);
    diagnostics.sort(&[Arc::clone(&source)]);
    let matrix = matrix.filter(|_| !diagnostics.has_errors());
    (matrix, diagnostics)
}
