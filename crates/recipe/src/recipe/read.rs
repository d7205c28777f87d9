//! The way from files and flags to a recipe.

use std::path::{Path, PathBuf};

use super::{
    Overlay, Recipe, ask, decide, effective, lower, merge, old_digest, packer_checksum, raw, slot,
    undecided, vars,
};
use winimg_base::diag::{Diagnostic, Diagnostics};

/// What the command line and the environment add to the file.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Folders in which an `include` is looked for when it is not beside the including file.
    pub search: Vec<PathBuf>,
    /// Those of `search` that come with winimg: their files are called `winimg:packs/…` in messages.
    pub shipped: Vec<PathBuf>,
    /// The recipe itself, where it came on standard input: no file is read for it.
    pub piped: Option<Vec<u8>>,
    /// What the recipe's file is about to hold: read in place of what it holds now.
    pub edited: Option<String>,
    /// `--var name=value`, in order.
    pub vars: Vec<(String, String)>,
    /// `--image-builder-vars`, in order.
    pub image_builder_vars: Vec<PathBuf>,
    /// `--var-file`, in order; JSON or TOML.
    pub var_files: Vec<PathBuf>,
    /// The environment; only `WINIMG_VAR_*` is looked at.
    pub env: Vec<(String, String)>,
    /// `--set path=value`, in order.
    pub set: Vec<String>,
    /// What a matrix says of this variant, after all of these.
    pub overlay: Overlay,
    /// Files that a recipe names and that stand elsewhere: where it looks, and where they are.
    pub moved: Vec<(PathBuf, PathBuf)>,
    /// The trust root of Sigstore's public good instance that this host has (`winimg trust update`); the library's otherwise.
    pub sigstore_root: Option<Vec<u8>>,
    /// A bundle's folder, canonical: nothing that the recipe names is read outside of it.
    pub within: Option<PathBuf>,
}

/// Reads a recipe with everything that it includes. All complaints come at once, sorted by file and line; there is
/// a recipe only when none of them is an error.
pub fn read(path: &Path, options: &Options) -> (Option<Recipe>, Diagnostics) {
    read_judged(path, options, &|_| Vec::new())
}

/// The same; what is right of a refused recipe is shown to `judge`, whose complaints join the others.
pub fn read_judged(
    path: &Path,
    options: &Options,
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
    let (scope, decided, given) = decide::decide(
        &raw.tree,
        &raw.start.source,
        options,
        &mut raw.sources,
        incomplete,
        &mut problems,
    );
    let scope = vars::fill_in(&mut raw.tree, &scope, &mut problems);
    packer_checksum::settle(&mut raw.tree);
    if !incomplete {
        problems.extend(given.unread(&raw.tree));
        problems.extend(old_digest::complaints(&raw.tree, &given));
    }
    let asked = undecided::settle(&mut raw.tree, &mut problems);
    let lowered = lower::lower(&raw, &scope, decided);
    let (draft, defaults) = (lowered.draft, lowered.defaults);
    let mut complaints = lowered.problems;
    let is_wrong = |all: &[Diagnostic]| Diagnostics(all.to_vec()).has_errors();
    // With mistakes there is no plan to list these at the end of: they are told with the others.
    if is_wrong(&problems) || is_wrong(&complaints) {
        complaints.extend(undecided::complaints(&lowered.undecided, &asked));
        if !incomplete {
            complaints.extend(judge(&draft));
        }
    }
    problems.extend(without_echoes(complaints, &problems));
    let mut diagnostics = Diagnostics(problems);
    if !lowered.is_whole && !diagnostics.has_errors() {
        let fact = "the recipe could not be understood, and nothing says why";
        let help = "this is a mistake in winimg: please report it with the recipe";
        diagnostics.push(Diagnostic::error(fact).help(help));
    }
    diagnostics.sort(&raw.sources.order());
    let recipe = (!diagnostics.has_errors()).then_some(draft);
    let root = &raw.start.source;
    let recipe = recipe.map(|mut recipe| {
        slot::find(&mut recipe.components, &raw.tree, &given, root);
        recipe
    });
    let recipe = recipe.map(|recipe| Recipe {
        effective: effective::list(&raw.tree, &scope, defaults),
        asks: ask::list(&recipe, &raw.tree),
        files: raw.sources.files(),
        ..recipe
    });
    (recipe, diagnostics)
}

/// A line that is not TOML is misread in other ways too: what else is said about it is dropped.
fn without_echoes(complaints: Vec<Diagnostic>, syntax: &[Diagnostic]) -> Vec<Diagnostic> {
    let line = |d: &Diagnostic| {
        let place = d.problem.place.as_ref()?;
        Some((place.source.name.clone(), place.line_column().0))
    };
    let broken = syntax.iter().filter(|d| d.is_syntax);
    let broken: Vec<_> = broken.filter_map(line).collect();
    let echoes = |d: &Diagnostic| line(d).is_some_and(|l| broken.contains(&l));
    complaints.into_iter().filter(|d| !echoes(d)).collect()
}
