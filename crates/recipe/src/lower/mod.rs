//! Lowers the tree as written to a typed recipe; reports all problems at once.
//!
//! Each module reads one table. A table with errors becomes `None`, and the others are still read.

mod address;
mod clone_check;
mod component;
mod draft;
mod image;
mod lock;
mod machine;
mod media;
mod outputs;
mod policy;
mod proof;
mod signature;
mod step;
mod target;
mod trust;

pub use lock::read_lock_policy;

use crate::document::raw::RawRecipe;
use crate::document::value::{TomlData, TomlEntry, TomlValue};
use crate::fields::{FileRequirement, LoweringContext, TableReader};
use crate::keys::names;
use crate::mirrors::read_mirrors;
use crate::vars::VariableScope;
use crate::verbs::items::RecipeItems;
use crate::{
    CloneCheckSpec, ComponentSpec, ContainerImage, EffectiveValue, Recipe, RecipeStep,
    ResolvedVariable, file_name,
};
use winimg_base::diag::Diagnostic;
use winimg_base::text::{Located, Place};

/// Result of the lowering.
pub struct LoweredRecipe {
    /// The recipe; for one with errors its valid parts, so that planning can check these as well.
    pub draft: Recipe,
    /// True if the draft is complete.
    pub is_whole: bool,
    pub problems: Vec<Diagnostic>,
    /// The defaults that were used.
    pub defaults: Vec<EffectiveValue>,
}

pub fn lower(raw: &RawRecipe, scope: &VariableScope, vars: Vec<ResolvedVariable>) -> LoweredRecipe {
    let cx = LoweringContext::new(&raw.sources, scope, raw.incomplete);
    let (draft, is_whole) = lower_recipe(&cx, raw, vars);
    let (problems, defaults) = cx.into_parts();
    LoweredRecipe {
        draft,
        is_whole,
        problems,
        defaults,
    }
}

/// Returns the recipe, and true if it is complete.
fn lower_recipe(
    cx: &LoweringContext<'_>,
    raw: &RawRecipe,
    vars: Vec<ResolvedVariable>,
) -> (Recipe, bool) {
    let top = TableReader::from_table(cx, &raw.tree, "recipe", "the recipe".into(), &raw.start);
    top.ask();
    top.refuse_unknown();
    let name = name(&top);
    let description = top.read_text("description");
    misplaced_in_vars(&top);
    trust::judge(&top);
    let lock = lock::read_lock_policy(&top);
    let lock_is_whole = lock.is_some();
    cx.unsigned.replace(policy::read_unsigned(&top));
    let (mut media, media_is_whole) = media::read_media(&top);
    let machine = machine::read_machine(&top, media_is_whole.then_some(&media));
    let setup = media::setup(&top);
    if let Some(setup) = &setup {
        media::name_drivers(&mut media, setup);
    }
    let (mut components, names) = read_components(&top);
    let (images, image_names) = read_images(&top);
    let steps = read_steps(
        &top,
        RecipeItems {
            names: &names,
            components: &components,
            image_names: &image_names,
            images: &images,
            local_files: FileRequirement::MustExist,
        },
    );
    if let Some(machine) = &machine {
        check_network(cx, &steps, machine.network);
    }
    let outputs = outputs::read_outputs(&top, machine.as_ref());
    let (clone_checks, clone_checks_are_whole) = clone_checks(&top);
    let (targets, targets_are_whole) = target::read_targets(&top, outputs.as_ref());
    // A step with an error makes the draft incomplete.
    let wanted = match raw.tree.get("steps").map(|v| &v.data) {
        Some(TomlData::Array(items)) => items.len(),
        _ => 0,
    };
    let tables = [
        name.is_some(),
        media_is_whole,
        machine.is_some(),
        setup.is_some(),
        outputs.is_some(),
        targets_are_whole,
        components.len() == names.len(),
        images.len() == image_names.len(),
        steps.iter().filter(|step| is_written(step)).count() == wanted,
        clone_checks_are_whole,
        lock_is_whole,
    ];
    let is_whole = tables.iter().all(|whole| *whole);
    let used = cx.used.borrow();
    for component in &mut components {
        component.is_used = used.contains(&component.name.value);
    }
    let recipe = Recipe {
        name: name.unwrap_or_else(|| draft::make_text(&top.place)),
        description,
        digest: crate::effective::compute_digest(&raw.tree, &cx.key_files()),
        media,
        machine: machine.unwrap_or_else(draft::make_machine),
        setup: setup.unwrap_or_else(draft::setup),
        components,
        images,
        lock: lock.unwrap_or_default(),
        mirrors: read_mirrors(&top),
        steps,
        clone_checks,
        outputs: outputs.unwrap_or_default(),
        targets,
        written: target::collect_places(&raw.tree),
        vars,
        effective: Vec::new(),
        lock_requests: Vec::new(),
        undecided: cx.take_undecided(),
        files: Vec::new(),
        quotable: raw.sources.quotable(),
        unquotable_scripts: cx.unquotable_scripts.take(),
        is_whole,
    };
    (recipe, is_whole)
}

