//! `winimg init`: a recipe to start from, every choice explained where it stands. Never overwrites a file.

use std::collections::BTreeSet;
use std::fs::OpenOptions;
use std::io::{ErrorKind, Write as _};
use std::path::{Path, PathBuf};

use crate::cli;
use winimg_base::error::{Error, Kind, Result};
use winimg_recipe::recipe::{Options, Undecided, quoted};

use super::{Context, print, shipped, source};

const STARTER: &str = include_str!("../../recipes/starter.toml");

pub fn run(args: &cli::Init, context: &Context) -> Result<()> {
    let (path, text) = start(&args.recipe, args.file.as_deref(), context)?;
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

fn start(what: &Path, file: Option<&Path>, context: &Context) -> Result<(PathBuf, String)> {
    let recipes = shipped::recipes();
    let said = what.to_str().unwrap_or_default();
    let known = recipes.iter().find(|name| *name == said);
    match (known, file) {
        (Some(recipe), None) => {
            let path = PathBuf::from(format!("my-{recipe}.toml"));
            let text = own(recipe, &path, context)?;
            Ok((path, text))
        }
        (Some(recipe), Some(file)) => Ok((file.into(), own(recipe, file, context)?)),
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

/// What winimg's recipe leaves to its user, each as a line that a value takes the place of. `winimg pin` does that for
/// the digests.
fn needed(recipe: &str, path: &Path, context: &Context) -> Result<String> {
    let (search, shipped) = source::search_dirs(context)?;
    let file = format!("{recipe}.toml");
    let found = search.iter().map(|dir| dir.join(&file));
    let Some(found) = found.into_iter().find(|path| path.is_file()) else {
        return Ok(String::new());
    };
    let options = Options {
        search,
        shipped,
        // Named so that it is asked for below no more than the others that the recipe has a value for.
        vars: vec![("iso_url".into(), "https://example.com/windows.iso".into())],
        ..Options::default()
    };
    let (read, said) = winimg_recipe::recipe::read(&found, &options);
    let Some(read) = read else {
        // WINIMG_RECIPES may name a folder with one of that name.
        let fact = format!("cannot read the recipe {}", found.display());
        return Err(Error::new(Kind::Failed, fact).lines(said.render(false).lines()));
    };
    let variables = read.undecided.iter().filter_map(|one| match one {
        Undecided::Proof(missing) => missing.variable.as_ref(),
        Undecided::Variable { variable, .. } => Some(variable),
    });
    // One that stands for two digests, or for one and in a step, is a key once.
    let mut keys = BTreeSet::new();
    let lines = variables.filter(|v| keys.insert(&v.name));
    let lines = lines.map(|v| format!("{} = {{ required = {} }}\n", v.name, quoted(&v.why)));
    let lines: String = lines.collect();
    Ok(match lines.is_empty() {
        true => lines,
        false => format!(
            "\n# Still needed: put a value in the place of each {{ … }}. `winimg pin {}` fetches the files whose digests\n\
             # are missing, shows them, and writes the digests here.\n{lines}",
            path.display()
        ),
    })
}

fn own(recipe: &str, path: &Path, context: &Context) -> Result<String> {
    let needed = needed(recipe, path, context)?;
    Ok(format!(
        r#"# A recipe of your own on top of winimg's {recipe}. `winimg plan` shows what it means and starts nothing; at its end it
# lists what is still to be decided.
schema  = 1
name    = "my-{recipe}"
include = ["{recipe}.toml"]

[vars]
iso_url = "SERVER_EVAL_x64FRE_en-us.iso"
{needed}
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
    ))
}
