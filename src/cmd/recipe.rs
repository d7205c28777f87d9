//! From the command line's recipe arguments to a `Recipe`, with every complaint shown at once.

use std::path::{Path, PathBuf};

use tracing::debug;

use crate::answer;
use crate::cli::{LockArgs, NetworkArgs, RecipeArgs};
use winimg_base::diag::{Diagnostic, Diagnostics, Severity};
use winimg_base::error::{Error, Kind, Result};
use winimg_base::event::Event;
use winimg_machine::vm::{self, Platform};
use winimg_recipe::lock::{self, Comparison, Lock, LockFile};
use winimg_recipe::plan::{self, Plan};
use winimg_recipe::recipe::{self, Recipe, SealAnswer, Verb};
use winimg_supply::fetch::FetchOptions;
use winimg_supply::store::Store;
use winimg_trust::Signer;

use super::source::{Source, source};
use super::{Context, inputs, lock_rule};

/// A valid recipe, with what was decided about it.
pub struct Opened {
    pub recipe: Recipe,
    pub plan: Plan,
    /// The lock that was laid into the recipe.
    pub lock: Option<LockFile>,
    /// Who signed it, where recipe or host ask for that.
    pub lock_signers: Vec<Signer>,
    /// Where that lock is, or one that was passed over.
    lock_path: Option<PathBuf>,
    /// What was odd: for the manifest.
    pub remarks: Vec<String>,
    /// It came with all its inputs, so no network is asked.
    pub bundled: bool,
    pub source: Source,
}

/// What a command does with the recipe decides what is looked at beside the recipe's own files.
#[derive(Clone, Copy)]
pub enum Look {
    /// It explains the recipe: nothing is looked at.
    Explain,
    /// It fetches the inputs: nothing is looked at, as each input is asked for by itself.
    Fetch,
    /// It shows what a build would lack: a local file that is not here is a warning, as the build may be another machine's.
    /// Without a platform, what would be an error on QEMU is a warning, too.
    Files(Option<Platform>),
    /// It builds: what is lacking is an error.
    Build(Platform),
}

impl Look {
    /// Whether what is not decided yet is an error. For what only looks at a recipe it is none.
    fn refuses_undecided(self) -> bool {
        match self {
            Self::Explain | Self::Files(_) => false,
            Self::Fetch | Self::Build(_) => true,
        }
    }
}

