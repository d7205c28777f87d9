//! `winimg inspect` of media.

use std::fs;

use support::media;

use crate::cli::site::Site;

/// What a build would refuse is not passed over.
#[test]
fn a_medium_whose_install_image_is_cut_is_an_error() {
    let site = Site::new("");
    let shown = site.run(&["inspect", "windows.iso"]).ended_well().stdout();
    assert!(
        shown.contains("Windows Server 2022 SERVERDATACENTERCORE"),
        "{shown}"
    );
    let wim = site.path("medium/root/sources/install.wim");
    let bytes = fs::read(&wim).expect("the WIM");
    fs::write(&wim, &bytes[..bytes.len() - 1000]).expect("the WIM");
    media::udf(&site.path("medium/root"), &site.path("cut.iso"), &[]);
    let outcome = site.run(&["inspect", "cut.iso"]);
    assert_eq!(outcome.status(), Some(5), "{}", outcome.whole());
    assert!(
        outcome.error().contains("this WIM is truncated"),
        "{}",
        outcome.error()
    );
    // A medium of another kind is shown as it is.
    fs::remove_dir_all(site.path("medium/root/sources")).expect("removed");
    media::udf(&site.path("medium/root"), &site.path("other.iso"), &[]);
    let shown = site.run(&["inspect", "other.iso"]).ended_well().stdout();
    assert!(
        shown.contains("README.TXT") && shown.contains("boot"),
        "{shown}"
    );
}
