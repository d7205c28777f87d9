//! Compiles `path`: adds folders to the machine's `Path`.
//!
//! Does not use `setx`, which truncates at 1,024 characters. The value stays REG_EXPAND_SZ and
//! unexpanded, as `for /f` does not expand what it reads. Values are compared by substitution,
//! which ignores case and needs no second cmd.

use super::super::PlannedCheck;
use super::super::batch::{self, BatchScript};
use super::super::step_compiler::StepCompiler;
use super::registry::{ENVIRONMENT, REG};
use crate::recipe::GuestPath;
use winimg_base::text::Located;

pub(super) fn compile_path(site: &mut StepCompiler<'_>, add: &[Located<GuestPath>]) -> Option<()> {
    let mut folders = Vec::new();
    for folder in add {
        let literal = batch::escape(folder.value.as_str());
        folders.extend(site.report_error(literal, &folder.place));
    }
    if folders.len() < add.len() {
        return None;
    }
    let mut script = BatchScript::from_lines(render_path_query());
    for literal in &folders {
        script.add_line(format!(
            "set \"seen=;!new!;\"\n\
             if /i \"!seen:;{literal};=!\"==\"!seen!\" set \"new=!new!;{literal}\""
        ));
    }
    script.add_line(format!(
        "if \"!new!\"==\"!old!\" exit /b 0\n\
         {REG} add \"%key%\" /v Path /t REG_EXPAND_SZ /d \"!new!\" /f || exit /b 1"
    ));
    site.put(script);
    for folder in add {
        site.expect(PlannedCheck::PathFolder {
            folder: folder.value.clone(),
        });
    }
    Some(())
}

fn render_path_query() -> String {
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
