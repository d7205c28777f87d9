//! Compiles `update`: installs packages directly from the payload disc, each with its own script so
//! that the guest can be restarted between them, or runs rounds of Windows Update with
//! `update.ps1`.
//!
//! If a package needs a restart, the guest is restarted before the next package: servicing cannot
//! install some packages over pending operations, and which ones is not known in advance. A package
//! that is not applicable is a failure with a message; one that is already installed is not.

use super::super::batch::{self, BatchScript};
use super::super::step_compiler::{MINUTE, StepCompiler, on_disc};
use super::super::{ExitRule, PlannedCheck};
use super::files::{content_place, single_file};
use super::script::POWERSHELL_OPTIONS;
use super::windows_image::{DISM, DISM_LOG, dism_rule, restart_if_pending};
use super::{POWERSHELL, to_arguments};
use crate::recipe::verb::{CATEGORIES, UpdateSpec};
use crate::recipe::{Encoding, StepContent};
use winimg_base::argv::base_name;
use winimg_base::text::to_crlf;

const WUSA: &str = r"C:\Windows\System32\wusa.exe";
/// Default categories if the recipe names neither categories nor KBs.
const USUAL: [&str; 3] = ["CriticalUpdates", "SecurityUpdates", "UpdateRollups"];
/// The script that searches, installs and reports. It is a separate file so that editors and tests
/// treat it as PowerShell.
pub const SCRIPT: &str = include_str!("update.ps1");

/// Exit codes of wusa.exe as batch shows them (Microsoft: Windows Update error codes).
const WUSA_SAYS: [(i64, &str); 5] = [
    (0, "installed"),
    (3010, "installed, restart needed"),
    (0x0024_0005, "installed, restart needed"),
    (0x0024_0006, "installed already"),
    // WU_E_NOT_APPLICABLE
    (-2_145_124_329, NOT_APPLICABLE),
];
/// Exit codes of dism.exe. It also exits with 0 if the package is already installed.
const DISM_SAYS: [(i64, &str); 3] = [
    (0, "installed"),
    (3010, "installed, restart needed"),
    // CBS_E_NOT_APPLICABLE
    (-2_146_498_530, NOT_APPLICABLE),
];
const NOT_APPLICABLE: &str =
    "does not fit this Windows, is part of what is installed, or needs another update first";
pub(super) fn update(site: &mut StepCompiler<'_>, update: &UpdateSpec) -> Option<()> {
    match update {
        UpdateSpec::Offline { packages, .. } => {
            let done: Vec<Option<()>> = packages.iter().map(|p| install_package(site, p)).collect();
            // Some updates need a second restart, which servicing would otherwise start by itself
            // during a later step.
            restart_if_pending(site);
            done.into_iter().collect()
        }
        UpdateSpec::Online {
            categories,
            kbs,
            rounds,
            ..
        } => update_online(site, categories, kbs, *rounds),
    }
}

fn install_package(site: &mut StepCompiler<'_>, from: &StepContent) -> Option<()> {
    let place = content_place(from).clone();
    let (entry, file) = single_file(site, from)?;
    let name = site.report_error(batch::escape(&file), &place)?;
    let lower = file.to_ascii_lowercase();
    let index = site.add_entry(entry);
    let on_disc = on_disc(index, &name);
    let kb = parse_kb(&file);
    let label = kb.clone().unwrap_or_else(|| format!("\"{name}\""));
    let (script, rule) = if lower.ends_with(".msu") {
        let line = format!("{WUSA} {on_disc} /quiet /norestart");
        (build_package_script(&line, &label, &WUSA_SAYS), wusa_rule())
    } else if lower.ends_with(".cab") {
        site.guest_log = Some(DISM_LOG);
        let line = format!("{DISM} /online /add-package /packagepath:{on_disc} /norestart /quiet");
        (build_package_script(&line, &label, &DISM_SAYS), dism_rule())
    } else {
        let message = format!("`{file}` is neither a `.msu` nor a `.cab` file");
        let help = "for a component set `file = \"windows10.0-kb5012637-x64.msu\"`; use `exe` to \
            run a setup program";
        site.error_with_help(&place, message, "not a Windows Update package", help);
        return None;
    };
    site.put_judged(script, rule, 120 * MINUTE);
    if let Some(kb) = kb {
        site.expect(PlannedCheck::Update { kb });
    }
    Some(())
}

