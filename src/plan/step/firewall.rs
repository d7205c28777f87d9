//! TODO

use super::super::site::Site;
use crate::recipe::verb::FirewallRule;

pub(super) fn firewall(_site: &mut Site<'_>, _firewall: &FirewallRule) -> Option<()> {
    None
}
