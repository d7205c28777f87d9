//! `winimg init`: a recipe to start from, every choice explained where it stands.

use std::fs::OpenOptions;
use std::io::{ErrorKind, Write as _};

use crate::cli;
use crate::error::{Error, Result};

use super::print;

const STARTER: &str = include_str!("../../recipes/starter.toml");

pub fn run(args: &cli::Init) -> Result<()> {
    let path = &args.recipe;
    let mut file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .open(path)
        .map_err(|e| {
            let exists = e.kind() == ErrorKind::AlreadyExists;
            let error = Error::io("create", path, e);
            if exists {
                error.cure("give another name: an existing recipe is never overwritten")
            } else {
                error
            }
        })?;
    file.write_all(STARTER.as_bytes())
        .map_err(|e| Error::io("write", path, e))?;
    let shown = path.display();
    print(&format!("wrote {shown}; next: winimg plan {shown}\n"))
}
