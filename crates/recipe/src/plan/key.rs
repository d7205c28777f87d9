//! Converts a plan to the parts that the keys of its layers are computed from.
//!
//! Pure. Never sees a password.

use super::chain::{BuildPart, GuestAction, InstallationPart, PayloadContent, PayloadPart};
use super::{BuildChain, BuildPlan, DriverFolder, PayloadEntry, PlannedOp, PlannedStep};
use crate::Recipe;
use winimg_base::digest::Digest;

/// The known part of a chain, and the reason if it is incomplete.
#[derive(Clone, Debug)]
pub struct KnownChain {
    pub chain: BuildChain,
    /// ``step `kubelet`: no digest names kubelet before it is fetched``
    pub unknown: Option<String>,
}

/// Builds the chain: the installation, then one link per step. `digest_of` returns the digest of a
/// payload entry's content; its error names the unknown input. It is not called for texts, which
/// are in the plan.
pub fn build_chain(
    recipe: &Recipe,
    plan: &BuildPlan,
    installation: InstallationPart,
    digest_of: &dyn Fn(usize, &PayloadEntry) -> Result<Digest, String>,
) -> KnownChain {
    let mut chain = BuildChain::default();
    chain.push(
        "the installation",
        BuildPart::Installation(Box::new(installation)),
    );
    for step in &plan.steps {
        let name = format!("step `{}`", step.name);
        match build_part(recipe, plan, step, digest_of) {
            Ok(part) => chain.push(name, part),
            Err(why) => {
                let unknown = Some(format!("{name}: {why}"));
                return KnownChain { chain, unknown };
            }
        }
    }
    KnownChain {
        chain,
        unknown: None,
    }
}

fn build_part(
    recipe: &Recipe,
    plan: &BuildPlan,
    step: &PlannedStep,
    digest_of: &dyn Fn(usize, &PayloadEntry) -> Result<Digest, String>,
) -> Result<BuildPart, String> {
    if step.skipped.is_some() {
        return Ok(BuildPart::Skipped);
    }
    if !step.undecided.is_empty() {
        return Err(format!("{} has no value", step.undecided.join(", ")));
    }
    let mut payload = Vec::new();
    for &number in &step.entries {
        let Some(entry) = plan.payload.get(number as usize) else {
            continue;
        };
        let content = build_content(recipe, entry, || digest_of(number as usize, entry))?;
        payload.push(PayloadPart { number, content });
    }
    let ops = step.ops.iter().map(build_action).collect();
    Ok(BuildPart::Step { payload, ops })
}

fn build_content(
    recipe: &Recipe,
    entry: &PayloadEntry,
    digest: impl FnOnce() -> Result<Digest, String>,
) -> Result<PayloadContent, String> {
    Ok(match entry.clone() {
        PayloadEntry::Component { component, file } => PayloadContent::Component {
            version: version_of(recipe, &component),
            component,
            file,
            digest: digest()?,
        },
        PayloadEntry::Tree {
            component,
            strip,
            only,
        } => PayloadContent::Tree {
            version: version_of(recipe, &component),
            component,
            strip,
            only,
            digest: digest()?,
        },
        PayloadEntry::Image { image } => PayloadContent::Image {
            image,
            digest: digest()?,
        },
        PayloadEntry::Drivers {
            from: DriverFolder::Component(component),
            only,
        } => PayloadContent::Tree {
            version: version_of(recipe, &component),
            component,
            strip: 0,
            only,
            digest: digest()?,
        },
        PayloadEntry::Local { path }
        | PayloadEntry::Drivers {
            from: DriverFolder::Local(path),
            ..
        } => {
            let name = path.file_name().unwrap_or_default();
            PayloadContent::Local {
                name: name.to_string_lossy().into_owned(),
                digest: digest()?,
            }
        }
        PayloadEntry::Text {
            file,
            text,
            encoding,
        } => PayloadContent::Text {
            file,
            text,
            encoding,
        },
    })
}

fn version_of(recipe: &Recipe, name: &str) -> Option<String> {
    let mut components = recipe.components.iter();
    let component = components.find(|component| component.name.value == name)?;
    component.version.clone()
}

/// Converts an op, without the script numbers and timeouts, which change nothing on the disk.
fn build_action(op: &PlannedOp) -> GuestAction {
    match op.clone() {
        PlannedOp::Put(put) => GuestAction::Script {
            text: put.text,
            exit: put.exit,
        },
        PlannedOp::Run(run) => GuestAction::Command {
            program: run.program,
            arguments: run.arguments,
            exit: run.exit,
        },
        PlannedOp::Reboot => GuestAction::Restart,
        PlannedOp::Settle(_) => GuestAction::Settle,
        PlannedOp::Eject => GuestAction::Eject,
        PlannedOp::Seal { .. } => GuestAction::Seal,
    }
}

#[cfg(test)]
mod tests;
