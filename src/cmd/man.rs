//! `winimg man`: writes a manual page for each command, generated from the definitions of `--help`.

use std::path::Path;

use clap::CommandFactory as _;

use super::print;
use crate::cli::Cli;
use winimg_base::error::{Error, Result};

pub fn run(folder: &Path) -> Result<()> {
    std::fs::create_dir_all(folder).map_err(|e| Error::io("create", folder, e))?;
    clap_mangen::generate_to(Cli::command(), folder).map_err(|e| Error::io("write", folder, e))?;
    let shown = folder.display();
    print(&format!(
        "wrote the manual pages to {shown}; to read one: man {shown}/winimg.1\n"
    ))
}
