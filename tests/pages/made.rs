//! The pages that are opened: of builds over the scripted QEMU, each as it stands in the build's output, and of trials.

use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use winimg::trial::page::{Pictures, page};
use winimg::trial::result::Trial;

use crate::evidence::page::GREY;
use crate::faults::site::Site;
use crate::trial::page::both;
use support::{media, screens, tree};

/// What becomes of a build: its name, faults and answers of the script, changes of the recipe, and its exit status.
type Build<'a> = (
    &'static str,
    String,
    &'a [(&'static str, &'static str)],
    i32,
);

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
    for build in builds(&pictures) {
        let site = template.copy(dir.path().join(build.0));
        made(&site, &build);
        keep(&site, &folder.join(build.0));
    }
}

/// The page with the files that it links.
fn tried(folder: &Path, trial: &Trial) {
    let boots = trial.clones.iter().flat_map(|clone| &clone.boots);
    let screens: Vec<&String> = boots.filter_map(|boot| boot.screen.as_ref()).collect();
    let pictures: Pictures = screens
        .iter()
        .map(|file| ((*file).clone(), GREY.into()))
        .collect();
    media::put(folder, "vsphere.html", page(trial, &pictures).as_bytes());
    media::put(folder, "vsphere.json", trial.to_json().as_bytes());
    let png = STANDARD.decode(GREY).expect("base64");
    for file in screens {
        media::put(folder, file, &png);
    }
}

fn builds(pictures: &Path) -> [Build<'static>; 2] {
    let unreadable = "the answer file cannot be read";
    let at = screens::SCREENS.iter().position(|s| s.1 == unreadable);
    let picture = pictures.join(screens::name(at.expect("it is drawn")));
    [
        (
            "failed-setup",
            format!(
                "\n[[fault]]\nat = 'setup'\ndo = 'stands-still'\npicture = '{}'\n",
                picture.display()
            ),
            &[("timeout = \"20s\"\n", "timeout = \"300s\"\n")],
            6,
        ),
        (
            "failed-step",
            "\n[[run]]\ncommand = '*\\steps\\004.cmd'\nexit = 1603\noutput = 'Fatal error during installation.'\n".into(),
            &[],
            7,
        ),
    ]
}

fn made(site: &Site, (name, faults, changes, status): &Build<'_>) {
    let changes = changes
        .iter()
        .map(|(from, to)| ((*from).into(), (*to).into()));
    site.recipe(&changes.collect::<Vec<_>>());
    site.machine(faults, &[]);
    let _ = std::fs::remove_dir_all(site.path("out"));
    let run = site.build(&["--layers", "none"], None);
    assert_eq!(run.status, *status, "{name}: {}", run.said);
}

/// The output without the disks.
fn keep(site: &Site, to: &Path) {
    let out = site.path("out");
    let _ = std::fs::remove_file(out.join("node.raw"));
    media::run("cp", &["-a", media::text(&out), media::text(to)]);
}
