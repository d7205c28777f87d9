//! `report.html` of builds that ended well and that failed, and the same page from their folder alone.

use crate::cli::site::{SEAL, Site};

const STEP: &str = "[[steps]]\nname = \"hello\"\ncmd = \"echo hello\"\n";
const FAILS: &str =
    "[[run]]\ncommand = '*\\steps\\001.cmd'\nexit = -2146498529\noutput = \"no\\r\\n\"\n";

/// The folder is moved, and its page made there.
fn again(site: &Site) {
    let page = site.read("out/report.html");
    std::fs::rename(site.path("out"), site.path("moved")).expect("moved");
    std::fs::remove_file(site.path("moved/report.html")).expect("removed");
    site.run(&["report", "moved"]).ended_well();
    assert_eq!(site.read("moved/report.html"), page);
    site.run(&["report", "moved", "--output", "other page.html"])
        .ended_well();
    let other = site.read("other page.html");
    let linked = |page: &str, to: &str| page.contains(&format!("<a href=\"{to}\">"));
    assert!(linked(&page, "events.jsonl"), "{page}");
    assert!(linked(&other, "moved/events.jsonl"), "{other}");
    assert!(!linked(&other, "events.jsonl"), "{other}");
}

fn sections(page: &str) -> Vec<&str> {
    let ids = page.split("<section id=\"").skip(1);
    ids.filter_map(|rest| rest.split('"').next()).collect()
}

#[test]
fn a_build_that_ended_well_has_a_page_that_is_made_again_from_its_folder() {
    let site = Site::with_every_output(STEP);
    site.build(&[]).ended_well();
    let page = site.read("out/report.html");
    for words in [
        "<h1 class=\"good\">node is built</h1>",
        "az disk create -g GROUP -n node --os-type Windows --hyper-v-generation V2",
        "--template node --cluster CLUSTER --datastore DATASTORE",
        "not verified: made by the test",
        "hello: ",
        "exit code 0",
    ] {
        assert!(page.contains(words), "{words}:\n{page}");
    }
    assert_eq!(
        sections(&page),
        [
            "artifacts",
            "next",
            "timeline",
            "components",
            "steps",
            "warnings",
            "cache",
            "machine",
            "files"
        ]
    );
    // Nothing to do: the page of the build that made it stays.
    site.build(&[]).ended_well();
    assert_eq!(site.read("out/report.html"), page);
    std::fs::remove_file(site.path("out/report.html")).expect("removed");
    site.build(&[]).ended_well();
    assert!(site.read("out/report.html").contains("node is built"));
    again(&site);
}

#[test]
fn a_failed_step_has_a_page_that_is_made_again_from_its_folder() {
    let site = Site::new(&format!("{STEP}\n{SEAL}"));
    site.machine("", FAILS);
    assert_eq!(site.build(&["--var", "note=a b"]).status(), Some(2));
    assert!(!site.path("out/report.html").exists());
    assert_eq!(site.build(&[]).status(), Some(7));
    let page = site.read("out/report.html");
    for words in [
        "<h1 class=\"bad\">Step 1, <code>hello</code>: a step failed in the guest</h1>",
        "exit code -2146498529 (0x800f081f)",
        "The files of a feature are missing from the image and from the source.",
        "<pre>winimg build recipe.toml --hypervisor fake:machine.toml --output out --no-verify</pre>",
        "The next build resumes from the layer after the installation: 1 of 3 parts are done.",
        "not verified: made by the test",
    ] {
        assert!(page.contains(words), "{words}:\n{page}");
    }
    again(&site);
}

#[test]
#[cfg(unix)]
fn what_links_lead_to_outside_of_the_folder_is_not_in_the_page() {
    use std::os::unix::fs::symlink;

    let site = Site::with_every_output(STEP);
    site.build(&[]).ended_well();
    site.write("secret.txt", "HOSTSECRET-1234");
    site.write("others/02-x.log", "HOSTSECRET-1234");
    let logs = site.path("out/logs");
    for log in std::fs::read_dir(&logs).expect("the logs").flatten() {
        std::fs::remove_file(log.path()).expect("removed");
        symlink("../../secret.txt", log.path()).expect("a link");
    }
    symlink("/dev/zero", site.path("out/screens.png")).expect("a link");
    symlink("../others", site.path("out/other-logs")).expect("a link");
    site.run(&["report", "out"]).ended_well();
    assert!(!site.read("out/report.html").contains("HOSTSECRET"));
    // The whole folder of the logs.
    std::fs::rename(&logs, site.path("gone")).expect("moved");
    symlink("../others", &logs).expect("a link");
    site.run(&["report", "out"]).ended_well();
    assert!(!site.read("out/report.html").contains("HOSTSECRET"));
    // A record itself.
    std::fs::rename(site.path("out/events.jsonl"), site.path("events.jsonl")).expect("moved");
    symlink("../events.jsonl", site.path("out/events.jsonl")).expect("a link");
    let outcome = site.run(&["report", "out"]);
    assert_eq!(outcome.status(), Some(1));
    assert!(
        outcome
            .stderr()
            .contains("events.jsonl is outside the folder"),
        "{}",
        outcome.stderr()
    );
}

#[test]
fn a_folder_without_records_is_refused() {
    let site = Site::empty();
    site.write("empty/notes.txt", "nothing of winimg's");
    let outcome = site.run(&["report", "empty"]);
    assert_eq!(outcome.status(), Some(2));
    assert_eq!(
        outcome.error(),
        "error: there are no records of a build here\n  at: empty\n  expected: the output folder of `winimg build`: \
         events.jsonl or manifest.json\n  cure: pass the folder that contains events.jsonl\n"
    );
    assert!(!site.path("empty/report.html").exists());
}
