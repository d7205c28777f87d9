//! `winimg matrix`: reads the matrix with the recipes of all variants for its subcommands.

mod build;
mod lock;
mod plan;
mod render;
mod report;
mod supervise;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use crate::cli::{self, LockFileArgs, MatrixArgs, RecipeArgs};
use crate::matrix::{Schedule, VariantCandidate, outline};
use winimg_base::diag::{Diagnostic, Diagnostics};
use winimg_base::error::{Error, Result};
use winimg_base::io;
use winimg_machine::vm::HypervisorKind;
use winimg_recipe::Recipe;
use winimg_recipe::matrix::{self, MatrixSpec, VariantSpec};
use winimg_recipe::plan::BuildPlan;

use super::recipe::{self, RecipePurpose};
use super::source::{self, RecipeSource};
use super::{CommandContext, must_exist};

pub fn run(command: &cli::MatrixCommand, context: &CommandContext) -> Result<()> {
    match command {
        cli::MatrixCommand::Plan(args) => plan::run(args, context),
        cli::MatrixCommand::Lock(args) => lock::run(args, context),
        cli::MatrixCommand::Build(args) => build::run(args, context),
        cli::MatrixCommand::Report(args) => report::run(args, context),
        cli::MatrixCommand::Render(args) => render::run(args, context),
    }
}

/// A variant with its recipe and plan.
struct VariantRecipe {
    variant: VariantSpec,
    recipe: Recipe,
    plan: BuildPlan,
    /// Path of its lock, if it exists.
    lock: Option<PathBuf>,
}

/// Reads the matrix without its recipes. Reports all diagnostics; fails with status 2 if one is an
/// error.
fn read_matrix(file: &Path, context: &CommandContext) -> Result<MatrixSpec> {
    must_exist(file)?;
    let text =
        io::read_text_limited(file, io::limit::TEXT).map_err(|e| Error::io("read", file, e))?;
    let (matrix, found) = matrix::read(file, text);
    recipe::report(matrix, found, context)
}

/// Reads the variants with their recipes, locks and plans, in the matrix's order. Reports all
/// diagnostics at once.
fn read_variants(
    args: &MatrixArgs,
    look: RecipePurpose,
    context: &CommandContext,
) -> Result<Vec<VariantRecipe>> {
    let matrix = read_matrix(&args.file, context)?;
    read_recipes(matrix, &args.file, VariantHost::This, look, context)
}

/// Host on which the variants are built.
#[derive(Clone, Copy, PartialEq, Eq)]
enum VariantHost {
    This,
    /// A host without this one's environment variables.
    Other,
}

/// Reads the recipes, locks and plans of a matrix's variants.
fn read_recipes(
    matrix: MatrixSpec,
    file: &Path,
    host: VariantHost,
    look: RecipePurpose,
    context: &CommandContext,
) -> Result<Vec<VariantRecipe>> {
    let mut found = VariantDiagnostics::default();
    let mut all = Vec::new();
    for variant in matrix.variants {
        let mut source = find_source(&variant, context)?;
        if host == VariantHost::Other {
            source.options.env.clear();
        }
        let path = lock_path(file, &variant.name.value);
        let lock = path.is_file().then_some(path);
        let locks = LockFileArgs {
            no_lock: lock.is_none(),
            lock: lock.clone(),
            variant_of: Some(file.to_path_buf()),
        };
        let named = &variant.recipe.value;
        let read = recipe::read(&source, named, &locks, look, context);
        found.add(&variant.name.value, read.diagnostics);
        if let Some((recipe, plan)) = read.planned {
            all.push(VariantRecipe {
                variant,
                recipe,
                plan,
                lock,
            });
        }
    }
    let diagnostics = found.merge();
    let all = (!diagnostics.has_errors()).then_some(all);
    recipe::report(all, diagnostics, context)
}

/// Returns the source of the variant's recipe with the overrides of the matrix.
fn find_source(variant: &VariantSpec, context: &CommandContext) -> Result<RecipeSource> {
    let args = RecipeArgs {
        recipe: variant.recipe.value.clone(),
        ..RecipeArgs::default()
    };
    source::require_file(&args, "build")?;
    let mut source = source::open_source(&args, context)?;
    source.options.overlay = variant.overlay.clone();
    Ok(source)
}

/// Returns `nodes.locks/NAME.lock` beside `nodes.toml`.
fn lock_path(file: &Path, name: &str) -> PathBuf {
    file.with_extension("locks").join(format!("{name}.lock"))
}

/// Returns the arguments of `winimg build` for this variant, whose output folder is below `output`.
fn build_arguments(read: &VariantRecipe, output: &Path) -> Vec<String> {
    let mut all = vec![read.variant.recipe.value.display().to_string()];
    all.extend(read.variant.overlay.to_flags());
    match &read.lock {
        Some(lock) => all.extend(["--lock".into(), lock.display().to_string()]),
        None => all.push("--no-lock".into()),
    }
    let output = output.join(&read.variant.name.value);
    all.extend(["--output".into(), output.display().to_string()]);
    all
}

/// Schedules the variants.
fn schedule(all: &[VariantRecipe], output: &Path, platform: HypervisorKind) -> Result<Schedule> {
    let mut candidates = Vec::new();
    for read in all {
        let machine = &read.recipe.machine;
        candidates.push(VariantCandidate {
            name: read.variant.name.value.clone(),
            arguments: build_arguments(read, output),
            keys: outline::compute_keys(&read.recipe, &read.plan, platform)?,
            cpus: machine.cpus,
            memory: machine.memory,
            disk: machine.disk_size,
        });
    }
    Ok(Schedule::from_candidates(candidates))
}

/// Diagnostics with the variants that they are about.
#[derive(Default)]
struct VariantDiagnostics {
    variants: usize,
    found: Vec<(Diagnostic, Vec<String>)>,
}

impl VariantDiagnostics {
    fn add(&mut self, variant: &str, found: Diagnostics) {
        self.variants += 1;
        for diagnostic in found.0 {
            match self
                .found
                .iter_mut()
                .find(|(known, _)| *known == diagnostic)
            {
                // Repeated within one variant.
                Some((_, of)) if of.last().is_some_and(|last| last == variant) => {}
                Some((_, of)) => of.push(variant.into()),
                None => self.found.push((diagnostic, vec![variant.into()])),
            }
        }
    }

    /// Merges equal diagnostics; one that does not concern all variants lists those that it does.
    fn merge(self) -> Diagnostics {
        let all = self.variants;
        Diagnostics(
            self.found
                .into_iter()
                .map(|(diagnostic, of)| {
                    if of.len() == all {
                        diagnostic
                    } else {
                        diagnostic.help(format!("in {}", of.join(", ")))
                    }
                })
                .collect(),
        )
    }
}

/// Returns the values of the variant's axes by name.
fn collect_values(variant: &VariantSpec) -> BTreeMap<String, String> {
    variant.values.iter().cloned().collect()
}
