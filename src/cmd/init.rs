//! `winimg init`: a recipe to start from, every choice explained where it stands. Never overwrites a file.

use std::fs::OpenOptions;
use std::io::{ErrorKind, Write as _};
use std::path::{Path, PathBuf};

use crate::cli;
use crate::error::{Error, Kind, Result};

use super::{print, shipped};

const STARTER: &str = include_str!("../../recipes/starter.toml");

pub fn run(args: &cli::Init) -> Result<()> {
    let (path, text) = start(&args.recipe, args.file.as_deref())?;
    let mut file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .open(&path)
        .map_err(|e| {
            let exists = e.kind() == ErrorKind::AlreadyExists;
            let error = Error::io("create", &path, e);
            if exists {
                error.cure("give another name: an existing recipe is never overwritten")
            } else {
                error
            }
        })?;
    file.write_all(text.as_bytes())
        .map_err(|e| Error::io("write", &path, e))?;
    let shown = path.display();
    print(&format!("wrote {shown}; next: winimg plan {shown}\n"))
}

/// The file to write and its text.
fn start(what: &Path, file: Option<&Path>) -> Result<(PathBuf, String)> {
    let recipes = shipped::recipes();
    let said = what.to_str().unwrap_or_default();
    let known = recipes.iter().find(|name| *name == said);
    match (known, file) {
        (Some(recipe), None) => Ok((format!("my-{recipe}.toml").into(), own(recipe))),
        (Some(recipe), Some(file)) => Ok((file.into(), own(recipe))),
        (None, None) if said.ends_with(".toml") => Ok((what.into(), STARTER.to_string())),
        (None, _) => Err(Error::new(
            Kind::Recipe,
            format!("there is no recipe {}", what.display()),
        )
        .cure(format!(
            "winimg's recipes: {}; or name a new file: recipe.toml",
            recipes.join(", ")
        ))),
    }
}

/// A recipe on top of one of winimg's.
fn own(recipe: &str) -> String {
    format!(
        r#"# A recipe of your own on top of winimg's {recipe}. `winimg plan` shows what it means and starts nothing; it asks for every
# value that is still needed and says where to find it.
schema  = 1
name    = "my-{recipe}"
include = ["{recipe}.toml"]

[vars]
iso_url = "SERVER_EVAL_x64FRE_en-us.iso"

# A component of yours, and the step that lays it down. `winimg plan` lists those of {recipe}: under the name of one of them,
# `url` alone is another source, and the digest stays what it is.
# [components.tool]
# url          = "https://downloads.example.com/tool.exe"
# checksum_url = "{{{{url}}}}.sha256"

# Steps of yours come after those of {recipe}, before the image is sealed.
# [[steps]]
# name = "tool"
# copy = {{ component = "tool", to = 'C:\tools\tool.exe' }}
"#
    )
}
