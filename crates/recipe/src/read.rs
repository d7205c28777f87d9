//! Reads a recipe from files and flags.

use std::path::{Path, PathBuf};

use crate::document::merge;
use crate::document::raw;
use crate::vars::precedence;
use crate::{
    Recipe, RecipeOverlay, effective, lock_request, lower, outdated_digest, packer_checksum, slot,
    undecided, vars,
};
use winimg_base::diag::{Diagnostic, Diagnostics, Severity};

/// Input from the command line and the environment.
#[derive(Clone, Debug, Default)]
pub struct ReadOptions {
    /// Search path of `include`, after the folder of the including file.
    pub search: Vec<PathBuf>,
    /// Built-in folders of `search`: messages refer to their files as `winimg:packs/…`.
    pub shipped: Vec<PathBuf>,
    /// The recipe itself, from standard input instead of a file.
    pub piped: Option<Vec<u8>>,
    /// Future content of the recipe's file, used instead of the current one.
    pub edited: Option<String>,
    /// `--var name=value`, in order.
    pub vars: Vec<(String, String)>,
    /// `--image-builder-vars`, in order.
    pub image_builder_vars: Vec<PathBuf>,
    /// `--var-file`, in order; JSON or TOML.
    pub var_files: Vec<PathBuf>,
    /// The environment; only `WINIMG_VAR_*` is used.
    pub env: Vec<(String, String)>,
    /// `--set path=value`, in order.
    pub set: Vec<String>,
    /// Overrides by a matrix for this variant, applied last.
    pub overlay: RecipeOverlay,
    /// Relocated files: the path in the recipe, and the actual one.
    pub moved: Vec<(PathBuf, PathBuf)>,
    /// The host's trust root of Sigstore's public good instance (`winimg trust update`), instead of
    /// the built-in one.
    pub sigstore_root: Option<Vec<u8>>,
    /// Canonical folder of a bundle: no file outside it is read.
    pub within: Option<PathBuf>,
}

/// Reads a recipe with everything it includes. Reports all problems at once, sorted by file and
/// line; returns a recipe only if there are no errors.
pub fn read(path: &Path, options: &ReadOptions) -> (Option<Recipe>, Diagnostics) {
    read_judged(path, options, &|_| Vec::new())
}

/// Like [`read`], but also passes the valid parts of a refused recipe to `judge`, and adds its
/// diagnostics.
pub fn read_judged(
    path: &Path,
    options: &ReadOptions,
    judge: &dyn Fn(&Recipe) -> Vec<Diagnostic>,
) -> (Option<Recipe>, Diagnostics) {
    let (raw, unreadable) = raw::load(path, options);
    let Some(mut raw) = raw else {
        return (None, Diagnostics(unreadable));
    };
    let mut problems = std::mem::take(&mut raw.problems);
    let incomplete = raw.incomplete;
    merge::apply_sets(
        &mut raw.tree,
        &options.set,
        &mut raw.sources,
        incomplete,
        &mut problems,
    );
    for setting in &options.overlay.settings {
        let problem = merge::apply_setting(&mut raw.tree, setting, incomplete, &mut problems);
        problems.extend(problem.err());
    }
    merge::drop_checksum_files(&mut raw.tree);
    let (scope, decided, given) = precedence::resolve_variables(
        &raw.tree,
        &raw.start.source,
        options,
        &mut raw.sources,
        incomplete,
        &mut problems,
    );
    let scope = vars::fill_in(&mut raw.tree, scope, &mut problems);
    packer_checksum::move_checksums(&mut raw.tree);
    if !incomplete {
        problems.extend(given.warn_unused(&raw.tree));
        problems.extend(outdated_digest::find_outdated_digests(&raw.tree, &given));
    }
    let asked = undecided::require_values(&mut raw.tree, &mut problems);
    let lowered = lower::lower(&raw, &scope, decided);
    let (draft, defaults) = (lowered.draft, lowered.defaults);
    let mut complaints = lowered.problems;
    // With errors there is no plan to list the missing values, so they are reported here.
    if contains_errors(&problems) || contains_errors(&complaints) {
        complaints.extend(undecided::to_errors(&draft.undecided, &asked));
        if !incomplete {
            complaints.extend(judge(&draft));
        }
    }
    problems.extend(without_echoes(complaints, &problems));
    let mut diagnostics = Diagnostics(problems);
    if !lowered.is_whole && !diagnostics.has_errors() {
        let fact = "the recipe could not be read, for an unknown reason";
        let help = "this is a bug in winimg: please report it with the recipe";
        diagnostics.push(Diagnostic::error(fact).help(help));
    }
    diagnostics.sort(&raw.sources.order());
    if diagnostics.has_errors() {
        return (None, diagnostics);
    }
    let mut recipe = draft;
    let root = &raw.start.source;
    slot::find(&mut recipe.components, &raw.tree, &given, root);
    recipe.effective = effective::list(&raw.tree, &scope, defaults);
    recipe.lock_requests = lock_request::list(&recipe, &raw.tree);
    recipe.files = raw.sources.files();
    (Some(recipe), diagnostics)
}

fn contains_errors(problems: &[Diagnostic]) -> bool {
    problems
        .iter()
        .any(|problem| problem.severity == Severity::Error)
}

/// Drops problems in lines with a syntax error, because these are consequential.
fn without_echoes(complaints: Vec<Diagnostic>, syntax: &[Diagnostic]) -> Vec<Diagnostic> {
    let broken: Vec<(String, usize)> = syntax
        .iter()
        .filter(|diagnostic| diagnostic.is_syntax)
        .filter_map(line_of)
        .collect();
    complaints
        .into_iter()
        .filter(|diagnostic| line_of(diagnostic).is_none_or(|line| !broken.contains(&line)))
        .collect()
}

fn line_of(diagnostic: &Diagnostic) -> Option<(String, usize)> {
    let place = diagnostic.problem.place.as_ref()?;
    Some((place.source.name.clone(), place.line_column().0))
}
