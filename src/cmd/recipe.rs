//! Opens a `Recipe` with its lock and plan from the command line's arguments, and reports all
//! diagnostics at once.

use std::path::{Path, PathBuf};

use tracing::debug;

use crate::answer;
use crate::cli::{LockFileArgs, NetworkArgs, RecipeArgs};
use winimg_base::diag::{Diagnostic, Diagnostics, Severity};
use winimg_base::error::{Error, Kind, Result};
use winimg_base::event::Event;
use winimg_machine::vm::HypervisorKind;
use winimg_recipe::lock::{self, LockComparison, LockFile, RecipeLock};
use winimg_recipe::plan::{self, BuildPlan};
use winimg_recipe::verbs::{GeneralizeSpec, SealAnswer};
use winimg_recipe::{self as recipe, Recipe, Verb};
use winimg_supply::fetch::FetchOptions;
use winimg_supply::store::Store;
use winimg_trust::Signer;

use super::source::{RecipeSource, open_source};
use super::{CommandContext, inputs, lock_rule};

/// A valid recipe with its lock and plan.
pub struct OpenedRecipe {
    pub recipe: Recipe,
    pub plan: BuildPlan,
    /// The lock that was applied to the recipe.
    pub lock: Option<LockFile>,
    /// Its signers, if the recipe or this host require signatures.
    pub lock_signers: Vec<Signer>,
    /// Path of the lock, even if it was ignored.
    lock_path: Option<PathBuf>,
    /// Warnings for the manifest.
    pub remarks: Vec<String>,
    /// True for a bundle: it contains all inputs, so the network is not used.
    pub bundled: bool,
    pub source: RecipeSource,
}

/// Purpose of opening a recipe, which decides how much of the host is checked.
#[derive(Clone, Copy)]
pub enum RecipePurpose {
    /// Explain the recipe: check nothing.
    Explain,
    /// Fetch the inputs: check nothing here, as fetching checks each input.
    Fetch,
    /// Preview a build: a missing local file is a warning, as the build may run on another host.
    /// Without a platform, errors that only concern some of them are warnings, too.
    Files(Option<HypervisorKind>),
    /// Build: a missing requirement is an error.
    Build(HypervisorKind),
}

impl RecipePurpose {
    /// True if undecided values are errors. They are not for commands that only show a recipe.
    fn must_be_decided(self) -> bool {
        match self {
            Self::Explain | Self::Files(_) => false,
            Self::Fetch | Self::Build(_) => true,
        }
    }
}

/// Reads the recipe with its lock and makes its plan. Reports all diagnostics; fails with status 2
/// if one is an error.
pub fn open(
    args: &RecipeArgs,
    lock: &LockFileArgs,
    look: RecipePurpose,
    context: &CommandContext,
) -> Result<OpenedRecipe> {
    let source = open_source(args, context)?;
    let bundled = source.lock.is_some();
    if bundled && (lock.lock.is_some() || lock.no_lock) {
        return Err(
            Error::new(Kind::Recipe, "a bundle always uses its own lock")
                .at(args.recipe.display())
                .cure("omit --lock and --no-lock"),
        );
    }
    let read = read(&source, &args.recipe, lock, look, context);
    let (recipe, plan) = report(read.planned, read.diagnostics, context)?;
    let lock_rule = lock_rule::merge_rules(&recipe, context);
    let lock_signers = match &read.lock {
        Some(file) => lock_rule::check_signatures(&lock_rule, file)?,
        // Commands that only show a recipe work before it is locked.
        None if look.must_be_decided() => {
            lock_rule::require_lock(&lock_rule, lock, &args.recipe)?;
            Vec::new()
        }
        None => Vec::new(),
    };
    Ok(OpenedRecipe {
        recipe,
        plan,
        lock: read.lock,
        lock_signers,
        lock_path: read.lock_path,
        remarks: read.remarks,
        bundled,
        source,
    })
}

/// A recipe with its lock and plan, and all diagnostics.
pub struct CheckedRecipe {
    /// May be `None` if a diagnostic is an error.
    pub planned: Option<(Recipe, BuildPlan)>,
    pub diagnostics: Diagnostics,
    /// The lock that was applied to the recipe.
    pub lock: Option<LockFile>,
    lock_path: Option<PathBuf>,
    remarks: Vec<String>,
}

