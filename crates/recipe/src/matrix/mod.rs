//! A matrix: a TOML file that builds many variants of recipes, each with its own name, variables
//! and values.
//!
//! Pure: a text in, variants and diagnostics out. Reads no recipe and builds nothing. The layers
//! that variants share follow from their keys.

mod combine;
mod name;
mod overrides;
pub mod pipeline;
mod read;

pub use pipeline::Pipeline;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::PathRoot;
use crate::context::LoweringContext;
use crate::document::mask::mask_matrix;
use crate::document::overlay::RecipeOverlay;
use crate::document::sources::RecipeSources;
use crate::document::value::parse;
use crate::vars::VariableScope;
use winimg_base::diag::Diagnostics;
use winimg_base::text::{Located, Place};

/// Maximum number of variants; more of them are probably a mistake.
pub const MOST: usize = 256;

/// The parsed file.
#[derive(Clone, Debug)]
pub struct MatrixSpec {
    /// In the order of the file: the last axis changes fastest, those of `[[matrix.include]]`
    /// follow.
    pub variants: Vec<VariantSpec>,
    /// The names of the axes.
    pub axes: Vec<String>,
    /// Settings for CI pipelines.
    pub pipeline: Option<Pipeline>,
}

/// One build.
#[derive(Clone, Debug)]
pub struct VariantSpec {
    /// Replaces the name of its recipe: names the output folder, the artifacts and the build
    /// records.
    pub name: Located<String>,
    /// Path relative to the working directory, already joined with the matrix's folder.
    pub recipe: Located<PathBuf>,
    /// The axes with the names of their values.
    pub values: Vec<(String, String)>,
    /// Its settings include the name.
    pub overlay: RecipeOverlay,
}

/// Reads a matrix's text. `path` is its name in messages, and its folder the base of the recipes'
/// paths. Returns a matrix only if there are no errors.
pub fn read(path: &Path, text: String) -> (Option<MatrixSpec>, Diagnostics) {
    let mut sources = RecipeSources::default();
    let folder = path.parent().unwrap_or(Path::new("")).to_path_buf();
    let name = path.display().to_string();
    let text = mask_matrix(&name, text);
    let source = sources.add_file(name, text, folder, PathRoot::Recipe);
    let (tree, mut problems) = parse(&source);
    let scope = VariableScope::default();
    let cx = LoweringContext::new(&sources, &scope, !problems.is_empty());
    let start = Place::new(&source, 0..0);
    let matrix = read::read_tables(&cx, &tree, &start);
    problems.extend(cx.into_parts().0);
    let mut diagnostics = Diagnostics(problems);
    diagnostics.sort(&[Arc::clone(&source)]);
    let matrix = matrix.filter(|_| !diagnostics.has_errors());
    (matrix, diagnostics)
}
