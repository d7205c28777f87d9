//! From the tree as written to the recipe as meant; every complaint at once.
//!
//! Each part reads one table. A part that complained gives `None` and the others go on.

mod account;
mod address;
mod clone;
mod component;
mod draft;
mod execution;
mod files;
mod firewall;
mod image;
mod known;
mod lock;
mod machine;
mod media;
mod outputs;
mod policy;
mod registry;
mod schedule;
mod security;
mod signature;
mod step;
mod system;
mod target;
mod trust;
mod update;
mod windows;

pub use lock::rule as lock_rule;

use super::fields::{Context, Fields};
use super::mirrors::mirrors;
use super::raw::Raw;
use super::value::{Data, Entry, Value};
use super::vars::Scope;
use super::words;
use super::{
    CloneCheck, Component, ContainerImage, Effective, Recipe, Step, Undecided, Var, file_name,
};
use winimg_base::diag::Diagnostic;
use winimg_base::text::{Located, Place};

/// What became of the tree.
pub struct Lowered {
    /// The recipe; of one with mistakes what is right, for planning to look at as well.
    pub draft: Recipe,
    /// Nothing is left out of the draft.
    pub is_whole: bool,
    pub problems: Vec<Diagnostic>,
    /// The defaults that were taken.
    pub defaults: Vec<Effective>,
    /// The recipe's; those of a recipe with mistakes as well.
    pub undecided: Vec<Undecided>,
}

pub fn lower(raw: &Raw, scope: &Scope, vars: Vec<Var>) -> Lowered {
    let cx = Context::new(&raw.sources, scope, raw.incomplete);
    let (draft, is_whole) = recipe(&cx, raw, vars);
    let (problems, defaults, undecided) = cx.into_parts();
    Lowered {
        draft,
        is_whole,
        problems,
        defaults,
        undecided,
    }
}

/// The recipe, and whether all of it is there.
fn recipe(cx: &Context<'_>, raw: &Raw, vars: Vec<Var>) -> (Recipe, bool) {
    let top = Fields::of(cx, &raw.tree, "recipe", "the recipe".into(), &raw.start);
    top.ask();
    top.refuse_unknown();
    let name = name(&top);
    let description = top.text("description");
    misplaced_in_vars(&top);
    trust::judge(&top);
    let lock = lock::rule(&top);
    let lock_is_whole = lock.is_some();
    cx.unsigned.replace(policy::unsigned(&top));
    let (mut media, media_is_whole) = media::media(&top);
    let machine = machine::machine(&top, media_is_whole.then_some(&media));
    let setup = media::setup(&top);
    if let Some(setup) = &setup {
        media::name_drivers(&mut media, setup);
    }
    let (mut components, names) = components(&top);
    let (images, image_names) = images(&top);
    let steps = steps(
        &top,
        known::Known {
            names: &names,
            components: &components,
            image_names: &image_names,
            images: &images,
        },
    );
    if let Some(machine) = &machine {
        network(cx, &steps, machine.network);
    }
    let outputs = outputs::outputs(&top, machine.as_ref());
    let (clone_checks, clone_checks_are_whole) = clone_checks(&top);
    let (targets, targets_are_whole) = target::targets(&top, outputs.as_ref());
    // What was complained about must not go missing silently.
    let wanted = match raw.tree.get("steps").map(|v| &v.data) {
        Some(Data::Array(items)) => items.len(),
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
        name: name.unwrap_or_else(|| draft::text(&top.place)),
        description,
        digest: super::effective::digest(&raw.tree, &cx.key_files()),
        media,
        machine: machine.unwrap_or_else(draft::machine),
        setup: setup.unwrap_or_else(draft::setup),
        components,
        images,
        lock: lock.unwrap_or_default(),
        mirrors: mirrors(&top),
        steps,
        clone_checks,
        outputs: outputs.unwrap_or_default(),
        targets,
        written: target::written(&raw.tree),
        vars,
        effective: Vec::new(),
        asks: Vec::new(),
        undecided: cx.all_undecided(),
        files: Vec::new(),
        quotable: raw.sources.quotable(),
        unquotable_scripts: cx.unquotable_scripts.take(),
        is_whole,
    };
    (recipe, is_whole)
}

/// Letters of a recipe's name.
const LONGEST_NAME: usize = 100;

