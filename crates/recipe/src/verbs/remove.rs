//! The verb `remove`: removes a file or folder.

use crate::GuestPath;
use crate::document::value::TomlValue;
use crate::fields::{LoweringContext, TableReader};
use crate::ops::PlannedCheck;
use crate::ops::batch::BatchScript;
use crate::ops::compiler::StepCompiler;
use winimg_base::text::Located;

/// Values of `remove`.
#[derive(Clone, Debug)]
pub struct RemoveSpec {
    pub path: Located<GuestPath>,
    pub recursive: bool,
}

pub fn read(cx: &LoweringContext<'_>, value: &TomlValue) -> Option<RemoveSpec> {
    let fields = TableReader::open(cx, value, "remove")?;
    let path = fields.guest_path("path");
    let recursive = fields.flag("recursive");
    Some(RemoveSpec {
        path: path?,
        recursive,
    })
}

/// Removes a file or folder. `del` exits with 0 even if it removes nothing, so the script checks.
pub fn compile(site: &mut StepCompiler<'_>, remove: &RemoveSpec) -> Option<()> {
    let at = &remove.path;
    if at.value.is_vital() {
        let message = format!("Windows cannot run without `{}`", at.value);
        let help = "name a file or folder that Windows does not need";
        site.error_with_help(&at.place, message, "refused", help);
        return None;
    }
    let whole = site.quoted_path(at)?;
    let folder = format!("{}\\\"", whole.trim_end_matches('"'));
    let mut script = BatchScript::new();
    if remove.recursive {
        script.add_line(format!("if exist {folder} rd /s /q {whole}"));
    } else {
        script.add_line(format!(
            "if exist {folder} echo {whole} is a folder, and the step does not say recursive = \
             true\n\
             if exist {folder} exit /b 1"
        ));
    }
    script.add_line(format!(
        "if exist {whole} del /f /q {whole}\n\
         if not exist {whole} exit /b 0\n\
         echo {whole} is still there\n\
         exit /b 1"
    ));
    site.put(script);
    site.expect(PlannedCheck::Missing {
        path: at.value.clone(),
    });
    Some(())
}
