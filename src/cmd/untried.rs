//! `winimg try` where winimg starts no QEMU, and so no clones: each word of it is refused.

use std::path::Path;

use super::Context;
use crate::cli;
use crate::engine::Request;
use crate::record::Manifest;
use crate::record::manifest::Tried;
use winimg_base::error::{Error, Kind, Result};
use winimg_machine::vm::{Hypervisor, Platform};
use winimg_recipe::recipe::Recipe;

pub fn run(_: &cli::Try, _: &Context) -> Result<()> {
    Err(no_clones())
}

pub fn relay(_: &Path) -> Result<()> {
    Err(no_clones())
}

pub fn can_be_tried(_: &Recipe, _: Platform) -> Result<()> {
    Err(no_clones())
}

pub fn of_build(
    _: &cli::Build,
    _: &Request,
    _: &dyn Hypervisor,
    _: &Manifest,
    _: &Context,
) -> Result<Vec<Tried>> {
    Err(no_clones())
}

fn no_clones() -> Error {
    let fact = "clones are started by QEMU, which winimg does not start on a Windows host";
    Error::new(Kind::Host, fact).cure("try the image on Linux: winimg try")
}
