//! The verb `update`: provided packages, or rounds of Windows Update.
//!
//! Lists a folder's packages in the order of their names, because they are part of the recipe.
//! Refuses files that are not packages, so that none is silently ignored.

use std::path::{Path, PathBuf};

use jiff::civil::Date;

use crate::document::value::TomlValue;
use crate::fields::{LoweringContext, ReportedError, TableReader};
use crate::ops::batch::{self, BatchScript};
use crate::ops::compiler::{MINUTE, StepCompiler, on_disc};
use crate::ops::programs::{DISM, POWERSHELL, to_arguments};
use crate::ops::{Encoding, ExitRule, PlannedCheck};
use crate::verbs::content::{StepContent, content_place, read_content, single_file};
use crate::verbs::dism::{DISM_LOG, dism_rule, restart_if_pending};
use crate::verbs::items::{RecipeItems, known_component};
use crate::verbs::script::POWERSHELL_OPTIONS;
use winimg_base::argv::base_name;
use winimg_base::diag::{Diagnostic, find_nearest};
use winimg_base::text::{Located, Place, to_crlf};

/// `update`
#[derive(Clone, Debug)]
pub enum UpdateSpec {
    /// `.msu` and `.cab` packages, in this order.
    Offline {
        packages: Vec<StepContent>,
        /// Publication date of the newest of them.
        date: Option<Located<Date>>,
    },
    /// From Windows Update, in rounds with a restart between them. Needs a network.
    Online {
        place: Place,
        /// Names of `CATEGORIES`; without categories and KBs the plan uses the default ones.
        categories: Vec<String>,
        /// `KB5012637`
        kbs: Vec<String>,
        rounds: u32,
    },
}

/// Classifications of Windows Update with their language-independent identifiers (Microsoft: WSUS
/// Classification GUIDs).
pub const CATEGORIES: &[(&str, &str)] = &[
    ("Application", "5c9376ab-8ce6-464a-b136-22113dd69801"),
    ("Connectors", "434de588-ed14-48f5-8eed-a15e09a991f6"),
    ("CriticalUpdates", "e6cf1350-c01b-414d-a61f-263d14d133b4"),
    ("DefinitionUpdates", "e0789628-ce08-4437-be74-2495b842f43b"),
    ("DeveloperKits", "e140075d-8433-45c3-ad87-e72345b36078"),
    ("Drivers", "ebfc1fc5-71a4-4f7b-9aca-3b9a503104a0"),
    ("FeaturePacks", "b54e7d24-7add-428f-8b75-90a396fa584f"),
    ("Guidance", "9511d615-35b2-47bb-927f-f73d8e9260bb"),
    ("SecurityUpdates", "0fa1201d-4330-4fa8-8ae9-b877473b6441"),
    ("ServicePacks", "68c5b0a3-d1a6-4553-ae49-01d3a7827828"),
    ("Tools", "b4832bd8-e735-4761-8daf-37f882276dab"),
    ("UpdateRollups", "28bc880e-0592-4cbf-8f95-c79b17911d5f"),
    ("Updates", "cd5ffd1e-e932-4e3a-bf74-18bf0b1bbd83"),
];

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

pub fn read(
    cx: &LoweringContext<'_>,
    value: &TomlValue,
    items: RecipeItems<'_>,
) -> Option<UpdateSpec> {
    let fields = TableReader::open(cx, value, "update")?;
    let ways = ["component", "components", "path", "online"];
    let given: Vec<&str> = ways.into_iter().filter(|w| fields.has(w)).collect();
    let help = "`component = \"lcu\"`, `components = [\"ssu\", \"lcu\"]` or `path = \"updates/\"` \
                for provided packages, `online = {}` for Windows Update";
    if given.as_slice() == ["online"] {
        return read_online(&fields);
    }
    let date = read_date(&fields);
    let packages = match given.as_slice() {
        [] => {
            cx.report_missing("`update` has no updates", &fields.place, help);
            None
        }
        ["components"] => read_components(&fields, items),
        [_] => read_content(&fields, items).and_then(|from| match from {
            StepContent::Local(path) if path.value.is_dir() => list_packages(cx, &path),
            one => Some(vec![one]),
        }),
        _ => {
            let fact = format!("`update` has `{}`", given.join("` and `"));
            cx.error(fact, &fields.place, "keep one", help);
            None
        }
    };
    let (packages, date) = packages.zip(date.ok())?;
    Some(UpdateSpec::Offline { packages, date })
}

