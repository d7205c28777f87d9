//! TODO

use super::super::site::Site;
use crate::recipe::verb::Cleanup;

pub(super) fn cleanup(_site: &mut Site<'_>, _cleanup: &Cleanup) -> Option<()> {
    None
}
