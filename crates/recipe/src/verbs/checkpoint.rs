//! The verb `checkpoint`: a place to resume from. Runs nothing in the guest.

use crate::document::value::TomlValue;
use crate::fields::{LoweringContext, TableReader};

pub fn read(cx: &LoweringContext<'_>, value: &TomlValue) -> Option<()> {
    TableReader::open(cx, value, "checkpoint").map(drop)
}
