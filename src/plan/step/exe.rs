//! TODO

use super::super::site::Site;
use crate::recipe::verb::Exe;

pub(super) fn exe(_site: &mut Site<'_>, _exe: &Exe) -> Option<()> {
    None
}
