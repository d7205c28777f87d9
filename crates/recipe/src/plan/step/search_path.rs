//! `path`: folders added to the machine's `Path`.
//!
//! Never `setx`, which cuts at 1,024 characters. The value stays REG_EXPAND_SZ and unexpanded: what `for /f` reads is
//! not expanded again. Comparing is done by replacing, which takes no account of case and starts no second cmd.

use super::super::Planned;
use super::super::batch::{self, Script};
use super::super::site::Site;
use super::registry::{ENVIRONMENT, REG};
use winimg_base::text::Located;

pub(super) fn path(site: &mut Site<'_>, add: &[Located<String>]) -> Option<()> {
    if add.is_empty() {
        let place = &site.step.place;
        site.error(place, "no folder to add", "");
        return None;
    }
    let mut folders = Vec::new();
    for written in add {
        folders.extend(folder(site, written));
    }
    if folders.len() < add.len() {
        return None;
    }
    let mut script = Script::of(reading());
    for (_, literal) in &folders {
        script.line(format!(
            "set \"seen=;!new!;\"\n\
             if /i \"!seen:;{literal};=!\"==\"!seen!\" set \"new=!new!;{literal}\""
        ));
    }
    script.line(format!(
        "if \"!new!\"==\"!old!\" exit /b 0\n\
         {REG} add \"%key%\" /v Path /t REG_EXPAND_SZ /d \"!new!\" /f || exit /b 1"
    ));
    site.put(script);
    for (folder, _) in folders {
        site.expect(Planned::PathFolder { folder });
    }
    Some(())
}

fn reading() -> String {
    format!(
        r#"setlocal disabledelayedexpansion
set "key={ENVIRONMENT}"
set "old="
for /f "tokens=2,*" %%a in ('{REG} query "%key%" /v Path') do if not "%%b"=="" set "old=%%b"
if not defined old echo the machine's Path cannot be read
if not defined old exit /b 1
setlocal enabledelayedexpansion
set "new=!old!"
if "!new:~-1!"==";" set "new=!new:~0,-1!""#
    )
}

/// The folder as it stands in `Path`, and the same for batch text. May start with a variable: `%ProgramFiles%\x`.
fn folder(site: &mut Site<'_>, written: &Located<String>) -> Option<(String, String)> {
    let text = written.value.replace('/', "\\");
    let text = text.trim_end_matches('\\');
    let fault = if text.is_empty() {
        Some("a folder is needed")
    } else if let Some(c) = text.chars().find(|c| r#";=!^*?<>|""#.contains(*c)) {
        Some(match c {
            ';' => "`;` parts the folders of `Path`",
            '=' | '!' | '^' => "`=`, `!` and `^` cannot be compared in batch",
            _ => "no folder has such a name",
        })
    } else if !text.starts_with('%') && !text.get(1..).is_some_and(|rest| rest.starts_with(":\\")) {
        Some("a folder of `Path` is absolute")
    } else {
        None
    };
    if let Some(fault) = fault {
        site.error(
            &written.place,
            format!("`{}` cannot be added to `Path`", written.value),
            fault,
        );
        return None;
    }
    let literal = site.judged(batch::literal(text), &written.place)?;
    Some((text.to_owned(), literal))
}
