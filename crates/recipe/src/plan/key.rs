//! What goes into each part of a build, and so the keys of its layers; and in words, what changed between two builds.
//!
//! Pure. Names, places, timeouts and numbers are no ingredients: they change nothing on the disk. Never sees a password.

use super::words::{encoding_name, entry_path};
use super::{Chain, Entry, Ingredient, Link, Op, Plan, PlannedStep, Until};
use crate::recipe::{MachineWish, Recipe};
use winimg_base::argv;
use winimg_base::digest::Digest;

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
    let none = || "none".to_string();
    let mut rows = vec![
        ("the hypervisor", from.hypervisor.to_string()),
        ("the install medium", from.iso.to_string()),
        (
            "the virtio medium",
            from.virtio.as_ref().map_or_else(none, Digest::to_string),
        ),
        ("the image", from.image.clone()),
        ("the answer file", from.answer_file.to_string()),
        ("the bootstrap", from.bootstrap.to_string()),
    ];
    rows.extend(machine(&recipe.machine));
    let rows = rows.into_iter();
    rows.map(|(what, value)| Ingredient::new(what, value))
        .collect()
}

fn machine(wish: &MachineWish) -> Vec<(&'static str, String)> {
    let lower = |value: &dyn std::fmt::Debug| format!("{value:?}").to_lowercase();
    let mut rows = vec![
        ("machine.firmware", lower(&wish.firmware)),
        ("machine.secure_boot", wish.secure_boot.to_string()),
        ("machine.disk_bus", lower(&wish.disk_bus)),
        ("machine.disk_size", mebibytes(wish.disk_size)),
        ("machine.cpus", wish.cpus.to_string()),
        ("machine.memory", mebibytes(wish.memory)),
        ("machine.network", wish.network.to_string()),
    ];
    // A wish that came later is told where it is wished for alone: layers from before it stay what they are.
    if wish.tpm {
        rows.push(("machine.tpm", "true".into()));
    }
    rows
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
    if !step.undecided.is_empty() {
        return Err(format!("{} has no value", step.undecided.join(", ")));
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
    if before.name != now.name {
        let is_in =
            |links: &[Link], one: &Link| links.iter().any(|l| l.ingredients == one.ingredients);
        let words = match (is_in(&new[at..], before), is_in(&old[at..], now)) {
            (true, true) => format!("{} comes where {} was", now.name, before.name),
            (true, false) => format!("{} is new", now.name),
            (false, true) => format!("{} is gone", before.name),
            (false, false) => format!("{} came in place of {}", now.name, before.name),
        };
        return vec![words];
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

/// `1.36.0 became 1.36.1`; of longer text the first line that differs, from a little before the difference on.
fn became(old: &str, new: &str) -> String {
    let differing = old.lines().zip(new.lines()).find(|(a, b)| a != b);
    match differing {
        Some((old, new)) => {
            let same = old.chars().zip(new.chars()).take_while(|(a, b)| a == b);
            let same = same.count();
            format!("{} became {}", short(old, same), short(new, same))
        }
        None if old.lines().count() < new.lines().count() => "has more lines".into(),
        None => "has fewer lines".into(),
    }
}

/// At most 60 characters; of a digest its beginning. `same`: how many characters are the other line's too.
fn short(line: &str, same: usize) -> String {
    let is_digest = line.starts_with("sha256:");
    let limit = if is_digest { 19 } else { 60 };
    if line.chars().count() <= limit {
        return line.to_string();
    }
    let skipped = if is_digest {
        0
    } else {
        same.saturating_sub(20)
    };
    let shown: String = line.chars().skip(skipped).take(limit).collect();
    let before = if skipped > 0 { "…" } else { "" };
    let after = if skipped + limit < line.chars().count() {
        "…"
    } else {
        ""
    };
    format!("{before}{shown}{after}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recipe::{DiskBus, Firmware};

    /// A layer's key is made from these texts: another one, and every layer that people have is stale.
    #[test]
    fn a_machine_without_a_tpm_says_nothing_of_it() {
        let wish = MachineWish {
            firmware: Firmware::Uefi,
            secure_boot: false,
            disk_bus: DiskBus::Virtio,
            disk_size: 64 << 30,
            cpus: 4,
            memory: 4 << 30,
            network: false,
            tpm: false,
        };
        let told = |wish: &MachineWish| {
            let rows = machine(wish).into_iter();
            rows.map(|(what, value)| format!("{what} {value}"))
                .collect::<Vec<_>>()
        };
        let mut known = vec![
            "machine.firmware uefi",
            "machine.secure_boot false",
            "machine.disk_bus virtio",
            "machine.disk_size 65536 MiB",
            "machine.cpus 4",
            "machine.memory 4096 MiB",
            "machine.network false",
        ];
        assert_eq!(told(&wish), known);
        known.push("machine.tpm true");
        assert_eq!(told(&MachineWish { tpm: true, ..wish }), known);
    }

    /// Links with these names and ingredients.
    fn chain(parts: &[(&str, &[(&str, &str)])]) -> Chain {
        let mut chain = Chain::default();
        for (name, ingredients) in parts {
            let ingredients = ingredients.iter();
            let ingredients = ingredients.map(|(what, value)| Ingredient::new(*what, *value));
            chain.push(*name, ingredients.collect());
        }
        chain
    }

    type Parts<'a> = &'a [(&'a str, &'a [(&'a str, &'a str)])];

    fn told(old: Parts<'_>, new: Parts<'_>) -> String {
        change(chain(old).links(), chain(new).links()).join("\n")
    }

    const OLD: Parts<'static> = &[
        ("the installation", &[("machine.cpus", "2")]),
        ("step `a`", &[("script 1", "echo one\necho two")]),
        (
            "step `kubelet`",
            &[
                ("the version of `kubelet`", "1.36.0"),
                ("the file of `kubelet`", "sha256:0123456789abcdef0123"),
            ],
        ),
    ];

    #[test]
    fn a_change_is_told_in_words() {
        let mut all = String::new();
        let mut case = |what: &str, new: Parts<'_>| {
            all += &format!("{what}:\n  {}\n", told(OLD, new).replace('\n', "\n  "));
        };
        case(
            "another version",
            &[
                OLD[0],
                OLD[1],
                (
                    "step `kubelet`",
                    &[
                        ("the version of `kubelet`", "1.36.1"),
                        ("the file of `kubelet`", "sha256:fedcba9876543210fedc"),
                    ],
                ),
            ],
        );
        case(
            "another line",
            &[
                OLD[0],
                ("step `a`", &[("script 1", "echo one\necho 2")]),
                OLD[2],
            ],
        );
        case(
            "a line less",
            &[OLD[0], ("step `a`", &[("script 1", "echo one")]), OLD[2]],
        );
        case(
            "a new step",
            &[OLD[0], ("step `b`", &[("script 1", "b")]), OLD[1], OLD[2]],
        );
        case("a step gone", &[OLD[0], OLD[2]]);
        case(
            "another step",
            &[OLD[0], ("step `b`", &[("script 1", "b")]), OLD[2]],
        );
        case("another order", &[OLD[0], OLD[2], OLD[1]]);
        case(
            "another machine",
            &[
                ("the installation", &[("machine.cpus", "4")]),
                OLD[1],
                OLD[2],
            ],
        );
        case("one step more", &[OLD[0], OLD[1], OLD[2], OLD[1]]);
        assert_eq!(
            all,
            "another version:\n  step `kubelet`: the version of `kubelet` 1.36.0 became 1.36.1\n  \
             step `kubelet`: the file of `kubelet` sha256:0123456789ab… became sha256:fedcba987654…\n\
             another line:\n  step `a`: script 1 echo two became echo 2\n\
             a line less:\n  step `a`: script 1 has fewer lines\n\
             a new step:\n  step `b` is new\n\
             a step gone:\n  step `a` is gone\n\
             another step:\n  step `b` came in place of step `a`\n\
             another order:\n  step `kubelet` comes where step `a` was\n\
             another machine:\n  the installation: machine.cpus 2 became 4\n\
             one step more:\n  \n"
        );
    }

    #[test]
    fn of_a_long_line_the_difference_is_shown() {
        let line = |data: &str| {
            format!(
                r"C:\Windows\System32\reg.exe add HKLM\SOFTWARE\Example /v Tier /t REG_SZ /d {data} /f"
            )
        };
        assert_eq!(
            became(&line("gold"), &line("silver")),
            "…v Tier /t REG_SZ /d gold /f became …v Tier /t REG_SZ /d silver /f"
        );
    }

    #[test]
    fn every_part_changes_the_keys_from_there_on_and_names_change_none() {
        let old = chain(OLD);
        let changed = chain(&[OLD[0], ("step `a`", &[("script 1", "echo")]), OLD[2]]);
        assert_eq!(common(old.links(), changed.links()), 1);
        assert_ne!(old.links()[2].key, changed.links()[2].key);
        let renamed = chain(&[OLD[0], ("step `other`", OLD[1].1), OLD[2]]);
        assert_eq!(common(old.links(), renamed.links()), 3);
    }
}
