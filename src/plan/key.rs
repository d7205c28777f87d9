//! What goes into each part of a build, and so the keys of its layers; and in words, what changed between two builds.
//!
//! Pure. Names, places, timeouts and numbers are no ingredients: they change nothing on the disk. Never sees a password.

use super::words::{encoding_name, entry_path};
use super::{Entry, Op, Plan, PlannedStep, Until};
use crate::argv;
use crate::digest::Digest;
use crate::recipe::Recipe;
use crate::store::{Chain, Ingredient, Link};

/// What the installation is made from, apart from what the recipe says itself.
#[derive(Clone, Debug)]
pub struct Installation {
    /// `qemu`: Windows finds other devices under each.
    pub hypervisor: &'static str,
    pub iso: Digest,
    pub virtio: Option<Digest>,
    /// The image of the medium.
    pub image: String,
    /// Of the answer file without the Administrator's password.
    pub answer_file: Digest,
    /// Of everything else on the answer disc that winimg or the team brings.
    pub bootstrap: Digest,
}

/// The chain as far as it is known, and why it is known no further.
#[derive(Clone, Debug)]
pub struct Known {
    pub chain: Chain,
    /// ``step `kubelet`: no digest names kubelet before it is fetched``
    pub unknown: Option<String>,
}

/// The installation, then one link a step. `digest_of` tells what a payload entry holds; the error names what is not known.
pub fn chain(
    recipe: &Recipe,
    plan: &Plan,
    installation: &Installation,
    digest_of: &dyn Fn(usize, &Entry) -> Result<Digest, String>,
) -> Known {
    let mut chain = Chain::default();
    chain.push("the installation", installed(recipe, installation));
    for step in &plan.steps {
        let name = format!("step `{}`", step.name);
        match ingredients(recipe, plan, step, digest_of) {
            Ok(ingredients) => chain.push(name, ingredients),
            Err(why) => {
                let unknown = Some(format!("{name}: {why}"));
                return Known { chain, unknown };
            }
        }
    }
    Known {
        chain,
        unknown: None,
    }
}

fn installed(recipe: &Recipe, from: &Installation) -> Vec<Ingredient> {
    let machine = &recipe.machine;
    let lower = |value: &dyn std::fmt::Debug| format!("{value:?}").to_lowercase();
    let none = || "none".to_string();
    let rows = [
        ("the hypervisor", from.hypervisor.to_string()),
        ("the install medium", from.iso.to_string()),
        (
            "the virtio medium",
            from.virtio.as_ref().map_or_else(none, Digest::to_string),
        ),
        ("the image", from.image.clone()),
        ("the answer file", from.answer_file.to_string()),
        ("the bootstrap", from.bootstrap.to_string()),
        ("machine.firmware", lower(&machine.firmware)),
        ("machine.secure_boot", machine.secure_boot.to_string()),
        ("machine.disk_bus", lower(&machine.disk_bus)),
        ("machine.disk_size", mebibytes(machine.disk_size)),
        ("machine.cpus", machine.cpus.to_string()),
        ("machine.memory", mebibytes(machine.memory)),
        ("machine.network", machine.network.to_string()),
    ];
    rows.map(|(what, value)| Ingredient::new(what, value))
        .into()
}

fn mebibytes(bytes: u64) -> String {
    format!("{} MiB", bytes >> 20)
}

fn ingredients(
    recipe: &Recipe,
    plan: &Plan,
    step: &PlannedStep,
    digest_of: &dyn Fn(usize, &Entry) -> Result<Digest, String>,
) -> Result<Vec<Ingredient>, String> {
    if step.skipped.is_some() {
        return Ok(vec![Ingredient::new("skipped", "yes")]);
    }
    let mut all = Vec::new();
    for &number in &step.entries {
        let index = number as usize;
        let Some(entry) = plan.payload.get(index) else {
            continue;
        };
        all.extend(version(recipe, entry));
        let value = match entry {
            Entry::Text { text, encoding, .. } => format!("{text}\n{}", encoding_name(*encoding)),
            _ => digest_of(index, entry)?.to_string(),
        };
        all.push(Ingredient::new(content_of(index, entry), value));
    }
    for (number, op) in step.ops.iter().enumerate() {
        all.push(Ingredient::new(doing(op, number + 1), carried_out(op)));
    }
    Ok(all)
}

