//! `path`: folders added to the machine's `Path`.
//!
//! Never `setx`, which cuts at 1,024 characters. The value stays REG_EXPAND_SZ and unexpanded: what `for /f` reads is
//! not expanded again. Comparing is done by replacing, which takes no account of case and starts no second cmd.

use super::super::Planned;
use super::super::batch::{self, Script};
use super::super::site::Site;
use super::registry::{ENVIRONMENT, REG};
use crate::recipe::GuestPath;
use winimg_base::text::Located;

pub(super) fn path(site: &mut Site<'_>, add: &[Located<GuestPath>]) -> Option<()> {
    let mut folders = Vec::new();
    for folder in add {
        let literal = batch::literal(folder.value.as_str());
        folders.extend(site.judged(literal, &folder.place));
    }
    if folders.len() < add.len() {
        return None;
    }
    let mut script = Script::of(reading());
    for literal in &folders {
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
    for folder in add {
        site.expect(Planned::PathFolder {
            folder: folder.value.clone(),
        });
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
