//! The pages that are opened: of builds over the scripted QEMU, each as it stands in the build's output, and of trials.

use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use winimg::trial::page::{ScreenImages, render_page};
use winimg::trial::result::TrialResult;

use crate::evidence::page::GREY;
use crate::faults::site::Site;
use crate::trial::page::both;
use support::server::{Answer, Server};
use support::{media, screens, tree};

/// A build and what becomes of it.
struct Build {
    name: &'static str,
    /// Faults and answers of the script.
    faults: String,
    /// Changes of the recipe.
    recipe: Vec<(String, String)>,
    status: i32,
}

/// Writes each page below `folder`, in a folder of its own with what it links.
pub fn all(folder: &Path) {
    for (name, trial) in both() {
        tried(&folder.join(name), &trial);
    }
    let dir = tree::folder();
    let template = Site::template(dir.path().join("template"));
    let pictures = dir.path().join("screens");
    std::fs::create_dir(&pictures).expect("a folder");
    assert!(screens::draw(&pictures), "the screens are drawn");
    let server = Server::start(|asked| Answer::file(asked, b"MZ another tool\n", "\"v1\""));
    for build in builds(&pictures, &server.url("/tool.exe")) {
        let site = template.copy(dir.path().join(build.name));
        made(&site, &build);
        keep(&site, &folder.join(build.name));
    }
}

/// The page with the files that it links.
fn tried(folder: &Path, trial: &TrialResult) {
    let boots = trial.clones.iter().flat_map(|clone| &clone.boots);
    let screens: Vec<&String> = boots.filter_map(|boot| boot.screen.as_ref()).collect();
    let pictures: ScreenImages = screens
        .iter()
        .map(|file| ((*file).clone(), GREY.into()))
        .collect();
    media::put(
        folder,
        "vsphere.html",
        render_page(trial, &pictures).as_bytes(),
    );
    media::put(folder, "vsphere.json", trial.to_json().as_bytes());
    let png = STANDARD.decode(GREY).expect("base64");
    for file in screens {
        media::put(folder, file, &png);
    }
}

/// `url` answers with another file than the recipe's digest is of.
fn builds(pictures: &Path, url: &str) -> [Build; 4] {
    let unreadable = "the answer file cannot be read";
    let at = screens::SCREENS.iter().position(|s| s.1 == unreadable);
    let picture = pictures.join(screens::name(at.expect("it is drawn")));
    let change = |from: &str, to: &str| vec![(from.to_owned(), to.to_owned())];
    [
        Build {
            name: "good",
            faults: String::new(),
            recipe: Vec::new(),
            status: 0,
        },
        Build {
            name: "failed-setup",
            faults: format!(
                "\n[[fault]]\nat = 'setup'\ndo = 'stands-still'\npicture = '{}'\n",
                picture.display()
            ),
            recipe: change("timeout = \"20s\"\n", "timeout = \"300s\"\n"),
            status: 6,
        },
        Build {
            name: "failed-step",
            faults: "\n[[run]]\ncommand = '*\\steps\\004.cmd'\nexit = 1603\noutput = 'Fatal error during installation.'\n".into(),
            recipe: Vec::new(),
            status: 7,
        },
        Build {
            name: "refused-download",
            faults: String::new(),
            recipe: change("url = \"tool.exe\"", &format!("url = \"{url}\"")),
            status: 5,
        },
    ]
}

fn made(site: &Site, build: &Build) {
    site.recipe(&build.recipe);
    site.machine(&build.faults, &[]);
    for earlier in ["out", "cache"] {
        std::fs::remove_dir_all(site.path(earlier)).expect("an earlier build");
    }
    let run = site.build(&["--layers", "none"], None);
    assert_eq!(run.status, build.status, "{}: {}", build.name, run.said);
}

/// The output, with nothing in its disk.
fn keep(site: &Site, to: &Path) {
    let out = site.path("out");
    let disk = out.join("node.raw");
    if disk.exists() {
        std::fs::write(disk, "").expect("an empty file");
    }
    media::run("cp", &["-a", media::text(&out), media::text(to)]);
}
