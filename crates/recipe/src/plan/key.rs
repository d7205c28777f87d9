//! From a plan to the parts that the keys of its layers are made from.
//!
//! Pure. Never sees a password.

use super::chain::{Action, Content, Installation, Part, Payload};
use super::{Chain, DriverFolder, Entry, Op, Plan, PlannedStep};
use crate::recipe::Recipe;
use winimg_base::digest::Digest;

/// The chain as far as it is known, and why it is known no further.
#[derive(Clone, Debug)]
pub struct Known {
    pub chain: Chain,
    /// ``step `kubelet`: no digest names kubelet before it is fetched``
    pub unknown: Option<String>,
}

/// The installation, then one link a step. `digest_of` gives the digest of what a payload entry holds; its error names what is
/// not known. A text is never asked for: it is in the plan.
pub fn chain(
    recipe: &Recipe,
    plan: &Plan,
    installation: Installation,
    digest_of: &dyn Fn(usize, &Entry) -> Result<Digest, String>,
) -> Known {
    let mut chain = Chain::default();
    chain.push(
        "the installation",
        Part::Installation(Box::new(installation)),
    );
    for step in &plan.steps {
        let name = format!("step `{}`", step.name);
        match part(recipe, plan, step, digest_of) {
            Ok(part) => chain.push(name, part),
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

fn part(
    recipe: &Recipe,
    plan: &Plan,
    step: &PlannedStep,
    digest_of: &dyn Fn(usize, &Entry) -> Result<Digest, String>,
) -> Result<Part, String> {
    if step.skipped.is_some() {
        return Ok(Part::Skipped);
    }
    if !step.undecided.is_empty() {
        return Err(format!("{} has no value", step.undecided.join(", ")));
    }
    let mut payload = Vec::new();
    for &number in &step.entries {
        let Some(entry) = plan.payload.get(number as usize) else {
            continue;
        };
        let content = content(recipe, entry, || digest_of(number as usize, entry))?;
        payload.push(Payload { number, content });
    }
    let ops = step.ops.iter().map(action).collect();
    Ok(Part::Step { payload, ops })
}

fn content(
    recipe: &Recipe,
    entry: &Entry,
    digest: impl FnOnce() -> Result<Digest, String>,
) -> Result<Content, String> {
    let version = |name: &str| {
        let mut components = recipe.components.iter();
        let of = components.find(|c| c.name.value == name);
        of.and_then(|component| component.version.clone())
    };
    Ok(match entry.clone() {
        Entry::Component { component, file } => Content::Component {
            version: version(&component),
            component,
            file,
            digest: digest()?,
        },
        Entry::Tree {
            component,
            strip,
            only,
        } => Content::Tree {
            version: version(&component),
            component,
            strip,
            only,
            digest: digest()?,
        },
        Entry::Image { image } => Content::Image {
            image,
            digest: digest()?,
        },
        Entry::Drivers {
            from: DriverFolder::Component(component),
            only,
        } => Content::Tree {
            version: version(&component),
            component,
            strip: 0,
            only,
            digest: digest()?,
        },
        Entry::Local { path }
        | Entry::Drivers {
            from: DriverFolder::Local(path),
            ..
        } => {
            let name = path.file_name().unwrap_or_default();
            Content::Local {
                name: name.to_string_lossy().into_owned(),
                digest: digest()?,
            }
        }
        Entry::Text {
            file,
            text,
            encoding,
        } => Content::Text {
            file,
            text,
            encoding,
        },
    })
}

/// Without what changes nothing on the disk: the numbers of scripts, and how long is waited.
fn action(op: &Op) -> Action {
    match op.clone() {
        Op::Put(put) => Action::Script {
            text: put.text,
            exit: put.exit,
        },
        Op::Run(run) => Action::Command {
            program: run.program,
            arguments: run.arguments,
            exit: run.exit,
        },
        Op::Reboot => Action::Restart,
        Op::Settle(_) => Action::Settle,
        Op::Eject => Action::Eject,
        Op::Seal { .. } => Action::Seal,
    }
}

#[cfg(test)]
mod tests;