/// Reads the date; `None` if it is absent or empty.
fn read_date(fields: &TableReader<'_>) -> Result<Option<Located<Date>>, ReportedError> {
    let Some(text) = fields
        .read_string("date")
        .filter(|text| !text.value.trim().is_empty())
    else {
        return Ok(None);
    };
    let Ok(date) = text.value.trim().parse() else {
        let fact = format!("`date` is not a date: \"{}\"", text.value);
        fields
            .cx
            .error(fact, &text.place, "", "write it as `2026-11-10`");
        return Err(ReportedError);
    };
    Ok(Some(Located::new(date, text.place)))
}

fn read_components(fields: &TableReader<'_>, items: RecipeItems<'_>) -> Option<Vec<StepContent>> {
    let names = fields.read_strings("components");
    let given = names.len();
    let found: Vec<StepContent> = names
        .into_iter()
        .filter_map(|name| known_component(fields.cx, name, items))
        .map(StepContent::Component)
        .collect();
    (found.len() == given && fields.is_whole()).then_some(found)
}

/// Lists the `.msu` and `.cab` files of a folder, by name. Dot files are ignored.
fn list_packages(cx: &LoweringContext<'_>, folder: &Located<PathBuf>) -> Option<Vec<StepContent>> {
    let shown = folder.value.display();
    let mut files = match list_files(&folder.value) {
        Ok(files) => files,
        Err(why) => {
            let fact = format!("the folder {shown} cannot be read: {why}");
            cx.error(fact, &folder.place, "", "");
            return None;
        }
    };
    files.retain(|f| {
        let name = f.file_name().unwrap_or_default().to_string_lossy();
        !name.starts_with('.')
    });
    let odd: Vec<String> = files
        .iter()
        .filter(|f| !is_package(f) || f.is_dir())
        .map(|f| f.file_name().unwrap_or_default().to_string_lossy().into())
        .collect();
    if !odd.is_empty() {
        let fact = format!(
            "{shown} contains other files than updates: {}",
            odd.join(", ")
        );
        let help = "keep only `.msu` and `.cab` files there; they are installed in the order of \
                    their names";
        cx.error(fact, &folder.place, "", help);
        return None;
    }
    if files.is_empty() {
        let fact = format!("{shown} contains no updates");
        cx.error(fact, &folder.place, "", "put `.msu` or `.cab` files there");
        return None;
    }
    files.sort();
    let packages = files
        .into_iter()
        .map(|f| StepContent::Local(Located::new(f, folder.place.clone())));
    Some(packages.collect())
}

fn list_files(folder: &Path) -> std::io::Result<Vec<PathBuf>> {
    std::fs::read_dir(folder)?
        .map(|entry| entry.map(|e| e.path()))
        .collect()
}

fn is_package(file: &Path) -> bool {
    let extension = file.extension().and_then(|e| e.to_str());
    extension.is_some_and(|e| e.eq_ignore_ascii_case("msu") || e.eq_ignore_ascii_case("cab"))
}

fn read_online(fields: &TableReader<'_>) -> Option<UpdateSpec> {
    let table = fields.read_table("online")?;
    let cx = table.cx;
    let mut is_valid = true;
    let mut categories = Vec::new();
    for category in table.read_strings("categories") {
        match CATEGORIES.iter().find(|(name, _)| *name == category.value) {
            Some((name, _)) => categories.push((*name).to_owned()),
            None => {
                is_valid = false;
                let known = CATEGORIES.iter().map(|(name, _)| *name);
                let fact = format!("`{}` is not a category of Windows Update", category.value);
                let mut diagnostic = Diagnostic::error(fact).at(&category.place, "");
                if let Some(near) = find_nearest(&category.value, known.clone()) {
                    diagnostic = diagnostic.help(format!("did you mean \"{near}\"?"));
                }
                let all: Vec<&str> = known.collect();
                cx.report(diagnostic.help(format!("categories: {}", all.join(", "))));
            }
        }
    }
    let mut kbs = Vec::new();
    for kb in table.read_strings("kbs") {
        let digits = kb.value.trim_start_matches(['K', 'B', 'k', 'b']);
        if (6..=8).contains(&digits.len()) && digits.chars().all(|c| c.is_ascii_digit()) {
            kbs.push(format!("KB{digits}"));
            continue;
        }
        is_valid = false;
        let fact = format!("`{}` is not a KB number", kb.value);
        cx.error(fact, &kb.place, "", "write it as \"KB5012637\"");
    }
    let rounds = table.read_integer("rounds")?;
    (is_valid && table.is_whole()).then_some(UpdateSpec::Online {
        place: fields.place.clone(),
        categories,
        kbs,
        rounds: u32::try_from(rounds.value).ok()?,
    })
}

pub fn compile(site: &mut StepCompiler<'_>, update: &UpdateSpec) -> Option<()> {
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
