//! TODO

use super::super::site::Site;
use crate::recipe::verb::ImageImport;

pub(super) fn image(_site: &mut Site<'_>, _image: &ImageImport) -> Option<()> {
    None
}
