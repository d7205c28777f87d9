//! A manifest in short, for people: what the image is, what went in and how that was proved, what came out.
//!
//! Leaves out what only programs ask for, such as the steps one by one and what each one promises: `inspect --json` has all of it.

use crate::page::{in_one_line, size};
use crate::record::Manifest;
use crate::record::manifest::{Artifact, Input, Machine};
use winimg_base::event::Proof;
use winimg_base::text::duration;
use winimg_recipe::recipe::Firmware;

/// As a user reads it on a terminal. A manifest may come from anywhere: what steers a terminal is made harmless.
pub fn text(manifest: &Manifest) -> String {
    let mut lines = vec![manifest.recipe.name.clone()];
    let facts = facts(manifest).into_iter();
    lines.extend(facts.map(|(name, value)| format!("  {name:<10} {value}")));
    lines.extend([String::new(), "artifacts".into()]);
    lines.extend(manifest.artifacts.iter().flat_map(artifact));
    lines.extend([String::new(), "inputs".into()]);
    lines.extend(manifest.inputs.iter().flat_map(input));
    if !manifest.warnings.is_empty() {
        lines.extend([String::new(), "warnings".into()]);
        let warnings = manifest.warnings.iter().flat_map(|text| text.lines());
        lines.extend(warnings.map(|line| format!("  {line}")));
    }
    lines.iter().map(|line| in_one_line(line) + "\n").collect()
}

fn facts(manifest: &Manifest) -> Vec<(&'static str, String)> {
    let Manifest { tool, windows, .. } = manifest;
    let mut facts = vec![
        (
            "Windows",
            format!(
                "{} {}, {}",
                windows.display_name, windows.build, windows.language
            ),
        ),
        ("recipe", recipe(manifest)),
        ("finished", manifest.finished.clone()),
        ("made by", format!("{} {}", tool.name, tool.version)),
    ];
    facts.extend(manifest.machine.as_ref().map(|it| ("machine", machine(it))));
    let targets = manifest.targets.join(", ");
    facts.extend((!targets.is_empty()).then_some(("targets", targets)));
    facts.push(("steps", steps(manifest)));
    let tries = manifest.tries.iter();
    facts.extend(tries.map(|tried| ("tried as", format!("{}: {}", tried.target, tried.file))));
    facts
}

fn recipe(manifest: &Manifest) -> String {
    let recipe = &manifest.recipe;
    let lock = match &recipe.lock {
        Some(lock) => format!("locked, serial {}", lock.serial),
        None => "not locked".into(),
    };
    format!("{} {} ({lock})", recipe.path, recipe.digest)
}

fn machine(machine: &Machine) -> String {
    let firmware = match machine.firmware {
        Firmware::Uefi => "UEFI",
        Firmware::Bios => "BIOS",
    };
    let secure_boot = machine.secure_boot.then_some("Secure Boot");
    let tpm = machine.tpm.then_some("TPM");
    let parts: Vec<&str> = [Some(firmware), secure_boot, tpm]
        .into_iter()
        .flatten()
        .collect();
    parts.join(", ")
}

fn steps(manifest: &Manifest) -> String {
    let all = &manifest.steps;
    let skipped = all.iter().filter(|step| step.skipped.is_some()).count();
    let seconds = all.iter().map(|step| step.seconds).sum();
    let mut text = format!("{}, {skipped} skipped, in {}", all.len(), duration(seconds));
    if let Some(layer) = &manifest.layer {
        text += &format!("; resumed after {}", layer.after);
    }
    text
}

fn artifact(artifact: &Artifact) -> [String; 2] {
    [
        format!("  {}, {}", artifact.file, size(artifact.size)),
        format!("    sha256:{}", artifact.sha256),
    ]
}

fn input(input: &Input) -> Vec<String> {
    let version = input.version.iter().map(|v| format!(" {v}"));
    let proof = match Proof::from(&input.proof) {
        unverified @ Proof::Unverified { .. } => unverified.to_string(),
        proof => format!("proved by {proof}"),
    };
    let mut lines = vec![
        format!(
            "  {}{}, {}, {proof}",
            input.id,
            version.collect::<String>(),
            size(input.size)
        ),
        format!("    {}", input.url),
        format!("    {}", input.digest),
    ];
    lines.extend(
        input
            .signers
            .iter()
            .map(|it| format!("    {}: {}", it.scheme, it.signer)),
    );
    lines
}
