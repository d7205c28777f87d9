//! TODO

use super::super::site::Site;
use crate::recipe::verb::Defender;

pub(super) fn defender(_site: &mut Site<'_>, _defender: &Defender) -> Option<()> {
    None
}
