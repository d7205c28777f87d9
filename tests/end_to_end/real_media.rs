//! The stand-in's media against the lists of the real ones (tests/real): a kind of file that a real
//! medium has and ours lacks would leave a fault of winimg unseen.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use support::tree::root;
use support::{media, real};
use winimg_formats::udf::Medium;
use winimg_formats::wim::MediaFacts;

/// Every file of a medium by its folder; the folder of the root is `.`.
fn files(medium: &Medium) -> BTreeMap<String, BTreeSet<String>> {
    let mut files: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    let mut waiting = vec![String::new()];
    while let Some(folder) = waiting.pop() {
        let name = if folder.is_empty() { "." } else { &folder };
        let here = files.entry(name.to_owned()).or_default();
        for entry in medium.read_dir(&folder).expect("a folder") {
            if entry.is_dir {
                waiting.push(
                    format!("{folder}/{}", entry.name)
                        .trim_matches('/')
                        .to_owned(),
                );
            } else {
                here.insert(entry.name);
            }
        }
    }
    files
}

/// What the list has and the medium lacks.
fn lacking(list: &str, files: &BTreeMap<String, BTreeSet<String>>) -> Vec<String> {
    let mut lacking = Vec::new();
    for (folder, names) in real::folders(list) {
        match files.get(&folder) {
            None => lacking.push(format!("{folder}/")),
            Some(there) => {
                let absent = names.iter().filter(|name| !there.contains(*name));
                lacking.extend(absent.map(|name| format!("{folder}/{name}")));
            }
        }
    }
    lacking
}

fn standins(names: &[&str]) -> Vec<PathBuf> {
    let folder = root().join("target/standin");
    let all = names.iter().map(|name| folder.join(name));
    all.filter(|path| path.exists()).collect()
}

/// Asserts that a medium has the images of the real one of its release and channel, by index: name,
/// display name, edition and kind of installation, which an answer file and a recipe choose by.
fn compare_images(medium: &Medium, shown: &str) {
    let facts = MediaFacts::read(medium).expect("a medium of Windows");
    let list = if facts.eval {
        "windows-server-evaluation.txt"
    } else {
        "windows-server.txt"
    };
    let images = facts.images.images.iter();
    let found: Vec<String> = images
        .map(|image| {
            format!(
                "{} | {} | {} | {} | {}",
                image.index,
                image.name,
                image.display_name,
                image.edition_id,
                image.installation_type
            )
        })
        .collect();
    let year = found
        .first()
        .and_then(|first| first.split(' ').nth(4))
        .expect("a year");
    let expected: Vec<String> = real::lines(list)
        .iter()
        .filter_map(|line| line.strip_prefix(&format!("{year} | "))?.rsplit_once(" | "))
        .map(|(line, _)| line.to_owned())
        .collect();
    assert_eq!(expected.len(), 4, "{list}: {year}");
    assert_eq!(found, expected, "{shown}");
}

/// The medium that most tests of winimg read.
#[test]
fn the_small_medium_has_the_images_of_an_evaluation_medium() {
    let folder = tempfile::tempdir().expect("a folder");
    let iso = folder.path().join("windows.iso");
    media::windows(&folder.path().join("medium"), &iso);
    compare_images(&Medium::open(&iso).expect("a medium"), "windows.iso");
}

mod made {
    use super::*;

    #[test]
    #[ignore = "needs the stand-in's files: make standin"]
    fn the_medium_of_drivers_has_every_file_of_the_real_one_and_no_other() {
        let path = root().join("target/standin/virtio-win.iso");
        let files = files(&Medium::open(&path).expect("make standin"));
        assert_eq!(lacking("virtio-win.txt", &files), [""; 0]);
        let real = real::folders("virtio-win.txt");
        for (folder, names) in &files {
            let known = real.get(folder).cloned().unwrap_or_default();
            let invented: Vec<_> = names.iter().filter(|name| !known.contains(name)).collect();
            assert!(invented.is_empty(), "{folder}: {invented:?}");
        }
    }

    #[test]
    #[ignore = "needs the stand-in's files: make standin"]
    fn the_install_media_have_the_folders_and_images_of_the_real_ones() {
        let media = standins(&[
            "standin.iso",
            "2019-evaluation.iso",
            "2019-retail.iso",
            "2022-evaluation.iso",
            "2022-retail.iso",
            "2025-evaluation.iso",
            "2025-retail.iso",
        ]);
        assert!(!media.is_empty(), "make standin");
        for path in media {
            let medium = Medium::open(&path).expect("a medium");
            let shown = path.display();
            assert_eq!(
                lacking("windows-medium.txt", &files(&medium)),
                [""; 0],
                "{shown}"
            );
            compare_images(&medium, &shown.to_string());
        }
    }
}
