//! `update`: packages straight from the payload disc, each with a script of its own so that the guest can be restarted
//! between them; or rounds of Windows Update by `update.ps1`.
//!
//! A package that asks for a restart gets it before the next one is installed: servicing refuses to go on over pending
//! operations for some packages, and which ones is not known beforehand. A package that does not fit this Windows is
//! a failure, said in words; one that is installed already is fine.

use super::super::batch::{self, Script};
use super::super::site::{MINUTE, Site, on_disc};
use super::super::{ExitRule, Planned};
use super::files::{content_place, single_file};
use super::script::POWERSHELL_OPTIONS;
use super::windows_image::{DISM, DISM_LOG, restart_if_pending, rule};
use super::{POWERSHELL, args};
use crate::recipe::verb::{CATEGORIES, Update};
use crate::recipe::{Content, Encoding};
use winimg_base::argv::base_name;
use winimg_base::text::crlf;

const WUSA: &str = r"C:\Windows\System32\wusa.exe";
/// What is installed when the recipe names neither categories nor KBs.
const USUAL: [&str; 3] = ["CriticalUpdates", "SecurityUpdates", "UpdateRollups"];
/// Searches, installs, reports. A file of its own, so that an editor and the tests read it as PowerShell.
pub const SCRIPT: &str = include_str!("update.ps1");

/// wusa.exe's codes as batch shows them (Microsoft: Windows Update error codes).
const WUSA_SAYS: [(i64, &str); 5] = [
    (0, "installed"),
    (3010, "installed, restart needed"),
    (0x0024_0005, "installed, restart needed"),
    (0x0024_0006, "installed already"),
    // WU_E_NOT_APPLICABLE
    (-2_145_124_329, NOT_APPLICABLE),
];
/// dism.exe says nothing of a package that is there already: it ends with 0.
const DISM_SAYS: [(i64, &str); 3] = [
    (0, "installed"),
    (3010, "installed, restart needed"),
    // CBS_E_NOT_APPLICABLE
    (-2_146_498_530, NOT_APPLICABLE),
];
const NOT_APPLICABLE: &str =
    "does not fit this Windows, is part of what is installed, or needs another update first";
pub(super) fn update(site: &mut Site<'_>, update: &Update) -> Option<()> {
    match update {
        Update::Offline { packages, .. } => {
            let done: Vec<Option<()>> = packages.iter().map(|p| package(site, p)).collect();
            // Some updates need a second restart, which servicing would begin by itself in the middle of a later step.
            restart_if_pending(site);
            done.into_iter().collect()
        }
        Update::Online {
            categories,
            kbs,
            rounds,
            ..
        } => online(site, categories, kbs, *rounds),
    }
}

fn package(site: &mut Site<'_>, from: &Content) -> Option<()> {
    let place = content_place(from).clone();
    let (entry, file) = single_file(site, from)?;
    let name = site.judged(batch::literal(&file), &place)?;
    let lower = file.to_ascii_lowercase();
    let index = site.entry(entry);
    let on_disc = on_disc(index, &name);
    let kb = kb(&file);
    let label = kb.clone().unwrap_or_else(|| format!("\"{name}\""));
    let (script, rule) = if lower.ends_with(".msu") {
        let line = format!("{WUSA} {on_disc} /quiet /norestart");
        (judged(&line, &label, &WUSA_SAYS), wusa_rule())
    } else if lower.ends_with(".cab") {
        site.guest_log = Some(DISM_LOG);
        let line = format!("{DISM} /online /add-package /packagepath:{on_disc} /norestart /quiet");
        (judged(&line, &label, &DISM_SAYS), rule())
    } else {
        let message = format!("`{file}` is neither a `.msu` nor a `.cab` file");
        let help = "a component's name is set with `file = \"windows10.0-kb5012637-x64.msu\"`; a setup program is run with `exe`";
        site.error_with_help(&place, message, "no package of Windows Update", help);
        return None;
    };
    site.put_judged(script, rule, 120 * MINUTE);
    if let Some(kb) = kb {
        site.expect(Planned::Update { kb });
    }
    Some(())
}

fn wusa_rule() -> ExitRule {
    ExitRule::Listed {
        ok: vec![0, 0x0024_0006],
        reboot: vec![3010, 0x0024_0005],
    }
}

/// Runs the line and says what its code means, for readers of the step's log.
fn judged(line: &str, label: &str, says: &[(i64, &str)]) -> Script {
    let mut script = Script::of(format!(
        "{line}\nset code=%errorlevel%\nset said=failed with %code%"
    ));
    for (code, words) in says {
        script.line(format!("if %code%=={code} set said={words}"));
    }
    script.line(format!("echo {label}: %said%\nexit /b %code%"));
    script
}

/// `KB5012637` of `windows10.0-kb5012637-x64_….msu`.
fn kb(file: &str) -> Option<String> {
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

fn online(site: &mut Site<'_>, categories: &[String], kbs: &[String], rounds: u32) -> Option<()> {
    let usual = categories.is_empty() && kbs.is_empty();
    let ids: Vec<&str> = CATEGORIES
        .iter()
        .filter(|(name, _)| match usual {
            true => USUAL.contains(name),
            false => categories.iter().any(|c| c == name),
        })
        .map(|(_, id)| *id)
        .collect();
    let selection = serde_json::json!({ "categories": ids, "kbs": kbs });
    let folder = site.folder();
    let own = site.text_entry("update.ps1", crlf(SCRIPT), Encoding::Utf8Bom);
    let selection = site.text_entry("update.json", format!("{selection}\n"), Encoding::Utf8);
    let mut script = Script::new();
    script.make_folder(&format!("\"{folder}\""));
    script.copy(&own, &format!("\"{folder}\\update.ps1\""));
    script.copy(&selection, &format!("\"{folder}\\update.json\""));
    site.put(script);
    let file = folder.join("update.ps1");
    for round in 1..=rounds {
        let mut arguments = args(POWERSHELL_OPTIONS);
        arguments.extend(args([file.as_str(), "-Round", &round.to_string()]));
        site.run(POWERSHELL, arguments, rule(), 240 * MINUTE);
    }
    // The last word: a search that must find nothing more.
    let mut arguments = args(POWERSHELL_OPTIONS);
    arguments.extend(args([file.as_str(), "-Round", "0"]));
    site.run(POWERSHELL, arguments, ExitRule::Zero, 60 * MINUTE);
    site.guest_log = Some(folder.join("update.log"));
    for kb in kbs {
        site.expect(Planned::Update { kb: kb.clone() });
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
            assert_eq!(kb(file).as_deref(), found, "{file}");
        }
    }
}
