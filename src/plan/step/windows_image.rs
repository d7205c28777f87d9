//! TODO

use super::super::site::Site;
use crate::recipe::verb::{Capability, Feature};

pub(super) fn feature(_site: &mut Site<'_>, _feature: &Feature) -> Option<()> {
    None
}

pub(super) fn capability(_site: &mut Site<'_>, _capability: &Capability) -> Option<()> {
    None
}