fn wusa_rule() -> ExitRule {
    ExitRule::Listed {
        ok: vec![0, 0x0024_0006],
        reboot: vec![3010, 0x0024_0005],
    }
}

/// Builds a script that runs the line and prints the meaning of its exit code for the step's log.
fn build_package_script(line: &str, label: &str, says: &[(i64, &str)]) -> BatchScript {
    let mut script = BatchScript::from_lines(format!(
        "{line}\nset code=%errorlevel%\nset said=failed with %code%"
    ));
    for (code, words) in says {
        script.add_line(format!("if %code%=={code} set said={words}"));
    }
    script.add_line(format!("echo {label}: %said%\nexit /b %code%"));
    script
}

/// Parses `KB5012637` from `windows10.0-kb5012637-x64_….msu`.
fn parse_kb(file: &str) -> Option<String> {
    let lower = base_name(file).to_ascii_lowercase();
    lower.match_indices("kb").find_map(|(at, _)| {
        let digits: String = lower[at + 2..]
            .chars()
            .take_while(char::is_ascii_digit)
            .collect();
        (6..=8)
            .contains(&digits.len())
            .then(|| format!("KB{digits}"))
    })
}

fn update_online(
    site: &mut StepCompiler<'_>,
    categories: &[String],
    kbs: &[String],
    rounds: u32,
) -> Option<()> {
    let usual = categories.is_empty() && kbs.is_empty();
    let ids: Vec<&str> = CATEGORIES
        .iter()
        .filter(|(name, _)| {
            if usual {
                USUAL.contains(name)
            } else {
                categories.iter().any(|c| c == name)
            }
        })
        .map(|(_, id)| *id)
        .collect();
    let selection = serde_json::json!({ "categories": ids, "kbs": kbs });
    let folder = site.step_folder();
    let own = site.text_entry("update.ps1", to_crlf(SCRIPT), Encoding::Utf8Bom);
    let selection = site.text_entry("update.json", format!("{selection}\n"), Encoding::Utf8);
    let mut script = BatchScript::new();
    script.make_folder(&format!("\"{folder}\""));
    script.copy(&own, &format!("\"{folder}\\update.ps1\""));
    script.copy(&selection, &format!("\"{folder}\\update.json\""));
    site.put(script);
    let file = folder.join("update.ps1");
    for round in 1..=rounds {
        let mut arguments = to_arguments(POWERSHELL_OPTIONS);
        arguments.extend(to_arguments([file.as_str(), "-Round", &round.to_string()]));
        site.run(POWERSHELL, arguments, dism_rule(), 240 * MINUTE);
    }
    // The final search must find nothing more.
    let mut arguments = to_arguments(POWERSHELL_OPTIONS);
    arguments.extend(to_arguments([file.as_str(), "-Round", "0"]));
    site.run(POWERSHELL, arguments, ExitRule::Zero, 60 * MINUTE);
    site.guest_log = Some(folder.join("update.log"));
    for kb in kbs {
        site.expect(PlannedCheck::Update { kb: kb.clone() });
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kb_number_is_read_from_the_file_name() {
        for (file, found) in [
            ("windows10.0-kb5012637-x64_88ad.msu", Some("KB5012637")),
            ("Windows10.0-KB890830-x64.cab", Some("KB890830")),
            ("backbone-kb12.msu", None),
            ("ssu-20348.2201-x64.cab", None),
            ("kb-kb5044281.msu", Some("KB5044281")),
        ] {
            assert_eq!(parse_kb(file).as_deref(), found, "{file}");
        }
    }
}
