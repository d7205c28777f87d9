//! Installations that fail: the cause by its name, the evidence in the output directory.

use crate::cli::site::{SEAL, Site};

#[test]
fn each_way_of_failing_has_its_own_words() {
    let mut said = String::new();
    for outcome in [
        "stands-still",
        "nothing-boots",
        "restart-loop",
        "powers-off",
        "crashes",
        "hangs",
    ] {
        let site = Site::new(SEAL);
        let slowness = if outcome == "hangs" { 0 } else { 1 };
        site.machine(
            &format!(
                "[probe]\nslowness = {slowness}\n[install]\nrestarts = 2\noutcome = \"{outcome}\"\n"
            ),
            "",
        );
        let failed = site.build(&[]);
        let error = failed.error();
        let kept = site.read("out/failure/error.txt");
        assert_eq!(
            format!("error: {}", site.filtered(&kept)),
            error,
            "{outcome}"
        );
        assert_eq!(
            site.files("out"),
            [
                ".winimg-lock",
                "events.jsonl",
                "failure/debug.jsonl",
                "failure/error.txt",
                "failure/failure.json",
                "report.html",
            ],
            "{outcome}"
        );
        said += &format!("=== {outcome}\n{}", failed.failure());
    }
    insta::assert_snapshot!(said);
}

#[test]
fn a_bootstrap_that_failed_is_shown_line_by_line() {
    let site = Site::new(SEAL);
    let marker = r#"[files]
'C:\winimg\bootstrap.done' = "stage=0\r\nvioserial=0\r\nagent=1603\r\nresult=failed\r\n"
"#;
    site.machine(marker, "");
    insta::assert_snapshot!(site.build(&[]).failure());
}

#[test]
fn a_setup_that_never_completes_is_named_with_its_state() {
    let mut said = String::new();
    let unfinished = "[[run]]\ncommand = '*ImageState'\noutput = \"    ImageState    REG_SZ    IMAGE_STATE_UNDEPLOYABLE\"\n";
    for (name, head, answer) in [
        ("the state stays", "[probe]\nslowness = 0\n", unfinished),
        (
            "no state",
            "[probe]\nslowness = 0\n",
            "[[run]]\ncommand = '*ImageState'\nexit = 1\n",
        ),
        ("no marker", "[probe]\nslowness = 0\n[files]\n", ""),
    ] {
        let site = Site::new(SEAL);
        site.machine(head, answer);
        said += &format!("=== {name}\n{}", site.build(&[]).failure());
    }
    insta::assert_snapshot!(said);
}

#[test]
fn keep_leaves_the_work_and_the_next_build_does_not_take_it() {
    let site = Site::new(SEAL);
    site.machine("[install]\noutcome = \"crashes\"\n", "");
    let failed = site.build(&["--on-error", "keep"]);
    let shown = |site: &Site| site.filtered(&site.files("out").join("\n"));
    let left = shown(&site);
    site.machine("", "");
    let next = site.build(&[]).ended_well();
    assert!(!next.stderr().contains("removing"), "{}", next.stderr());
    insta::assert_snapshot!(format!(
        "{}--- left\n{left}--- left after a good build\n{}",
        failed.failure(),
        shown(&site)
    ));
}

#[test]
fn remarks_of_the_host_are_warned_about_and_recorded() {
    let site = Site::new(SEAL);
    let remark =
        "the kernel offers KVM, but a guest on it crashes: emulating the processor instead";
    site.machine(&format!("[probe]\nremarks = [\"{remark}\"]\n"), "");
    let outcome = site.build(&[]).ended_well();
    let warned = format!("[time] warning: {remark}\n");
    assert!(outcome.stderr().contains(&warned), "{}", outcome.stderr());
    let manifest: serde_json::Value =
        serde_json::from_str(&site.read("out/manifest.json")).expect("JSON");
    assert_eq!(manifest["host"]["remarks"][0], remark);
}
