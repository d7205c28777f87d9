//! `winimg try` on Windows, where winimg does not support QEMU and so cannot boot clones: always
//! fails.

use std::path::Path;

use super::CommandContext;
use crate::cli;
use crate::engine::BuildRequest;
use crate::record::BuildManifest;
use crate::record::manifest::ManifestTrial;
use winimg_base::error::{Error, Kind, Result};
use winimg_machine::vm::{Hypervisor, HypervisorKind};
use winimg_recipe::Recipe;

pub fn run(_: &cli::TryArgs, _: &CommandContext) -> Result<()> {
    Err(no_clones())
}

pub fn relay(_: &Path) -> Result<()> {
    Err(no_clones())
}

pub fn can_be_tried(_: &Recipe, _: HypervisorKind) -> Result<()> {
    Err(no_clones())
}

pub fn try_build(
    _: &cli::BuildArgs,
    _: &BuildRequest,
    _: &dyn Hypervisor,
    _: &BuildManifest,
    _: &CommandContext,
) -> Result<Vec<ManifestTrial>> {
    Err(no_clones())
}

fn no_clones() -> Error {
    let fact = "clones need QEMU, which winimg does not support on Windows hosts";
    Error::new(Kind::Host, fact).cure("try the image on Linux: winimg try")
}
