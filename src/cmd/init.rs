//! `winimg init`: writes a commented recipe to start from. Never overwrites a file.

use std::collections::BTreeSet;
use std::fs::OpenOptions;
use std::io::{ErrorKind, Write as _};
use std::path::{Path, PathBuf};

use crate::cli;
use winimg_base::error::{Error, Kind, Result};
use winimg_recipe::{ReadOptions, UndecidedValue, quote};

use super::{CommandContext, builtin_recipes, print, source};

const STARTER: &str = include_str!("../../recipes/starter.toml");

pub fn run(args: &cli::InitArgs, context: &CommandContext) -> Result<()> {
    let (path, text) = start(&args.recipe, args.file.as_deref(), context)?;
    let mut file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .open(&path)
        .map_err(|e| {
            let exists = e.kind() == ErrorKind::AlreadyExists;
            let error = Error::io("create", &path, e);
            if exists {
                error.cure("choose another name: init never overwrites a file")
            } else {
                error
            }
        })?;
    file.write_all(text.as_bytes())
        .map_err(|e| Error::io("write", &path, e))?;
    let shown = path.display();
    print(&format!("wrote {shown}; next: winimg plan {shown}\n"))
}

fn start(what: &Path, file: Option<&Path>, context: &CommandContext) -> Result<(PathBuf, String)> {
    let recipes = builtin_recipes::list_recipes();
    let asked = what.to_str().unwrap_or_default();
    let known = recipes.iter().find(|name| *name == asked);
    match (known, file) {
        (Some(recipe), None) => {
            let path = PathBuf::from(format!("my-{recipe}.toml"));
            let text = render_recipe(recipe, &path, context)?;
            Ok((path, text))
        }
        (Some(recipe), Some(file)) => Ok((file.into(), render_recipe(recipe, file, context)?)),
        (None, None) if asked.ends_with(".toml") => Ok((what.into(), STARTER.to_string())),
        (None, _) => Err(Error::new(
            Kind::Recipe,
            format!("there is no recipe {}", what.display()),
        )
        .cure(format!(
            "choose one of {}, or name a new file such as recipe.toml",
            recipes.join(", ")
        ))),
    }
}

/// Renders a line for each value that a built-in recipe requires from its user. `winimg pin` fills
/// in the digests.
fn render_required(recipe: &str, path: &Path, context: &CommandContext) -> Result<String> {
    let (search, shipped) = source::find_search_dirs(context)?;
    let file = format!("{recipe}.toml");
    let found = search.iter().map(|dir| dir.join(&file));
    let Some(found) = found.into_iter().find(|path| path.is_file()) else {
        return Ok(String::new());
    };
    let options = ReadOptions {
        search,
        shipped,
        // Set here because the generated recipe already sets it.
        vars: vec![("iso_url".into(), "https://example.com/windows.iso".into())],
        ..ReadOptions::default()
    };
    let (read, diagnostics) = winimg_recipe::read(&found, &options);
    let Some(read) = read else {
        // WINIMG_RECIPES may name a folder with a different recipe of that name.
        let fact = format!("cannot read the recipe {}", found.display());
        return Err(Error::new(Kind::Failed, fact).lines(diagnostics.render(false).lines()));
    };
    let variables = read.undecided.iter().filter_map(|one| match one {
        UndecidedValue::Proof(missing) => missing.variable.as_ref(),
        UndecidedValue::Variable { variable, .. } => Some(variable),
    });
    // A variable may be used in several places, but is listed once.
    let mut keys = BTreeSet::new();
    let lines: String = variables
        .filter(|v| keys.insert(&v.name))
        .map(|v| format!("{} = {{ required = {} }}\n", v.name, quote(&v.why)))
        .collect();
    if lines.is_empty() {
        return Ok(lines);
    }
    Ok(format!(
        "\n# Required: replace each {{ … }} by a value. `winimg pin {}` downloads the files\n\
         # with missing digests, shows them, and writes the digests here.\n{lines}",
        path.display()
    ))
}

fn render_recipe(recipe: &str, path: &Path, context: &CommandContext) -> Result<String> {
    let needed = render_required(recipe, path, context)?;
    Ok(format!(
        r#"# Your recipe, based on winimg's {recipe}. `winimg plan` shows what a build would do,
# and lists missing values at the end.
schema  = 1
name    = "my-{recipe}"
include = ["{recipe}.toml"]

[vars]
iso_url = "SERVER_EVAL_x64FRE_en-us.iso"
{needed}
# Add a component, and a step that copies it. `winimg plan` lists the components of {recipe}:
# to download one of them from elsewhere, set only its `url`; its digest stays the same.
# [components.tool]
# url          = "https://downloads.example.com/tool.exe"
# checksum_url = "{{{{url}}}}.sha256"

# Your steps run after those of {recipe}, before the image is sealed.
# [[steps]]
# name = "tool"
# copy = {{ component = "tool", to = 'C:\tools\tool.exe' }}
"#
    ))
}
