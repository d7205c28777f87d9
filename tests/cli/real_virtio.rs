//! `winimg fetch` of the drivers that every shipped recipe takes, from a medium with the folders,
//! file names and INFs of the real virtio-win (tests/real).

use std::collections::BTreeMap;

use crate::cli::site::{SEAL, Site};
use crate::packs;
use support::media::{run, text};
use support::real;
use support::tree::root;

/// The drivers that each shipped recipe with packs/virtio.toml takes, with the names of the
/// recipes.
fn wanted() -> BTreeMap<Vec<String>, Vec<String>> {
    let mut wanted: BTreeMap<Vec<String>, Vec<String>> = BTreeMap::new();
    for path in packs::recipes() {
        let name = packs::name(&path);
        let recipe = packs::silent(&path, &packs::options_for(&name));
        if recipe.media.virtio.is_some() {
            wanted.entry(recipe.setup.drivers).or_default().push(name);
        }
    }
    wanted
}

/// A site whose medium is the real one in names, and its recipe for these drivers.
fn site(drivers: &[&str]) -> Site {
    let site = Site::new(SEAL);
    let authority = root().join("tests/demo/authority.sh");
    run(text(&authority), &[text(&site.path("ca"))]);
    real::virtio(&site.path("real"), &site.path("ca"), drivers);
    let iso = site.path("real.iso");
    let words = [
        "-quiet",
        "-J",
        "-joliet-long",
        "-R",
        "-V",
        "virtio-win-0.1.302",
    ];
    let tree = site.path("real");
    run(
        "genisoimage",
        &[&words[..], &["-o", text(&iso), text(&tree)]].concat(),
    );
    site
}

fn recipe(site: &Site, drivers: &[String]) {
    let digest = run("sha256sum", &[text(&site.path("real.iso"))]);
    let text = format!(
        "schema = 1\nname = \"node\"\n\n[media]\nimage = \"datacenter-core\"\n\n[media.iso]\nurl = \"windows.iso\"\n\
         unverified = \"made by the test\"\n\n[media.virtio]\nurl = \"real.iso\"\nsha256 = \"{}\"\n\
         signature = {{ kind = \"catalogs\", roots = \"ca/root.pem\", subject = \"CN=winimg demo code signing\", timestamp = \"optional\" }}\n\n\
         [setup]\ndrivers = {drivers:?}\n\n[machine]\ndisk_size = \"64 GiB\"\n\n[outputs]\nraw = {{}}\n\n{SEAL}",
        &digest[..64]
    );
    site.write("recipe.toml", &text);
}

#[test]
fn every_shipped_recipe_fetches_its_drivers_from_a_medium_with_the_files_of_the_real_one() {
    let wanted = wanted();
    let recipes: usize = wanted.values().map(Vec::len).sum();
    assert!(recipes >= 13, "only {recipes} recipes take drivers");
    let mut drivers: Vec<&str> = wanted.keys().flatten().map(String::as_str).collect();
    drivers.sort_unstable();
    drivers.dedup();
    let site = site(&drivers);
    for (drivers, recipes) in &wanted {
        recipe(&site, drivers);
        let fetched = site.run(&["fetch", "recipe.toml", "--json"]);
        let fetched = fetched.ended_well();
        let said = fetched.stdout();
        for driver in drivers {
            for release in real::RELEASES {
                let folder = format!("{driver}/{release}/amd64");
                assert!(said.contains(&folder), "{recipes:?}: {folder} in {said}");
            }
        }
    }
}

/// The list is of the real medium: what made the recipes fail is on it, and nothing that an INF
/// names is absent.
#[test]
fn the_list_of_the_real_medium_is_whole() {
    let folders = real::folders("virtio-win.txt");
    for (path, names) in real::folders("virtio-win-infs.txt") {
        let (driver, inf) = path.split_once('/').expect("a folder");
        for release in real::RELEASES {
            let folder = format!("{driver}/{release}/amd64");
            // Not every driver is for each release.
            let Some(files) = folders.get(&folder) else {
                continue;
            };
            for name in names.iter().map(String::as_str).chain([inf]) {
                let is_there = files.iter().any(|file| file.eq_ignore_ascii_case(name));
                assert!(is_there, "{folder}: {name}");
            }
        }
    }
    let netkvm = &folders["NetKVM/2k22/amd64"];
    for file in ["netkvmp.exe", "netkvmco.exe", "netkvmco.pdb", "Readme.md"] {
        assert!(netkvm.iter().any(|known| known == file), "{file}");
    }
}
