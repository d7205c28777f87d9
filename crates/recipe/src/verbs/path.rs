//! The verb `path`: adds folders to the machine's `Path`.
//!
//! Does not use `setx`, which truncates at 1,024 characters. The value stays REG_EXPAND_SZ and
//! unexpanded, as `for /f` does not expand what it reads. Values are compared by substitution,
//! which ignores case and needs no second cmd.

use crate::GuestPath;
use crate::document::value::TomlValue;
use crate::fields::{LoweringContext, TableReader};
use crate::ops::PlannedCheck;
use crate::ops::batch::{self, BatchScript};
use crate::ops::compiler::StepCompiler;
use crate::ops::programs::REG;
use crate::verbs::environment::ENVIRONMENT;
use winimg_base::text::Located;

/// Values of `path`.
#[derive(Clone, Debug)]
pub struct PathSpec {
    pub add: Vec<Located<GuestPath>>,
}

pub fn read(cx: &LoweringContext<'_>, value: &TomlValue) -> Option<PathSpec> {
    let fields = TableReader::open(cx, value, "path")?;
    let given = fields.read_strings("add");
    let all = given.len();
    let mut add = Vec::new();
    for folder in given {
        let (fact, help) = if folder.value.contains(';') {
            let fact = "a folder on the Path cannot have `;` in its name";
            (fact, "write one string per folder")
        } else if folder.value.contains(['=', '!', '^']) {
            let fact = "a folder on the Path cannot have `=`, `!` or `^` in its name";
            (fact, "batch files cannot compare them: use another folder")
        } else {
            add.extend(fields.guest_path_of("add", folder));
            continue;
        };
        cx.error(fact, &folder.place, "", help);
    }
    (all > 0 && add.len() == all).then_some(PathSpec { add })
}

pub fn compile(site: &mut StepCompiler<'_>, path: &PathSpec) -> Option<()> {
    let add = &path.add;
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
