//! TODO

use super::super::site::Site;
use crate::recipe::verb::Driver;

pub(super) fn driver(_site: &mut Site<'_>, _driver: &Driver) -> Option<()> {
    None
}
