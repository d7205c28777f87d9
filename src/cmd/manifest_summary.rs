//! Renders a summary of a manifest: the image, its verified inputs and its artifacts.
//!
//! Omits details such as the individual steps and their expected results: `inspect --json` prints
//! everything.

use crate::record::BuildManifest;
use crate::record::manifest::{ManifestArtifact, ManifestInput, ManifestMachine};
use winimg_base::display_text::strip_line;
use winimg_base::event::InputProof;
use winimg_base::text::{format_duration, format_size};
use winimg_recipe::Firmware;

/// Renders the summary. A manifest may be untrusted, so terminal escape sequences are removed.
pub fn render(manifest: &BuildManifest) -> String {
    let mut lines = vec![manifest.recipe.name.clone()];
    lines.extend(
        collect_facts(manifest)
            .into_iter()
            .map(|(name, value)| format!("  {name:<10} {value}")),
    );
    lines.extend([String::new(), "artifacts".into()]);
    lines.extend(manifest.artifacts.iter().flat_map(render_artifact));
    lines.extend([String::new(), "inputs".into()]);
    lines.extend(manifest.inputs.iter().flat_map(render_input));
    if !manifest.warnings.is_empty() {
        lines.extend([String::new(), "warnings".into()]);
        lines.extend(
            manifest
                .warnings
                .iter()
                .flat_map(|text| text.lines())
                .map(|line| format!("  {line}")),
        );
    }
    lines.iter().map(|line| strip_line(line) + "\n").collect()
}

fn collect_facts(manifest: &BuildManifest) -> Vec<(&'static str, String)> {
    let BuildManifest { tool, windows, .. } = manifest;
    let mut facts = vec![
        (
            "Windows",
            format!(
                "{} {}, {}",
                windows.display_name, windows.build, windows.language
            ),
        ),
        ("recipe", describe_recipe(manifest)),
        ("finished", manifest.finished.clone()),
        ("built by", format!("{} {}", tool.name, tool.version)),
    ];
    facts.extend(
        manifest
            .machine
            .as_ref()
            .map(|machine| ("machine", describe_machine(machine))),
    );
    let targets = manifest.targets.join(", ");
    facts.extend((!targets.is_empty()).then_some(("targets", targets)));
    facts.push(("steps", describe_steps(manifest)));
    facts.extend(
        manifest
            .tries
            .iter()
            .map(|tried| ("trial", format!("{}: {}", tried.target, tried.file))),
    );
    facts
}

fn describe_recipe(manifest: &BuildManifest) -> String {
    let recipe = &manifest.recipe;
    let lock = match &recipe.lock {
        Some(lock) => format!("locked, serial {}", lock.serial),
        None => "not locked".into(),
    };
    format!("{} {} ({lock})", recipe.path, recipe.digest)
}

fn describe_machine(machine: &ManifestMachine) -> String {
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

fn describe_steps(manifest: &BuildManifest) -> String {
    let all = &manifest.steps;
    let skipped = all.iter().filter(|step| step.skipped.is_some()).count();
    let seconds = all.iter().map(|step| step.seconds).sum();
    let mut text = format!(
        "{}, {skipped} skipped, took {}",
        all.len(),
        format_duration(seconds)
    );
    if let Some(layer) = &manifest.layer {
        text += &format!("; resumed after {}", layer.after);
    }
    text
}

fn render_artifact(artifact: &ManifestArtifact) -> [String; 2] {
    [
        format!("  {}, {}", artifact.file, format_size(artifact.size)),
        format!("    sha256:{}", artifact.sha256),
    ]
}

fn render_input(input: &ManifestInput) -> Vec<String> {
    let version = input.version.iter().map(|v| format!(" {v}"));
    let proof = match InputProof::from(&input.proof) {
        unverified @ InputProof::Unverified { .. } => unverified.to_string(),
        proof => format!("verified by {proof}"),
    };
    let mut lines = vec![
        format!(
            "  {}{}, {}, {proof}",
            input.id,
            version.collect::<String>(),
            format_size(input.size)
        ),
        format!("    {}", input.url),
        format!("    {}", input.digest),
    ];
    lines.extend(
        input
            .signers
            .iter()
            .map(|signer| format!("    {}: {}", signer.scheme, signer.signer)),
    );
    lines
}
