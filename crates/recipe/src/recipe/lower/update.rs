//! `update`: provided packages, or rounds of Windows Update.
//!
//! Lists a folder's packages in the order of their names, because they are part of the recipe.
//! Refuses files that are not packages, so that none is silently ignored.

use std::path::{Path, PathBuf};

use jiff::civil::Date;

use super::files::read_content;
use super::references::{RecipeItems, known_component};
use crate::recipe::fields::{LoweringContext, TableReader};
use crate::recipe::value::TomlValue;
use crate::recipe::verb::{CATEGORIES, UpdateSpec};
use crate::recipe::{StepContent, Verb};
use winimg_base::diag::{Diagnostic, find_nearest};
use winimg_base::text::Located;

pub fn update(cx: &LoweringContext<'_>, value: &TomlValue, known: RecipeItems<'_>) -> Option<Verb> {
    let fields = TableReader::open(cx, value, "update")?;
    let ways = ["component", "components", "path", "online"];
    let given: Vec<&str> = ways.into_iter().filter(|w| fields.has(w)).collect();
    let help = "`component = \"lcu\"`, `components = [\"ssu\", \"lcu\"]` or `path = \"updates/\"` \
                for provided packages, `online = {}` for Windows Update";
    if given.as_slice() == ["online"] {
        return read_online(&fields).map(Verb::Update);
    }
    let date = read_date(&fields);
    let packages = match given.as_slice() {
        [] => {
            cx.report_missing("`update` has no updates", &fields.place, help);
            None
        }
        ["components"] => read_components(&fields, known),
        [_] => read_content(&fields, known).and_then(|from| match from {
            StepContent::Local(path) if path.value.is_dir() => list_packages(cx, &path),
            one => Some(vec![one]),
        }),
        _ => {
            let fact = format!("`update` has `{}`", given.join("` and `"));
            cx.error(fact, &fields.place, "keep one", help);
            None
        }
    };
    let (packages, date) = packages.zip(date)?;
    Some(Verb::Update(UpdateSpec::Offline { packages, date }))
}

/// Reads the date. The outer `None` means that it has an error.
fn read_date(fields: &TableReader<'_>) -> Option<Option<Located<Date>>> {
    let Some(text) = fields
        .read_string("date")
        .filter(|text| !text.value.trim().is_empty())
    else {
        return Some(None);
    };
    let Ok(date) = text.value.trim().parse() else {
        let fact = format!("`date` is not a date: \"{}\"", text.value);
        fields
            .cx
            .error(fact, &text.place, "", "write it as `2026-11-10`");
        return None;
    };
    Some(Some(Located::new(date, text.place)))
}

fn read_components(fields: &TableReader<'_>, known: RecipeItems<'_>) -> Option<Vec<StepContent>> {
    let names = fields.read_strings("components");
    let given = names.len();
    let found: Vec<StepContent> = names
        .into_iter()
        .filter_map(|name| known_component(fields.cx, name, known))
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