/// ``the version of `kubelet` ``
fn version(recipe: &Recipe, entry: &Entry) -> Option<Ingredient> {
    let (Entry::Component { component, .. } | Entry::Tree { component, .. }) = entry else {
        return None;
    };
    let of = recipe
        .components
        .iter()
        .find(|c| &c.name.value == component)?;
    let version = of.version.clone()?;
    Some(Ingredient::new(
        format!("the version of `{component}`"),
        version,
    ))
}

fn content_of(index: usize, entry: &Entry) -> String {
    match entry {
        Entry::Component { component, .. } => format!("the file of `{component}`"),
        Entry::Tree {
            component,
            strip,
            only,
        } if only.is_empty() => format!("the archive of `{component}`, strip {strip}"),
        Entry::Tree {
            component,
            strip,
            only,
        } => format!(
            "the archive of `{component}`, strip {strip}, only {}",
            only.join(" ")
        ),
        Entry::Image { image } => format!("the container image `{image}`"),
        Entry::Local { path } => format!(
            "the local file {}",
            path.file_name().unwrap_or_default().to_string_lossy()
        ),
        Entry::Text { .. } => format!("the text {}", entry_path(index, entry)),
    }
}

fn doing(op: &Op, number: usize) -> String {
    let kind = match op {
        Op::Put(_) => "script",
        Op::Run(_) => "command",
        Op::Reboot => "restart",
        Op::Eject => "discs",
        Op::Wait(_) => "wait",
    };
    format!("{kind} {number}")
}

/// What the guest is made to do, and which of its answers are good.
fn carried_out(op: &Op) -> String {
    match op {
        Op::Put(put) => format!("{}\ngood: {}", put.text, put.exit.expectation()),
        Op::Run(run) => format!(
            "{}\ngood: {}",
            argv::display(&run.program, &run.arguments),
            run.exit.expectation()
        ),
        Op::Reboot => "restart".into(),
        Op::Eject => "discs out".into(),
        Op::Wait(Until::Generalized { .. }) => "until generalized".into(),
    }
}

/// How many links from the start are the same.
pub fn common(old: &[Link], new: &[Link]) -> usize {
    let same = |(a, b): &(&Link, &Link)| a.key == b.key;
    old.iter().zip(new).take_while(same).count()
}

/// What became of the first link in which two chains differ, in words: ``step `kubelet`: the version of `kubelet`
/// 1.36.0 became 1.36.1``. Empty when one chain is the other's beginning.
pub fn change(old: &[Link], new: &[Link]) -> Vec<String> {
    let at = common(old, new);
    let (Some(before), Some(now)) = (old.get(at), new.get(at)) else {
        return Vec::new();
    };
    let is = |links: &[Link], one: &Link| links.iter().any(|l| l.ingredients == one.ingredients);
    if before.name != now.name && !is(&new[at..], before) {
        return vec![format!("{} came in place of {}", now.name, before.name)];
    }
    if before.name != now.name && !is(&old[at..], now) {
        return vec![format!("{} is new", now.name)];
    }
    if before.name != now.name {
        return vec![format!("{} comes where {} was", now.name, before.name)];
    }
    let mut told = Vec::new();
    for ingredient in &now.ingredients {
        match before
            .ingredients
            .iter()
            .find(|i| i.what == ingredient.what)
        {
            Some(old) if old.value == ingredient.value => {}
            Some(old) => told.push(format!(
                "{} {}",
                ingredient.what,
                became(&old.value, &ingredient.value)
            )),
            None => told.push(format!("{} is new", ingredient.what)),
        }
    }
    let gone = |old: &&Ingredient| !now.ingredients.iter().any(|i| i.what == old.what);
    let gone = before.ingredients.iter().filter(gone);
    told.extend(gone.map(|old| format!("{} is gone", old.what)));
    if told.is_empty() {
        told.push("its parts come in another order".into());
    }
    told.into_iter()
        .map(|words| format!("{}: {words}", now.name))
        .collect()
}

/// `1.36.0 became 1.36.1`; of longer text the first line that differs.
fn became(old: &str, new: &str) -> String {
    let differing = old.lines().zip(new.lines()).find(|(a, b)| a != b);
    match differing {
        Some((old, new)) => format!("{} became {}", short(old), short(new)),
        None if old.lines().count() < new.lines().count() => "has more lines".into(),
        None => "has fewer lines".into(),
    }
}

/// At most 60 characters; of a digest its beginning.
fn short(line: &str) -> String {
    let limit = if line.starts_with("sha256:") { 19 } else { 60 };
    match line.char_indices().nth(limit) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line.to_string(),
    }
}
