//! `update`: packages that are carried along, or rounds of Windows Update.
//!
//! A folder's packages are listed here, in the order of their names: which ones there are belongs to the recipe's
//! meaning. Refuses files that are no packages, so that none is passed over in silence.

use std::path::{Path, PathBuf};

use jiff::civil::Date;

use super::files::content;
use super::known::{Known, known_component};
use crate::recipe::fields::{Context, Fields};
use crate::recipe::value::Value;
use crate::recipe::verb::{CATEGORIES, Update};
use crate::recipe::{Content, Verb};
use winimg_base::diag::{Diagnostic, nearest};
use winimg_base::text::Located;

pub fn update(cx: &Context<'_>, value: &Value, known: Known<'_>) -> Option<Verb> {
    let fields = Fields::open(cx, value, "update")?;
    let ways = ["component", "components", "path", "online"];
    let given: Vec<&str> = ways.into_iter().filter(|w| fields.has(w)).collect();
    let help = "`component = \"lcu\"`, `components = [\"ssu\", \"lcu\"]` or `path = \"updates/\"` for packages that are \
                carried along, `online = {}` for Windows Update";
    if given.as_slice() == ["online"] {
        return online(&fields).map(Verb::Update);
    }
    let date = date(&fields);
    let packages = match given.as_slice() {
        [] => {
            cx.missing("`update` has no updates", &fields.place, help);
            None
        }
        ["components"] => components(&fields, known),
        [_] => content(&fields, known).and_then(|from| match from {
            Content::Local(path) if path.value.is_dir() => packages(cx, &path),
            one => Some(vec![one]),
        }),
        _ => {
            let fact = format!("`update` has `{}`", given.join("` and `"));
            cx.error(fact, &fields.place, "keep one", help);
            None
        }
    };
    let (packages, date) = packages.zip(date)?;
    Some(Verb::Update(Update::Offline { packages, date }))
}

/// The outer `None`: it was complained about.
fn date(fields: &Fields<'_>) -> Option<Option<Located<Date>>> {
    let Some(text) = fields
        .string("date")
        .filter(|text| !text.value.trim().is_empty())
    else {
        return Some(None);
    };
    let Ok(date) = text.value.trim().parse() else {
        let fact = format!("`date` is no day: \"{}\"", text.value);
        fields
            .cx
            .error(fact, &text.place, "", "year, month and day: `2026-11-10`");
        return None;
    };
    Some(Some(Located::new(date, text.place)))
}

fn components(fields: &Fields<'_>, known: Known<'_>) -> Option<Vec<Content>> {
    let names = fields.strings("components");
    let given = names.len();
    let found: Vec<Content> = names
        .into_iter()
        .filter_map(|name| known_component(fields.cx, name, known))
        .map(Content::Component)
        .collect();
    (found.len() == given && fields.is_whole()).then_some(found)
}

/// The `.msu` and `.cab` files of a folder, by name. Dot files are not looked at.
fn packages(cx: &Context<'_>, folder: &Located<PathBuf>) -> Option<Vec<Content>> {
    let shown = folder.value.display();
    let mut files = match names(&folder.value) {
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
        let fact = format!("{shown} holds what is no update: {}", odd.join(", "));
        let help = "keep only `.msu` and `.cab` files in it; they are installed in the order of their names";
        cx.error(fact, &folder.place, "", help);
        return None;
    }
    if files.is_empty() {
        let fact = format!("{shown} holds no update");
        cx.error(fact, &folder.place, "", "put `.msu` or `.cab` files there");
        return None;
    }
    files.sort();
    let packages = files
        .into_iter()
        .map(|f| Content::Local(Located::new(f, folder.place.clone())));
    Some(packages.collect())
}

fn names(folder: &Path) -> std::io::Result<Vec<PathBuf>> {
    std::fs::read_dir(folder)?
        .map(|entry| entry.map(|e| e.path()))
        .collect()
}

fn is_package(file: &Path) -> bool {
    let extension = file.extension().and_then(|e| e.to_str());
    extension.is_some_and(|e| e.eq_ignore_ascii_case("msu") || e.eq_ignore_ascii_case("cab"))
}

fn online(fields: &Fields<'_>) -> Option<Update> {
    let table = fields.table("online")?;
    let cx = table.cx;
    let mut sound = true;
    let mut categories = Vec::new();
    for category in table.strings("categories") {
        match CATEGORIES.iter().find(|(name, _)| *name == category.value) {
            Some((name, _)) => categories.push((*name).to_owned()),
            None => {
                sound = false;
                let known = CATEGORIES.iter().map(|(name, _)| *name);
                let fact = format!("`{}` is no category of Windows Update", category.value);
                let mut diagnostic = Diagnostic::error(fact).at(&category.place, "");
                if let Some(near) = nearest(&category.value, known.clone()) {
                    diagnostic = diagnostic.help(format!("did you mean \"{near}\"?"));
                }
                let all: Vec<&str> = known.collect();
                cx.problem(diagnostic.help(format!("they are: {}", all.join(", "))));
            }
        }
    }
    let mut kbs = Vec::new();
    for kb in table.strings("kbs") {
        let digits = kb.value.trim_start_matches(['K', 'B', 'k', 'b']);
        if (6..=8).contains(&digits.len()) && digits.chars().all(|c| c.is_ascii_digit()) {
            kbs.push(format!("KB{digits}"));
            continue;
        }
        sound = false;
        let fact = format!("`{}` is no KB number", kb.value);
        cx.error(fact, &kb.place, "", "write it as \"KB5012637\"");
    }
    let rounds = table.integer("rounds")?;
    (sound && table.is_whole()).then_some(Update::Online {
        place: fields.place.clone(),
        categories,
        kbs,
        rounds: u32::try_from(rounds.value).ok()?,
    })
}
