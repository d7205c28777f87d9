//! TODO

use super::super::site::Site;
use crate::recipe::verb::Acl;

pub(super) fn acl(_site: &mut Site<'_>, _acl: &Acl) -> Option<()> {
    None
}
