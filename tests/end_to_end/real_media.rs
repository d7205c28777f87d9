//! The stand-in's media against the lists of the real ones (tests/real): a kind of file that a real
//! medium has and ours lacks would leave a fault of winimg unseen.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use support::real;
use support::tree::root;
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

fn media(names: &[&str]) -> Vec<PathBuf> {
    let folder = root().join("target/standin");
    let all = names.iter().map(|name| folder.join(name));
    all.filter(|path| path.exists()).collect()
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

    /// By index: name, display name, edition and kind of installation, which an answer file and a
    /// recipe choose by.
    #[test]
    #[ignore = "needs the stand-in's files: make standin"]
    fn the_install_media_have_the_folders_and_images_of_the_real_ones() {
        let media = media(&[
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
            let facts = MediaFacts::read(&medium).expect("a medium of Windows");
            let (word, suffix) = if facts.eval {
                (" Evaluation", "Eval")
            } else {
                ("", "")
            };
            let images = facts.images.images.iter();
            let found: Vec<String> = images
                .map(|image| {
                    let display = image.display_name.replacen(word, "", 1);
                    let edition = image.edition_id.strip_suffix(suffix).expect(suffix);
                    let (index, name) = (image.index, &image.name);
                    format!(
                        "{index} | {name} | {display} | {edition} | {}",
                        image.installation_type
                    )
                })
                .collect();
            let year = found
                .first()
                .and_then(|first| first.split(' ').nth(4))
                .expect("a year");
            let expected: Vec<String> = real::lines("windows-server.txt")
                .iter()
                .filter_map(|line| line.strip_prefix(&format!("{year} | "))?.rsplit_once(" | "))
                .map(|(line, _)| line.to_owned())
                .collect();
            assert_eq!(found, expected, "{shown}");
        }
    }
}
