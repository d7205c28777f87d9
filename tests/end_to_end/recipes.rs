//! Each shipped recipe but the demo, built on the stand-in with stand-ins for what it fetches. The inputs are given as a team gives
//! its own: by a recipe on top of the shipped one, with other sources, digests and signers.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use support::rows;
use support::tree::{self, root};

use super::program::Build;
use super::publishers::Log;
use super::stand_ins::recipe_on;

/// Machines that run at once: two are what a machine with two processors bears.
const AT_ONCE: usize = 2;
const LIMIT: Duration = Duration::from_secs(40 * 60);

/// Steps that the stand-in does not play, and why (docs/fidelity.md).
const NOT_PLAYED: [(&str, &str); 1] = [(
    // PowerShell that reads the version resource of a program.
    "wmco-aws",
    "EC2Launch is new enough for the operator",
)];

/// What became of one recipe.
struct Row {
    name: String,
    minutes: f64,
    /// Nothing where it was built.
    wrong: String,
}

/// winimg's recipes; `RECIPES=word,word` picks those whose name holds one of the words.
fn wanted() -> Vec<PathBuf> {
    let words = std::env::var("RECIPES").unwrap_or_default();
    let files = std::fs::read_dir(root().join("recipes")).expect("the recipes");
    let mut files: Vec<PathBuf> = files.map(|file| file.expect("an entry").path()).collect();
    files.retain(|file| {
        let name = name_of(file);
        let is_recipe = file.extension().is_some_and(|ending| ending == "toml") && name != "demo";
        is_recipe && rows::is_wanted(&words, &[&name])
    });
    files.sort();
    files
}

fn name_of(file: &Path) -> String {
    let stem = file.file_stem().expect("a name");
    stem.to_string_lossy().into_owned()
}

fn run(shipped: &Path, folder: &Path, log: &Log) -> Row {
    let began = Instant::now();
    let name = name_of(shipped);
    let work = folder.join(&name);
    std::fs::create_dir_all(&work).expect("a folder");
    let own = recipe_on(shipped, &work, log);
    let output = work.join("out");
    let done = built(&name, &own, &output, &folder.join("cache"));
    Row {
        name,
        minutes: began.elapsed().as_secs_f64() / 60.0,
        wrong: done.err().unwrap_or_default(),
    }
}

fn built(name: &str, own: &Path, output: &Path, cache: &Path) -> Result<(), String> {
    let steps = NOT_PLAYED.iter().filter(|(recipe, _)| *recipe == name);
    let mut more = Vec::new();
    for (_, step) in steps {
        more.extend(["--set".to_owned(), format!("steps.{step:?}.when=false")]);
    }
    let more: Vec<&str> = more.iter().map(String::as_str).collect();
    let recipe = own.to_str().expect("UTF-8");
    let mut build = Build::start(recipe, output, cache, &more);
    match build.end(LIMIT).code() {
        Some(0) => Ok(()),
        _ => Err(build.error()),
    }
}

/// Each file is proved as its publisher's would be, below roots of the tests.
fn proved(shipped: &Path, folder: &Path, log: &Log) {
    let name = name_of(shipped);
    let work = folder.join(&name);
    std::fs::create_dir_all(&work).expect("a folder");
    let own = recipe_on(shipped, &work, log);
    let fetched = Command::new(tree::winimg())
        .args(["--log-format", "json", "fetch"])
        .arg(&own)
        .env("WINIMG_CACHE_DIR", folder.join("cache"))
        .output()
        .expect("winimg runs");
    let said = String::from_utf8_lossy(&fetched.stderr);
    assert!(fetched.status.success(), "{name}: {said}");
}

mod nightly {
    use super::*;

    #[test]
    #[ignore = "needs the stand-in's files: make shipped-recipes"]
    fn what_every_shipped_recipe_fetches_is_proved_as_its_publisher_signs() {
        let folder = tempfile::tempdir_in(root().join("target")).expect("a directory");
        let log = Log::start();
        for recipe in wanted() {
            proved(&recipe, folder.path(), &log);
        }
    }

    #[test]
    #[ignore = "boots QEMU for most of an hour: make shipped-recipes"]
    fn every_shipped_recipe_is_built() {
        let folder = tempfile::tempdir_in(root().join("target")).expect("a directory");
        let recipes = wanted();
        let log = Log::start();
        let rows = rows::at_once(&recipes, AT_ONCE, |recipe| {
            let row = run(recipe, folder.path(), &log);
            println!("{:5.1} min  {}  {}", row.minutes, row.name, row.wrong);
            // Its image is large.
            let _ = std::fs::remove_dir_all(folder.path().join(&row.name));
            row
        });
        assert_eq!(rows.len(), recipes.len(), "a row for each recipe");
        let failed = rows.iter().filter(|row| !row.wrong.is_empty());
        let failed: Vec<&str> = failed.map(|row| row.name.as_str()).collect();
        assert!(failed.is_empty(), "failed: {failed:?}");
    }
}