/// Maximum length of a recipe's name.
const LONGEST_NAME: usize = 100;

fn name(top: &TableReader<'_>) -> Option<Located<String>> {
    let name = top.read_string("name")?;
    let is_plain = name
        .value
        .chars()
        .all(|c| c.is_ascii_alphanumeric() || "._-".contains(c));
    if !is_plain || name.value.starts_with(['.', '-']) {
        let fact = format!("`name` cannot be \"{}\"", name.value);
        let help = "it becomes part of file names: use letters, digits, `.`, `-` and `_`, a letter \
                    or digit first";
        top.cx.error(fact, &name.place, "", help);
        return None;
    }
    if name.value.len() > LONGEST_NAME {
        let fact = format!("`name` has more than {LONGEST_NAME} characters");
        let help = "it becomes part of file names, which get extensions of their own";
        top.cx.error(fact, &name.place, "", help);
        return None;
    }
    if let Err((why, help)) = file_name(&name.value) {
        let fact = format!("`name` cannot be \"{}\": {why}", name.value);
        top.cx.error(fact, &name.place, "", &help);
        return None;
    }
    Some(name)
}

/// Returns the valid components, and the names of all.
fn read_components(top: &TableReader<'_>) -> (Vec<ComponentSpec>, Vec<String>) {
    let entries = top.map("components").iter();
    let names = entries.clone().map(|e| e.key.clone()).collect();
    let components = entries
        .filter(|entry| !is_misplaced(top.cx, entry))
        .filter_map(|entry| component::read_component(top.cx, entry))
        .collect();
    (components, names)
}

/// Returns the valid container images, and the names of all.
fn read_images(top: &TableReader<'_>) -> (Vec<ContainerImage>, Vec<String>) {
    let entries = top.map("images").iter();
    let names = entries.clone().map(|e| e.key.clone()).collect();
    let images = entries
        .filter(|entry| !is_misplaced(top.cx, entry))
        .filter_map(|entry| image::container_image(top.cx, entry))
        .collect();
    (images, names)
}

/// Complains about a top-level key of the recipe inside a table of tables.
fn is_misplaced(cx: &LoweringContext<'_>, entry: &TomlEntry) -> bool {
    let is_table = matches!(entry.value.data, TomlData::Table(_) | TomlData::Unknown);
    let Some(help) = names::of_the_top(&entry.key).filter(|_| !is_table) else {
        return false;
    };
    let fact = format!("`{}` is inside a table", entry.key);
    cx.error(fact, &entry.key_place, "", &help);
    true
}

/// Warns about a top-level key under `[vars]`, where it would silently become a variable.
fn misplaced_in_vars(top: &TableReader<'_>) {
    let vars = top.get("vars").and_then(TomlValue::as_table);
    for entry in vars.iter().flat_map(|table| &table.entries) {
        if let Some(help) =
            names::of_the_top(&entry.key).filter(|_| names::DECIDING.contains(&&*entry.key))
        {
            let fact = format!("`{}` under [vars] is only a variable", entry.key);
            let warning = Diagnostic::warning(fact).at(&entry.key_place, "");
            top.cx.report(warning.help(help));
        }
    }
}

