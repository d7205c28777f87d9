//! The verb `reboot`: restarts Windows.

use crate::document::value::TomlValue;
use crate::fields::{LoweringContext, TableReader};
use crate::ops::PlannedOp;
use crate::ops::compiler::StepCompiler;

pub fn read(cx: &LoweringContext<'_>, value: &TomlValue) -> Option<()> {
    TableReader::open(cx, value, "reboot").map(drop)
}

pub fn compile(site: &mut StepCompiler<'_>) {
    site.ops.push(PlannedOp::Reboot);
}
