//! `winimg matrix`: reads the matrix with the recipes of all variants, and hands them to one of its commands.

mod build;
mod lock;
mod plan;
mod render;
mod report;
mod supervise;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use crate::cli::{self, LockArgs, MatrixArgs, RecipeArgs};
use crate::matrix::{Candidate, Schedule, outline};
use winimg_base::diag::{Diagnostic, Diagnostics};
use winimg_base::error::{Error, Result};
use winimg_base::io;
use winimg_machine::vm::Platform;
use winimg_recipe::plan::Plan;
use winimg_recipe::recipe::Recipe;
use winimg_recipe::recipe::matrix::{self, Matrix, Variant};

use super::recipe::{self, Look};
use super::source::{self, Source};
use super::{Context, must_exist};

pub fn run(command: &cli::Matrix, context: &Context) -> Result<()> {
    match command {
        cli::Matrix::Plan(args) => plan::run(args, context),
        cli::Matrix::Lock(args) => lock::run(args, context),
        cli::Matrix::Build(args) => build::run(args, context),
        cli::Matrix::Report(args) => report::run(args, context),
        cli::Matrix::Render(args) => render::run(args, context),
    }
}

/// A variant, read whole.
struct Read {
    variant: Variant,
    recipe: Recipe,
    plan: Plan,
    /// The lock that it obeys.
    lock: Option<PathBuf>,
}

/// The matrix alone. Complaints are shown; any error among them ends with status 2.
fn matrix(file: &Path, context: &Context) -> Result<Matrix> {
    must_exist(file)?;
    let read = io::read_text_limited(file, io::limit::TEXT);
    let text = read.map_err(|e| Error::io("read", file, e))?;
    let (matrix, found) = matrix::read(file, text);
    recipe::report(matrix, found, context)
}

/// The variants with their recipes, locks and plans, in the matrix's order. All complaints are shown at once.
fn variants(args: &MatrixArgs, look: Look, context: &Context) -> Result<Vec<Read>> {
    let matrix = matrix(&args.file, context)?;
    recipes(matrix, &args.file, Host::This, look, context)
}

/// Where the variants are built.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Host {
    This,
    /// Another one, which does not have this host's environment variables.
    Other,
}

/// The same of a matrix that is read already.
fn recipes(
    matrix: Matrix,
    file: &Path,
    host: Host,
    look: Look,
    context: &Context,
) -> Result<Vec<Read>> {
    let mut found = Complaints::default();
    let mut all = Vec::new();
    for variant in matrix.variants {
        let mut source = source_of(&variant, context)?;
        if host == Host::Other {
            source.options.env.clear();
        }
        let path = lock_path(file, &variant.name.value);
        let lock = path.is_file().then_some(path);
        let locks = LockArgs {
            no_lock: lock.is_none(),
            lock: lock.clone(),
            variant_of: Some(file.to_path_buf()),
        };
        let named = &variant.recipe.value;
        let read = recipe::read(&source, named, &locks, look, context);
        found.add(&variant.name.value, read.diagnostics);
        if let Some((recipe, plan)) = read.planned {
            all.push(Read {
                variant,
                recipe,
                plan,
                lock,
            });
        }
    }
    let diagnostics = found.together();
    let all = (!diagnostics.has_errors()).then_some(all);
    recipe::report(all, diagnostics, context)
}

/// The variant's recipe with what the matrix says over it, each at its place in the matrix.
fn source_of(variant: &Variant, context: &Context) -> Result<Source> {
    let args = RecipeArgs {
        recipe: variant.recipe.value.clone(),
        ..RecipeArgs::default()
    };
    source::needs_file(&args, "build")?;
    let mut source = source::source(&args, context)?;
    source.options.overlay = variant.overlay.clone();
    Ok(source)
}

/// `nodes.locks/NAME.lock` beside `nodes.toml`.
fn lock_path(file: &Path, name: &str) -> PathBuf {
    file.with_extension("locks").join(format!("{name}.lock"))
}

/// What follows `winimg build` for this variant, whose output folder is below `output`.
fn arguments(read: &Read, output: &Path) -> Vec<String> {
    let text = |path: &Path| path.display().to_string();
    let mut all = vec![text(&read.variant.recipe.value)];
    all.extend(read.variant.overlay.flags());
    match &read.lock {
        Some(lock) => all.extend(["--lock".into(), text(lock)]),
        None => all.push("--no-lock".into()),
    }
    let output = output.join(&read.variant.name.value);
    all.extend(["--output".into(), text(&output)]);
    all
}

/// Every variant in its turn.
fn schedule(all: &[Read], output: &Path, platform: Platform) -> Result<Schedule> {
    let candidate = |read: &Read| {
        let machine = &read.recipe.machine;
        Ok(Candidate {
            name: read.variant.name.value.clone(),
            arguments: arguments(read, output),
            keys: outline::keys(&read.recipe, &read.plan, platform)?,
            cpus: machine.cpus,
            memory: machine.memory,
            disk: machine.disk_size,
        })
    };
    let candidates: Result<Vec<Candidate>> = all.iter().map(candidate).collect();
    Ok(Schedule::of(candidates?))
}

/// What is wrong with which variants.
#[derive(Default)]
struct Complaints {
    variants: usize,
    found: Vec<(Diagnostic, Vec<String>)>,
}

impl Complaints {
    fn add(&mut self, variant: &str, found: Diagnostics) {
        self.variants += 1;
        for diagnostic in found.0 {
            match self
                .found
                .iter_mut()
                .find(|(known, _)| *known == diagnostic)
            {
                // Exact repetitions are no more.
                Some((_, of)) if of.last().is_some_and(|last| last == variant) => {}
                Some((_, of)) => of.push(variant.into()),
                None => self.found.push((diagnostic, vec![variant.into()])),
            }
        }
    }

    /// Each once; what is not wrong with all variants says with which.
    fn together(self) -> Diagnostics {
        let all = self.variants;
        let one = |(diagnostic, of): (Diagnostic, Vec<String>)| match of.len() == all {
            true => diagnostic,
            false => diagnostic.help(format!("in {}", of.join(", "))),
        };
        Diagnostics(self.found.into_iter().map(one).collect())
    }
}

/// The values of the axes by their names.
fn values(variant: &Variant) -> BTreeMap<String, String> {
    variant.values.iter().cloned().collect()
}