fn read_steps(top: &TableReader<'_>, items: RecipeItems<'_>) -> Vec<RecipeStep> {
    let cx = top.cx;
    let tables = read_table_list(top, "steps", "each step begins with `[[steps]]`");
    let mut steps = Vec::new();
    let mut held = Vec::new();
    let mut named: Vec<(String, Place)> = Vec::new();
    let mut sealed = SealState::default();
    for item in tables.unwrap_or_default() {
        let (name, placed) = step::read_step(cx, item, items);
        if let Some(name) = name {
            check_unique(cx, name, &mut named);
        }
        let Some(step::PlacedStep { step, before_seal }) = placed else {
            continue;
        };
        if before_seal && !is_generalize(&step) {
            held.push(step);
            continue;
        }
        if step.skipped.is_none() {
            order(cx, &step, &mut sealed);
        }
        steps.push(step);
    }
    let seal = steps.pop_if(|step| is_generalize(step));
    let runs = held.iter().any(|step| step.skipped.is_none());
    steps.extend(seal.as_ref().filter(|_| runs).and_then(make_settle_step));
    steps.extend(held.into_iter().chain(seal));
    steps
}

/// Makes the step that lets Windows settle before the `before_seal` steps: a later restart would
/// undo some of their work, because services start again.
fn make_settle_step(seal: &RecipeStep) -> Option<RecipeStep> {
    let is_needed = seal.skipped.is_none();
    is_needed.then(|| RecipeStep {
        name: "Windows at rest".to_owned(),
        verb: crate::Verb::Settle,
        ..seal.clone()
    })
}

/// Returns the valid checks, and true if all are valid.
fn clone_checks(top: &TableReader<'_>) -> (Vec<CloneCheckSpec>, bool) {
    let Some(items) = read_table_list(top, "clone", "each check begins with `[[clone]]`") else {
        return (Vec::new(), false);
    };
    let checks: Vec<CloneCheckSpec> = items
        .iter()
        .filter_map(|item| clone_check::check(top, item))
        .collect();
    let is_whole = checks.len() == items.len();
    (checks, is_whole)
}

/// Reads a list of tables; `None` if the value is something else.
fn read_table_list<'c>(top: &TableReader<'c>, key: &str, help: &str) -> Option<&'c [TomlValue]> {
    match top.get(key) {
        None => Some(&[]),
        Some(TomlValue {
            data: TomlData::Array(items),
            ..
        }) => Some(items),
        Some(other) => {
            let fact = format!("`{key}` takes a list of tables, not {}", other.kind_name());
            top.cx.error(fact, &other.place, "", help);
            None
        }
    }
}

/// Returns true for a step that comes from a file.
fn is_written(step: &RecipeStep) -> bool {
    !matches!(step.verb, crate::Verb::Settle)
}

fn is_generalize(step: &RecipeStep) -> bool {
    matches!(step.verb, crate::Verb::Generalize(_))
}

fn check_unique(cx: &LoweringContext<'_>, name: Located<String>, named: &mut Vec<(String, Place)>) {
    if let Some((_, first)) = named.iter().find(|(n, _)| *n == name.value) {
        let fact = format!("two steps are named `{}`", name.value);
        let help = format!("the other one is at {first}; use unique names");
        cx.error(fact, &name.place, "", &help);
    }
    named.push((name.value, name.place));
}

/// Complains about active steps that use Windows Update without a network.
fn check_network(cx: &LoweringContext<'_>, steps: &[RecipeStep], network: bool) {
    for step in steps.iter().filter(|s| s.skipped.is_none() && !network) {
        if let crate::Verb::Update(crate::verbs::UpdateSpec::Online { place, .. }) = &step.verb {
            let fact = format!(
                "step `{}` uses Windows Update, but the guest has no network",
                step.name
            );
            let help = "write `network = true` under `[machine]`, or provide the packages: \
                        `update = { path = \"updates/\" }`";
            cx.error(fact, place, "", help);
        }
    }
}

/// Place of the step that generalizes the image, and if a later step was reported.
#[derive(Default)]
struct SealState {
    at: Option<Place>,
    reported: bool,
}

/// Complains about steps after `generalize`.
fn order(cx: &LoweringContext<'_>, step: &RecipeStep, sealed: &mut SealState) {
    match &sealed.at {
        Some(first) if is_generalize(step) => {
            let help = format!("the first is at {first}");
            cx.error("`generalize` is used twice", &step.place, "", &help);
        }
        Some(first) if !sealed.reported => {
            let fact = format!("step `{}` comes after `generalize`", step.name);
            let help = format!(
                "`generalize` at {first} must be the last step; steps of included packs come \
                 before the recipe's own"
            );
            cx.error(fact, &step.place, "", &help);
            sealed.reported = true;
        }
        None if is_generalize(step) => sealed.at = Some(step.place.clone()),
        _ => {}
    }
}