/// Reads the recipe with its lock and makes its plan. Complaints are shown as they are; any error among them ends with
/// status 2.
pub fn open(args: &RecipeArgs, lock: &LockArgs, look: Look, context: &Context) -> Result<Opened> {
    let source = source(args, context)?;
    let bundled = source.lock.is_some();
    if bundled && (lock.lock.is_some() || lock.no_lock) {
        return Err(
            Error::new(Kind::Recipe, "a bundle is built with its own lock")
                .at(args.recipe.display())
                .cure("leave --lock and --no-lock away"),
        );
    }
    let read = read(&source, &args.recipe, lock, look, context);
    let (recipe, plan) = report(read.planned, read.diagnostics, context)?;
    let lock_rule = lock_rule::rule(&recipe, context);
    let lock_signers = match &read.lock {
        Some(file) => lock_rule::judge(&lock_rule, file)?,
        // What only explains a recipe goes before its first lock.
        None if look.refuses_undecided() => {
            lock_rule::needed(&lock_rule, lock, &args.recipe)?;
            Vec::new()
        }
        None => Vec::new(),
    };
    Ok(Opened {
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

/// A recipe with its lock and its plan, and every complaint about them.
pub struct Read {
    /// There is none where a complaint is an error, and there may be one.
    pub planned: Option<(Recipe, Plan)>,
    pub diagnostics: Diagnostics,
    /// The lock that was laid into the recipe.
    pub lock: Option<LockFile>,
    lock_path: Option<PathBuf>,
    remarks: Vec<String>,
}

/// Reads without showing what is wrong. `named`: the recipe as the user called it.
pub fn read(source: &Source, named: &Path, lock: &LockArgs, look: Look, context: &Context) -> Read {
    let bundled = source.lock.is_some();
    debug!(path = %source.path.display(), bundled, "the recipe is read");
    let (recipe, mut diagnostics) = plan::read(&source.path, &source.options);
    let lock_path = lock_path(lock, source);
    let mut remarks = Vec::new();
    let mut laid = None;
    let planned = recipe.and_then(|mut recipe| {
        match &lock_path {
            // The lock beside the recipe is that of no variant.
            Some(_) if lock.no_lock && lock.variant_of.is_some() => {}
            Some(path) if lock.no_lock => {
                let remark = format!("{} was passed over: --no-lock", path.display());
                context.sink.warn(remark.clone());
                remarks.push(remark);
            }
            Some(path) => laid = lay(path, &mut recipe, bundled, &mut diagnostics),
            None => {}
        }
        // A bundle's lock is not written again.
        if let Some(file) = laid.as_ref().filter(|_| !bundled)
            && let Some(notice) = file.notice(&named.display().to_string())
        {
            context.sink.note(notice);
        }
        let plan = planned(&recipe, &mut diagnostics)?;
        judge_host(&recipe, &plan, look, &mut diagnostics, context);
        if look.refuses_undecided() {
            diagnostics.0.extend(open_questions(&recipe).0);
        }
        Some((recipe, plan))
    });
    Read {
        planned,
        diagnostics,
        lock: laid,
        lock_path,
        remarks,
    }
}

/// The lock that the command line names, the bundle's, or the one beside the recipe's file.
fn lock_path(lock: &LockArgs, source: &Source) -> Option<PathBuf> {
    let named = lock.lock.as_ref().or(source.lock.as_ref()).cloned();
    named.or_else(|| {
        let beside = Lock::beside(&source.path);
        let is_there = source.options.piped.is_none() && beside.is_file();
        is_there.then_some(beside)
    })
}

/// The lock, laid in; complaints about it join the others.
fn lay(
    path: &Path,
    recipe: &mut Recipe,
    bundled: bool,
    diagnostics: &mut Diagnostics,
) -> Option<LockFile> {
    debug!(path = %path.display(), "the lock is used");
    let comparison = match bundled {
        true => Comparison::Shown,
        false => Comparison::Whole,
    };
    match LockFile::read(path) {
        Ok(file) => {
            diagnostics.0.extend(lock::lay(recipe, &file, comparison).0);
            Some(file)
        }
        Err(found) => {
            diagnostics.0.extend(found.0);
            None
        }
    }
}

/// What the recipe leaves open, as complaints.
fn open_questions(recipe: &Recipe) -> Diagnostics {
    Diagnostics(recipe::complaints(&recipe.undecided, &Default::default()))
}

/// Reads the recipe as it is, whatever its lock says.
pub fn unlocked(source: &Source, context: &Context) -> Result<Recipe> {
    let recipe = undecided(source, context)?;
    let open = open_questions(&recipe);
    let decided = (!open.has_errors()).then_some(recipe);
    report(decided, open, context)
}

/// The same, with what is not decided yet.
pub fn undecided(source: &Source, context: &Context) -> Result<Recipe> {
    let (recipe, mut diagnostics) = plan::read(&source.path, &source.options);
    let planned = recipe.and_then(|recipe| {
        planned(&recipe, &mut diagnostics)?;
        Some(recipe)
    });
    report(planned, diagnostics, context)
}

/// The plan, if there is one; what is wrong with it and with the answer files.
fn planned(recipe: &Recipe, diagnostics: &mut Diagnostics) -> Option<Plan> {
    match plan::make(recipe) {
        Ok(plan) => {
            diagnostics.0.extend(plan.warnings.0.iter().cloned());
            judge_template(recipe, diagnostics);
            judge_seal(recipe, &plan, diagnostics);
            Some(plan)
        }
        Err(more) => {
            diagnostics.0.extend(more.0);
            None
        }
    }
}

/// What a build would lack, as far as it was asked to look. A recipe that is refused anyway is not judged: without its lock
/// files seem to be missing that a bundle brings.
fn judge_host(
    recipe: &Recipe,
    plan: &Plan,
    look: Look,
    diagnostics: &mut Diagnostics,
    context: &Context,
) {
    let (platform, here) = match look {
        Look::Explain | Look::Fetch => return,
        Look::Files(platform) => (platform, Severity::Warning),
        Look::Build(platform) => (Some(platform), Severity::Error),
    };
    diagnostics.0.extend(judge_contract(recipe, platform).0);
    if diagnostics.has_errors() {
        return;
    }
    let agent = match platform {
        Some(Platform::HyperV) => None,
        Some(Platform::Qemu) => vm::lacks_agent(recipe),
        None => vm::lacks_agent(recipe).map(|d| Diagnostic {
            severity: Severity::Warning,
            ..d
        }),
    };
    diagnostics.0.extend(agent);
    if matches!(look, Look::Files(_)) {
        diagnostics.0.extend(plan::unused(recipe));
        let today = jiff::Timestamp::now().to_zoned(jiff::tz::TimeZone::UTC);
        diagnostics.0.extend(plan::aged(recipe, today.date()));
    }
    let absent = inputs::absent(recipe, plan, platform, context).into_iter();
    diagnostics.0.extend(absent.map(|d| Diagnostic {
        severity: here,
        ..d
    }));
}

/// Shows every complaint; an error if there is one among them.
pub fn report<T>(done: Option<T>, diagnostics: Diagnostics, context: &Context) -> Result<T> {
    let summary = diagnostics.summary();
    let sound = !diagnostics.has_errors();
    if !diagnostics.0.is_empty() {
        context.sink.emit(&Event::diagnostics(&diagnostics));
    }
    match done {
        Some(done) if sound => Ok(done),
        _ => Err(Error::new(Kind::Recipe, summary).reported()),
    }
}

/// From now on nothing that this lock names is pruned.
pub fn remember_lock(store: &Store, path: &Path, lock: &Lock) -> Result<()> {
    let digests = lock.digests().map(|(_, digest)| digest.clone());
    store.remember_lock(path, digests.collect())
}

impl Opened {
    pub fn remember_lock(&self, store: &Store) -> Result<()> {
        match (&self.lock_path, &self.lock) {
            (Some(path), Some(file)) => remember_lock(store, path, &file.lock),
            _ => Ok(()),
        }
    }

    /// Refuses a lock that is older than one that was used here, or says so. `output` is the folder of earlier builds.
    pub fn check_age(
        &self,
        store: &Store,
        output: Option<&Path>,
        allowed: bool,
        context: &Context,
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

    /// From now on an older lock is refused.
    pub fn record_use(&self, store: &Store) -> Result<()> {
        match &self.lock {
            Some(file) => store.record_built_with(&file.lock.record()),
            None => Ok(()),
        }
    }

    pub fn fetch_options(&self, network: &NetworkArgs, context: &Context) -> FetchOptions {
        context.fetch_options(network.offline || self.bundled, &self.recipe)
    }
}

/// What is wrong with the team's own answer file as far as it is known before its medium is read.
fn judge_template(recipe: &Recipe, diagnostics: &mut Diagnostics) {
    let Some(path) = &recipe.setup.answer_file else {
        return;
    };
    let found =
        answer::read_template(path).and_then(|template| answer::check_template(&template, recipe));
    match found {
        Ok(found) => diagnostics.0.extend(as_asked(found, recipe).0),
        Err(error) => diagnostics.push(Diagnostic::error(error.to_string()).at(&path.place, "")),
    }
}

/// Judges what a build needs of the recipe's own answer file. Without a platform it is only warned
/// of. One that cannot be read or rendered has a complaint already.
fn judge_contract(recipe: &Recipe, platform: Option<Platform>) -> Diagnostics {
    let own = recipe.setup.answer_file.as_ref();
    let template = own.and_then(|path| answer::read_template(path).ok());
    let found = template.and_then(|t| answer::check_contract(&t, recipe, platform).ok());
    let mut found = Diagnostics(found.unwrap_or_default());
    if platform.is_none() {
        let all = found.0.iter_mut();
        all.for_each(|d| d.severity = Severity::Warning);
    }
    as_asked(found, recipe)
}

/// Makes complaints about an answer file warnings where the recipe has `lint = "warn"`.
fn as_asked(mut found: Diagnostics, recipe: &Recipe) -> Diagnostics {
    if recipe.setup.lint_is_advice {
        let all = found.0.iter_mut();
        all.for_each(|d| d.severity = Severity::Warning);
    }
    found
}

/// What is wrong with the answer file that sysprep is given, as the plan renders it.
fn judge_seal(recipe: &Recipe, plan: &Plan, diagnostics: &mut Diagnostics) {
    for (step, planned) in recipe.steps.iter().zip(&plan.steps) {
        let Verb::Generalize {
            answer_file: SealAnswer::Own(own),
            ..
        } = &step.verb
        else {
            continue;
        };
        if let Some(text) = planned.answer_file(&plan.payload) {
            let name = own.value.display().to_string();
            let found = answer::lint_clone(&name, text);
            let found = if recipe.may_quote(&own.value) {
                found
            } else {
                found.unquotable()
            };
            diagnostics.0.extend(as_asked(found, recipe).0);
        }
    }
}
