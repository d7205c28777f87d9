//! Builds on the scripted machine, seen through `winimg watch`.

use nix::sys::signal::Signal;

use crate::cli::paused::{Build, piped, site};
use crate::cli::site::{SEAL, Site};
use support::watch::Watch;

#[test]
fn a_build_is_shown_from_its_pause_to_its_end() {
    let site = site();
    let mut build = Build::paused(&site, &["--break", "two"]);
    let watch = Watch::start(site.command(&["watch", "out"]));
    let page = watch.shows("Now: provision, [1/3] one");
    for part in ["stopped before step 2", "<code>winimg attach /"] {
        assert!(page.contains(part), "{part}\n{page}");
    }
    assert!(
        watch
            .url
            .get("screen")
            .contains("Content-Type: image/png\r\n")
    );
    let mut events = watch.url.events(0);
    piped(&site, &["attach", "out"], ".go\n");
    let mut said = String::new();
    while !said.contains("The build has ended") {
        let event = events.read_next();
        assert!(!event.is_empty(), "{said}");
        said += &event;
    }
    site.ended(build.end()).ended_well();
    let page = watch.shows("node is built");
    assert!(!page.contains("screen-now\" alt"), "{page}");
    assert_eq!(watch.interrupted(), Some(0));
}

#[test]
fn a_build_that_is_killed_is_shown_as_it_was() {
    let site = site();
    let mut build = Build::paused(&site, &["--break", "two"]);
    let watch = Watch::start(site.command(&["watch", "out"]));
    watch.shows("Now: provision, [1/3] one");
    build.signal(Signal::SIGKILL);
    build.end();
    watch.shows("The build has ended");
}

#[test]
fn without_a_folder_all_that_run_are_listed() {
    let site = site();
    let watch = Watch::start(site.command(&["watch"]));
    let mut build = Build::paused(&site, &["--break", "two"]);
    let folder = site.path("out").display().to_string();
    let page = watch.shows(&folder);
    let row = page
        .lines()
        .find(|line| line.contains(&folder))
        .expect("its row");
    assert!(row.contains("<td>provision, [1/3] one</td>"), "{row}");
    let link = row.split('"').nth(1).expect("a link");
    assert!(watch.url.get(link).contains("stopped before step 2"));
    build.signal(Signal::SIGINT);
    build.end();
    watch.shows("<td>ended</td>");
}

#[test]
fn what_can_not_be_watched_is_refused() {
    let site = Site::new(SEAL);
    std::fs::create_dir(site.path("empty")).expect("a folder");
    let watch = Watch::start(site.command(&["watch"]));
    let port = watch.url.host.rsplit_once(':').expect("a port").1;
    let mut said = String::new();
    for arguments in [
        &["watch", "empty"][..],
        &["watch", "nothing"],
        &["watch", "--port", port],
    ] {
        let outcome = site.run(arguments);
        said += &outcome.whole().replace(port, "[port]");
    }
    insta::assert_snapshot!(said);
}
