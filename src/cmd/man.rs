//! `winimg man`: a manual page for each command, made of the same definition as `--help`.

use std::path::Path;

use clap::CommandFactory as _;

use super::print;
use crate::cli::Cli;
use winimg_base::error::{Error, Result};

pub fn run(folder: &Path) -> Result<()> {
    std::fs::create_dir_all(folder).map_err(|e| Error::io("create", folder, e))?;
    let written = clap_mangen::generate_to(Cli::command(), folder);
    written.map_err(|e| Error::io("write", folder, e))?;
    let shown = folder.display();
    print(&format!(
        "wrote the manual pages to {shown}; read one: man {shown}/winimg.1\n"
    ))
}
