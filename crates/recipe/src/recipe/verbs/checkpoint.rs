//! The verb `checkpoint`: a place to resume from. Runs nothing in the guest.

use crate::recipe::fields::{LoweringContext, TableReader};
use crate::recipe::value::TomlValue;

pub fn read(cx: &LoweringContext<'_>, value: &TomlValue) -> Option<()> {
    TableReader::open(cx, value, "checkpoint").map(drop)
}