fn name(top: &Fields<'_>) -> Option<Located<String>> {
    let name = top.string("name")?;
    let plain = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
    if !name.value.chars().all(plain) || name.value.starts_with(['.', '-']) {
        let fact = format!("`name` cannot be \"{}\"", name.value);
        let help = "it names a folder and files: letters, digits, `.`, `-` and `_`, a letter or digit first";
        top.cx.error(fact, &name.place, "", help);
        return None;
    }
    if name.value.len() > LONGEST_NAME {
        let fact = format!("`name` has more than {LONGEST_NAME} characters");
        let help = "it names a folder and files, which get endings of their own";
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

/// The components that are right, and the names of all.
fn components(top: &Fields<'_>) -> (Vec<Component>, Vec<String>) {
    let entries = top.map("components").iter();
    let names = entries.clone().map(|e| e.key.clone()).collect();
    let right = entries.filter(|entry| !misplaced(top.cx, entry));
    let components = right.filter_map(|entry| component::component(top.cx, entry));
    (components.collect(), names)
}

/// The container images that are right, and the names of all.
fn images(top: &Fields<'_>) -> (Vec<ContainerImage>, Vec<String>) {
    let entries = top.map("images").iter();
    let names = entries.clone().map(|e| e.key.clone()).collect();
    let right = entries.filter(|entry| !misplaced(top.cx, entry));
    let images = right.filter_map(|entry| image::container_image(top.cx, entry));
    (images.collect(), names)
}

/// Complains about a key of the recipe itself that stands in a table of tables.
fn misplaced(cx: &Context<'_>, entry: &Entry) -> bool {
    let is_table = matches!(entry.value.data, Data::Table(_) | Data::Unknown);
    let Some(help) = words::of_the_top(&entry.key).filter(|_| !is_table) else {
        return false;
    };
    let fact = format!("`{}` stands in a table", entry.key);
    cx.error(fact, &entry.key_place, "", &help);
    true
}

/// A key of the recipe itself becomes a variable there, and nothing else would say so.
fn misplaced_in_vars(top: &Fields<'_>) {
    let vars = top.get("vars").and_then(Value::as_table);
    for entry in vars.iter().flat_map(|table| &table.entries) {
        if let Some(help) =
            words::of_the_top(&entry.key).filter(|_| DECIDING.contains(&&*entry.key))
        {
            let fact = format!("`{}` under [vars] is only a variable", entry.key);
            let warning = Diagnostic::warning(fact).at(&entry.key_place, "");
            top.cx.problem(warning.help(help));
        }
    }
}

/// Of the keys of the recipe itself, those that nobody calls a variable.
pub const DECIDING: &[&str] = &["policy", "include", "schema"];

fn steps(top: &Fields<'_>, known: known::Known<'_>) -> Vec<Step> {
    let cx = top.cx;
    let items = tables(top, "steps", "each step begins with `[[steps]]`");
    let mut steps = Vec::new();
    let mut held = Vec::new();
    let mut named: Vec<(String, Place)> = Vec::new();
    let mut sealed = Sealed::default();
    for item in items.unwrap_or_default() {
        let (name, placed) = step::step(cx, item, known);
        if let Some(name) = name {
            unique(cx, name, &mut named);
        }
        let Some(step::Placed { step, before_seal }) = placed else {
            continue;
        };
        if before_seal && !generalizes(&step) {
            held.push(step);
            continue;
        }
        if step.skipped.is_none() {
            order(cx, &step, &mut sealed);
        }
        steps.push(step);
    }
    let seal = steps.pop_if(|step| generalizes(step));
    let runs = held.iter().any(|step| step.skipped.is_none());
    steps.extend(seal.as_ref().filter(|_| runs).and_then(rest));
    steps.extend(held.into_iter().chain(seal));
    steps
}

/// Before what is done right before the seal: a restart after it would undo some of that, as services start again.
fn rest(seal: &Step) -> Option<Step> {
    let is_needed = seal.skipped.is_none();
    is_needed.then(|| Step {
        name: "Windows at rest".to_owned(),
        verb: super::Verb::Settle,
        ..seal.clone()
    })
}

/// The checks that are right, and whether all are.
fn clone_checks(top: &Fields<'_>) -> (Vec<CloneCheck>, bool) {
    let Some(items) = tables(top, "clone", "each check begins with `[[clone]]`") else {
        return (Vec::new(), false);
    };
    let checks = items.iter().filter_map(|item| clone::check(top, item));
    let checks: Vec<CloneCheck> = checks.collect();
    let is_whole = checks.len() == items.len();
    (checks, is_whole)
}

/// What stands in a list of tables; `None` where it is something else.
fn tables<'c>(top: &Fields<'c>, key: &str, help: &str) -> Option<&'c [Value]> {
    match top.get(key) {
        None => Some(&[]),
        Some(Value {
            data: Data::Array(items),
            ..
        }) => Some(items),
        Some(other) => {
            let fact = format!("`{key}` takes a list of tables, not {}", other.kind());
            top.cx.error(fact, &other.place, "", help);
            None
        }
    }
}

/// Whether it stands in a file.
fn is_written(step: &Step) -> bool {
    !matches!(step.verb, super::Verb::Settle)
}

fn generalizes(step: &Step) -> bool {
    matches!(step.verb, super::Verb::Generalize { .. })
}

fn unique(cx: &Context<'_>, name: Located<String>, named: &mut Vec<(String, Place)>) {
    if let Some((_, first)) = named.iter().find(|(n, _)| *n == name.value) {
        let fact = format!("two steps are called `{}`", name.value);
        let help = format!("the other one is at {first}; give each its own name");
        cx.error(fact, &name.place, "", &help);
    }
    named.push((name.value, name.place));
}

/// Windows Update cannot be reached without a network; a step that is skipped may name it all the same.
fn network(cx: &Context<'_>, steps: &[Step], network: bool) {
    for step in steps.iter().filter(|s| s.skipped.is_none() && !network) {
        if let super::Verb::Update(super::verb::Update::Online { place, .. }) = &step.verb {
            let fact = format!(
                "step `{}` asks Windows Update, and the guest has no network",
                step.name
            );
            let help = "write `network = true` under `[machine]`, or carry the packages along: `update = { path = \"updates/\" }`";
            cx.error(fact, place, "", help);
        }
    }
}

/// Where the image was generalized, and whether a step after it was complained about.
#[derive(Default)]
struct Sealed {
    at: Option<Place>,
    reported: bool,
}

/// Nothing sensible follows `generalize`.
fn order(cx: &Context<'_>, step: &Step, sealed: &mut Sealed) {
    match &sealed.at {
        Some(first) if generalizes(step) => {
            let help = format!("the first is at {first}");
            cx.error("the image is generalized twice", &step.place, "", &help);
        }
        Some(first) if !sealed.reported => {
            let fact = format!("step `{}` comes after the image is generalized", step.name);
            let help = format!(
                "`generalize` at {first} has to be the last step; includes' steps come before the recipe's own"
            );
            cx.error(fact, &step.place, "", &help);
            sealed.reported = true;
        }
        None if generalizes(step) => sealed.at = Some(step.place.clone()),
        _ => {}
    }
}