/// Reads without reporting the diagnostics. `named` is the recipe's path as the user gave it.
pub fn read(
    source: &RecipeSource,
    named: &Path,
    lock: &LockFileArgs,
    look: RecipePurpose,
    context: &CommandContext,
) -> CheckedRecipe {
    let bundled = source.lock.is_some();
    debug!(path = %source.path.display(), bundled, "the recipe is read");
    let (recipe, mut diagnostics) = plan::read(&source.path, &source.options);
    let lock_path = find_lock_path(lock, source);
    let mut remarks = Vec::new();
    let mut laid = None;
    let planned = recipe.and_then(|mut recipe| {
        match &lock_path {
            // Variants do not use the lock beside the recipe.
            Some(_) if lock.no_lock && lock.variant_of.is_some() => {}
            Some(path) if lock.no_lock => {
                let remark = format!("{} is ignored: --no-lock", path.display());
                context.sink.warn(remark.clone());
                remarks.push(remark);
            }
            Some(path) => laid = apply_lock(path, &mut recipe, bundled, &mut diagnostics),
            None => {}
        }
        // A bundle's lock cannot be upgraded.
        if let Some(file) = laid.as_ref().filter(|_| !bundled)
            && let Some(notice) = file.describe_upgrade(&named.display().to_string())
        {
            context.sink.note(notice);
        }
        let plan = make_plan(&recipe, &mut diagnostics)?;
        check_host(&recipe, &plan, look, &mut diagnostics, context);
        if look.must_be_decided() {
            diagnostics.0.extend(collect_undecided(&recipe).0);
        }
        Some((recipe, plan))
    });
    CheckedRecipe {
        planned,
        diagnostics,
        lock: laid,
        lock_path,
        remarks,
    }
}

/// Returns the path of the lock from the command line, of the bundle, or beside the recipe.
fn find_lock_path(lock: &LockFileArgs, source: &RecipeSource) -> Option<PathBuf> {
    lock.lock
        .as_ref()
        .or(source.lock.as_ref())
        .cloned()
        .or_else(|| {
            let beside = RecipeLock::path_for(&source.path);
            let is_there = source.options.piped.is_none() && beside.is_file();
            is_there.then_some(beside)
        })
}

/// Reads the lock and applies it to the recipe; adds its diagnostics to the others.
fn apply_lock(
    path: &Path,
    recipe: &mut Recipe,
    bundled: bool,
    diagnostics: &mut Diagnostics,
) -> Option<LockFile> {
    debug!(path = %path.display(), "the lock is used");
    let comparison = if bundled {
        LockComparison::WithoutQueries
    } else {
        LockComparison::Full
    };
    match LockFile::read(path) {
        Ok(file) => {
            diagnostics
                .0
                .extend(lock::apply_lock(recipe, &file, comparison).0);
            Some(file)
        }
        Err(found) => {
            diagnostics.0.extend(found.0);
            None
        }
    }
}

/// Returns a diagnostic for each undecided value.
fn collect_undecided(recipe: &Recipe) -> Diagnostics {
    Diagnostics(recipe::to_errors(&recipe.undecided, &Default::default()))
}

/// Reads the recipe without its lock; undecided values are errors.
pub fn read_unlocked(source: &RecipeSource, context: &CommandContext) -> Result<Recipe> {
    let recipe = read_undecided(source, context)?;
    let open = collect_undecided(&recipe);
    let decided = (!open.has_errors()).then_some(recipe);
    report(decided, open, context)
}

/// Reads the recipe without its lock, and accepts undecided values.
pub fn read_undecided(source: &RecipeSource, context: &CommandContext) -> Result<Recipe> {
    let (recipe, mut diagnostics) = plan::read(&source.path, &source.options);
    let planned = recipe.and_then(|recipe| {
        make_plan(&recipe, &mut diagnostics)?;
        Some(recipe)
    });
    report(planned, diagnostics, context)
}

/// Makes the plan, and checks it and the answer files.
fn make_plan(recipe: &Recipe, diagnostics: &mut Diagnostics) -> Option<BuildPlan> {
    match plan::make(recipe) {
        Ok(plan) => {
            diagnostics.0.extend(plan.warnings.0.iter().cloned());
            check_template(recipe, diagnostics);
            check_seal(recipe, &plan, diagnostics);
            Some(plan)
        }
        Err(more) => {
            diagnostics.0.extend(more.0);
            None
        }
    }
}

/// Checks requirements of a build on this host. Skips a recipe with errors: without its lock, files
/// that a bundle brings would appear to be missing.
fn check_host(
    recipe: &Recipe,
    plan: &BuildPlan,
    look: RecipePurpose,
    diagnostics: &mut Diagnostics,
    context: &CommandContext,
) {
    let (platform, here) = match look {
        RecipePurpose::Explain | RecipePurpose::Fetch => return,
        RecipePurpose::Files(platform) => (platform, Severity::Warning),
        RecipePurpose::Build(platform) => (Some(platform), Severity::Error),
    };
    diagnostics.0.extend(check_contract(recipe, platform).0);
    if diagnostics.has_errors() {
        return;
    }
    match platform {
        Some(platform) => diagnostics
            .0
            .extend((platform.spec().find_missing_agent)(recipe)),
        None => diagnostics.0.extend(
            HypervisorKind::ALL
                .iter()
                .filter_map(|platform| (platform.spec().find_missing_agent)(recipe))
                .map(|d| Diagnostic {
                    severity: Severity::Warning,
                    ..d
                }),
        ),
    }
    if matches!(look, RecipePurpose::Files(_)) {
        diagnostics.0.extend(plan::warn_unused(recipe));
        let today = jiff::Timestamp::now().to_zoned(jiff::tz::TimeZone::UTC);
        diagnostics
            .0
            .extend(plan::warn_old_updates(recipe, today.date()));
    }
    diagnostics.0.extend(
        inputs::check_local_files(recipe, plan, platform, context)
            .into_iter()
            .map(|d| Diagnostic {
                severity: here,
                ..d
            }),
    );
}

