//! TODO

use super::super::site::Site;
use crate::recipe::verb::Task;

pub(super) fn task(_site: &mut Site<'_>, _task: &Task) -> Option<()> {
    None
}
