//! TODO

use super::super::site::Site;
use crate::recipe::verb::Update;

pub(super) fn update(_site: &mut Site<'_>, _update: &Update) -> Option<()> {
    None
}
