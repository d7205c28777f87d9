//! The verb `directory`: creates a folder and its parents.

use crate::GuestPath;
use crate::document::value::TomlValue;
use crate::fields::{LoweringContext, TableReader};
use crate::ops::PlannedCheck;
use crate::ops::batch::BatchScript;
use crate::ops::compiler::StepCompiler;
use winimg_base::text::Located;

/// Values of `directory`.
#[derive(Clone, Debug)]
pub struct DirectorySpec {
    pub path: Located<GuestPath>,
}

pub fn read(cx: &LoweringContext<'_>, value: &TomlValue) -> Option<DirectorySpec> {
    let fields = TableReader::open(cx, value, "directory")?;
    let path = fields.guest_path("path");
    path.map(|path| DirectorySpec { path })
}

pub fn compile(site: &mut StepCompiler<'_>, directory: &DirectorySpec) -> Option<()> {
    let at = &directory.path;
    let quoted = site.quoted_path(at)?;
    let mut script = BatchScript::new();
    script.make_folder(&quoted);
    site.put(script);
    site.expect(PlannedCheck::Exists {
        path: at.value.clone(),
    });
    Some(())
}
