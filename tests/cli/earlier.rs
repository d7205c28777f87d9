//! An earlier image in the folder of a build that fails: it is set aside, and nothing of it is lost.

use std::fs;

use crate::cli::resume::STEPS;
use crate::cli::site::{BUILD, Outcome, SEAL, Site};

const FAILS: &str = "[[run]]\ncommand = 'C:\\Windows\\System32\\reg.exe add *'\nexit = 1\n";
/// What a job uploads after a build, whether it failed or not.
const RESULTS: [&str; 5] = [
    "manifest.json",
    "node.raw",
    "packer-manifest.json",
    "provenance.intoto.json",
    "sbom.cdx.json",
];

/// A folder with a finished image in `out`.
fn built() -> Site {
    let site = Site::new(&format!("{STEPS}\n{SEAL}"));
    site.build(&[]).ended_well();
    site
}

/// The same recipe with another last step, so that there is something to do.
fn changed(site: &Site) {
    let recipe = site.read("recipe.toml");
    site.write("recipe.toml", &recipe.replace("\"gold\"", "\"silver\""));
}

fn failed<'a>(site: &'a Site) -> Outcome<'a> {
    site.another_machine("", FAILS);
    let failed = site.build(&[]);
    assert_eq!(failed.status(), Some(7), "{}", failed.whole());
    failed
}

fn contents(site: &Site, folder: &str) -> Vec<Option<Vec<u8>>> {
    let read = |name: &str| fs::read(site.path(folder).join(name)).ok();
    RESULTS.map(read).to_vec()
}

fn image(site: &Site, folder: &str) -> Vec<Option<Vec<u8>>> {
    let image = contents(site, folder);
    assert!(image.iter().all(Option::is_some), "{:?}", site.files("out"));
    image
}

const NONE: [Option<Vec<u8>>; 5] = [const { None }; 5];

#[test]
fn a_failed_build_leaves_nothing_of_it_beside_its_own_files_and_says_where_it_is() {
    let site = built();
    let before = image(&site, "out");
    changed(&site);
    let said = failed(&site).error();
    let line = said
        .lines()
        .find(|line| line.contains("the earlier image"))
        .unwrap_or_else(|| panic!("{said}"));
    assert!(
        line.starts_with("  | the earlier image, finished at "),
        "{line}"
    );
    let end = ", is in /site/out/earlier until a build succeeds";
    assert!(line.ends_with(end), "{line}");
    assert_eq!(contents(&site, "out"), NONE, "{:?}", site.files("out"));
    assert_eq!(image(&site, "out/earlier"), before);
    let page = site.read("out/report.html");
    assert!(page.contains("<title>node: Step 3"), "{page}");
    let earlier = site.read("out/earlier/report.html");
    assert!(earlier.contains("<title>node: node is built"), "{earlier}");
    assert!(site.path("out/earlier/logs/01-the-tool.log").exists());

    // A second failure leaves it where it is.
    let said = failed(&site).error();
    assert!(said.contains(end), "{said}");
    assert_eq!(image(&site, "out/earlier"), before);

    // A good build is all that is left, and its record of builds goes on.
    site.another_machine("", "");
    site.build(&[]).ended_well();
    assert!(!site.path("out/earlier").exists());
    assert_ne!(image(&site, "out"), before);
    let builds = site.read("out/packer-manifest.json");
    assert_eq!(builds.matches("\"packer_run_uuid\"").count(), 2, "{builds}");
}

#[test]
fn the_recipe_of_before_finds_it_again_and_nothing_to_do() {
    let site = built();
    let recipe = site.read("recipe.toml");
    let before = image(&site, "out");
    let page = site.read("out/report.html");
    changed(&site);
    failed(&site);
    assert!(site.path("out/failure").exists());
    site.write("recipe.toml", &recipe);
    site.another_machine("", "");
    for _ in 0..2 {
        let again = site.build(&[]).ended_well();
        assert!(
            again.whole().contains("nothing changed"),
            "{}",
            again.whole()
        );
        assert_eq!(image(&site, "out"), before);
    }
    assert_eq!(site.read("out/report.html"), page);
    for gone in ["out/earlier", "out/failure"] {
        assert!(!site.path(gone).exists(), "{gone}");
    }
    // One that was touched there is none to fall back on.
    changed(&site);
    failed(&site);
    site.write("out/earlier/node.raw", "something else");
    site.write("recipe.toml", &recipe);
    site.another_machine("", "");
    let again = site.build(&[]).ended_well();
    assert!(
        !again.whole().contains("nothing changed"),
        "{}",
        again.whole()
    );
    assert!(!site.path("out/earlier").exists());
}

#[test]
fn its_lock_still_refuses_an_older_one() {
    let site = Site::new(&format!("{STEPS}\n{SEAL}"));
    site.run(&["lock", "recipe.toml"]).ended_well();
    let (recipe, first) = (site.read("recipe.toml"), site.read("recipe.lock"));
    let newer = recipe.replace("version = \"1.2.0\"", "version = \"1.2.1\"");
    site.write("recipe.toml", &newer);
    site.run(&["lock", "recipe.toml"]).ended_well();
    site.build(&[]).ended_well();
    changed(&site);
    failed(&site);
    // Another cache knows nothing.
    fs::remove_dir_all(site.path("cache")).expect("the cache");
    site.write("recipe.toml", &recipe);
    site.write("recipe.lock", &first);
    let refused = site.run(&BUILD);
    assert_eq!(refused.status(), Some(2), "{}", refused.whole());
    let said = refused.failure();
    let fact = "recipe.lock is older than a lock already used here for `node`";
    assert!(said.contains(fact), "{said}");
}

#[test]
fn a_build_that_does_not_begin_leaves_the_folder_as_it_is() {
    let site = built();
    let (files, before) = (site.files("out"), image(&site, "out"));
    let recipe = site.read("recipe.toml");
    site.write("recipe.toml", &format!("{recipe}\n[nonsense]\n"));
    assert_eq!(site.build(&[]).status(), Some(2));
    site.write("recipe.toml", &recipe);
    let tool = site.read("tool.exe");
    fs::remove_file(site.path("tool.exe")).expect("the tool");
    fs::remove_dir_all(site.path("cache")).expect("the cache");
    let lacking = site.build(&[]);
    assert_ne!(lacking.status(), Some(0), "{}", lacking.whole());
    assert_eq!(site.files("out"), files, "{}", lacking.whole());
    assert_eq!(image(&site, "out"), before);

    // An input that is found to be wrong is a build that failed.
    site.write("tool.exe", &format!("{tool}changed"));
    let wrong = site.build(&[]);
    assert_eq!(wrong.status(), Some(5), "{}", wrong.whole());
    assert_eq!(contents(&site, "out"), NONE);
    assert_eq!(image(&site, "out/earlier"), before);
}
