//! TODO

use super::super::site::Site;
use crate::recipe::verb::{Group, User};

pub(super) fn user(_site: &mut Site<'_>, _user: &User) -> Option<()> {
    None
}

pub(super) fn group(_site: &mut Site<'_>, _group: &Group) -> Option<()> {
    None
}
