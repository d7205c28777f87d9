//! The verb `reboot`: restarts Windows.

use crate::recipe::fields::{LoweringContext, TableReader};
use crate::recipe::ops::PlannedOp;
use crate::recipe::ops::compiler::StepCompiler;
use crate::recipe::value::TomlValue;

pub fn read(cx: &LoweringContext<'_>, value: &TomlValue) -> Option<()> {
    TableReader::open(cx, value, "reboot").map(drop)
}

pub fn compile(site: &mut StepCompiler<'_>) {
    site.ops.push(PlannedOp::Reboot);
}