/// Reports the diagnostics; fails if one of them is an error.
pub fn report<T>(done: Option<T>, diagnostics: Diagnostics, context: &CommandContext) -> Result<T> {
    let summary = diagnostics.summarize();
    let sound = !diagnostics.has_errors();
    if !diagnostics.0.is_empty() {
        context.sink.emit(&Event::diagnostics(&diagnostics));
    }
    match done {
        Some(done) if sound => Ok(done),
        _ => Err(Error::new(Kind::Recipe, summary).mark_reported()),
    }
}

/// Protects the files that this lock names from pruning.
pub fn record_lock(store: &Store, path: &Path, lock: &RecipeLock) -> Result<()> {
    let digests = lock.digests().map(|(_, digest)| digest.clone());
    store.remember_lock(path, digests.collect())
}

impl OpenedRecipe {
    pub fn record_lock(&self, store: &Store) -> Result<()> {
        match (&self.lock_path, &self.lock) {
            (Some(path), Some(file)) => record_lock(store, path, &file.lock),
            _ => Ok(()),
        }
    }

    /// Rejects a lock older than one used here before, or warns if `allowed`. `output` is the
    /// folder of earlier builds.
    pub fn check_age(
        &self,
        store: &Store,
        output: Option<&Path>,
        allowed: bool,
        context: &CommandContext,
    ) -> Result<Option<String>> {
        let Some(file) = &self.lock else {
            return Ok(None);
        };
        let warning = lock_rule::check_age(file, store, output, allowed)?;
        if let Some(warning) = &warning {
            context.sink.warn(warning.clone());
        }
        Ok(warning)
    }

    /// Records the use of this lock; older locks are rejected from now on.
    pub fn record_use(&self, store: &Store) -> Result<()> {
        match &self.lock {
            Some(file) => store.record_built_with(&file.lock.to_record()),
            None => Ok(()),
        }
    }

    pub fn fetch_options(&self, network: &NetworkArgs, context: &CommandContext) -> FetchOptions {
        context.fetch_options(network.offline || self.bundled, &self.recipe)
    }
}

/// Checks the recipe's answer file template as far as possible without the medium.
fn check_template(recipe: &Recipe, diagnostics: &mut Diagnostics) {
    let Some(path) = &recipe.setup.answer_file else {
        return;
    };
    let found =
        answer::read_template(path).and_then(|template| answer::check_template(&template, recipe));
    match found {
        Ok(found) => diagnostics.0.extend(apply_lint_level(found, recipe).0),
        Err(error) => diagnostics.push(Diagnostic::error(error.to_string()).at(&path.place, "")),
    }
}

/// Checks that the recipe's answer file has what a build needs. Without a platform the findings are
/// warnings. An unreadable or invalid file is reported elsewhere.
fn check_contract(recipe: &Recipe, platform: Option<HypervisorKind>) -> Diagnostics {
    let found = recipe
        .setup
        .answer_file
        .as_ref()
        .and_then(|path| answer::read_template(path).ok())
        .and_then(|template| answer::check_contract(&template, recipe, platform).ok());
    let mut found = Diagnostics(found.unwrap_or_default());
    if platform.is_none() {
        for diagnostic in &mut found.0 {
            diagnostic.severity = Severity::Warning;
        }
    }
    apply_lint_level(found, recipe)
}

/// Turns diagnostics about an answer file into warnings if the recipe has `lint = "warn"`.
fn apply_lint_level(mut found: Diagnostics, recipe: &Recipe) -> Diagnostics {
    if recipe.setup.lint_is_advice {
        for diagnostic in &mut found.0 {
            diagnostic.severity = Severity::Warning;
        }
    }
    found
}

/// Checks sysprep's answer files as the plan renders them.
fn check_seal(recipe: &Recipe, plan: &BuildPlan, diagnostics: &mut Diagnostics) {
    for (step, planned) in recipe.steps.iter().zip(&plan.steps) {
        let Verb::Generalize(GeneralizeSpec {
            answer_file: SealAnswer::Own(own),
            ..
        }) = &step.verb
        else {
            continue;
        };
        if let Some(text) = planned.answer_file(&plan.payload) {
            let name = own.value.display().to_string();
            let found = answer::lint_clone(&name, text);
            let found = if recipe.may_quote(&own.value) {
                found
            } else {
                found.hide_sources()
            };
            diagnostics.0.extend(apply_lint_level(found, recipe).0);
        }
    }
}
