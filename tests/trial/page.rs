//! The page of a trial: one file for people, in which nothing that a clone says is markup.

use winimg::trial::compare;
use winimg::trial::metadata::CloneReport;
use winimg::trial::page::{ScreenImages, render_page};
use winimg::trial::result::{CloneBoot, TrialResult};
use winimg::trial::state::{CloneLogEnd, CloneState, KnownFact, ServiceFailure, ServiceStartType};
use winimg::verify::{self, VerifyFinding};

use super::judged;
use super::result::trial;

const PNG: &str = "iVBORw0KGgo=";

fn pictures() -> ScreenImages {
    ScreenImages::from([("vsphere/clone-1-boot-1.png".to_owned(), PNG.to_owned())])
}

/// Two clones that share a host key and have each its own trouble.
fn whole() -> TrialResult {
    let mut trial = trial();
    trial.image.file = "/srv/out/demo/demo.ova".into();
    trial.image.sha256 = Some("ab".repeat(32));
    let mut states = [judged::good(0), judged::good(1)];
    states[1].sshd = states[0].sshd.clone();
    states[1].failed_services = KnownFact::Is(vec![ServiceFailure {
        event: 7000,
        service: "Containerd".into(),
        key: Some("containerd".into()),
        starts: Some(ServiceStartType::Auto),
        since_last_start: true,
        details: vec!["The system cannot find the file specified.".into()],
    }]);
    let mut report = verify::VerifyReport::default();
    let cure = "see the service's own log";
    let failed = VerifyFinding::error("the service containerd failed on the clone").cure(cure);
    report.add(Err(failed.lines(["event 7000: Containerd"])), None);
    let step = Some(("containers", "packs/containers.toml:20:1"));
    let unknown = || Err(VerifyFinding::unknown("feature Containers"));
    report.add(unknown(), step);
    trial.add_report(Some(2), &report);
    let mut report = verify::VerifyReport::default();
    report.add(unknown(), step);
    trial.add_report(Some(1), &report);
    trial.compared = compare::compare_clones(&states[0], &states[1]);
    for (run, state) in trial.clones.iter_mut().zip(states) {
        run.state = Some(state);
    }
    trial.clones[1].boots.push(CloneBoot {
        restarts: 0,
        seconds: 42.0,
        screen: None,
    });
    trial
}

/// Of clones that came up, and of two with each its own trouble.
pub fn both() -> [(&'static str, TrialResult); 2] {
    let mut good = trial();
    let states = [judged::good(0), judged::good(1)];
    good.compared = compare::compare_clones(&states[0], &states[1]);
    good.findings.clear();
    [("good-trial", good), ("failed-trial", whole())]
}

#[test]
fn two_clones_side_by_side_as_text() {
    insta::assert_snapshot!(body(&render_page(&whole(), &pictures())));
}

/// The style, which the page of a failed build has as well, is not repeated in the snapshot.
fn body(page: &str) -> &str {
    page.split_once("</style>").expect("a style").1
}

#[test]
fn a_clone_that_stopped_half_way_has_no_second_beside_it() {
    let mut trial = trial();
    trial.clones.truncate(1);
    trial.clones[0].state = None;
    trial.clones[0].requests.clear();
    trial.clones[0].reports.clear();
    trial.compared.clear();
    let page = render_page(&trial, &ScreenImages::new());
    let page = body(&page);
    for part in [
        "<h1 class=\"bad\">demo.qcow2 does not come up as vsphere</h1>",
        "The second clone was not started",
        "<th scope=\"row\">users</th><td><span class=\"note\">not read</span></td>",
        "The picture is too large for this page.",
    ] {
        assert!(page.contains(part), "{part}\n{page}");
    }
    for id in ["two", "requests"] {
        assert!(!page.contains(&format!("#{id}\"")), "{id}\n{page}");
    }
}

/// Every text of the result that a guest, a recipe or a target's file decides.
fn hostile(text: &str) -> TrialResult {
    let mut trial = whole();
    let evil = || text.to_owned();
    trial.target = evil();
    trial.image.file = evil();
    trial.platform.title = evil();
    trial.platform.hardware.origin.source = evil();
    trial.platform.metadata.agent = evil();
    trial.hardware.hypervisor = evil();
    trial.remarks = vec![evil()];
    trial.findings[0].message = evil();
    trial.findings[0].expected = Some(evil());
    trial.findings[0].found = Some(evil());
    trial.findings[0].lines = vec![evil()];
    trial.findings[0].cures = vec![evil()];
    trial.findings[0].asked = Some(evil());
    trial.findings[0].place = Some(evil());
    trial.compared = vec![compare::CloneComparison {
        what: compare::CloneIdentifier::HostName,
        outcome: compare::ComparisonOutcome::Shared {
            shared: vec![evil()],
        },
    }];
    let clone = &mut trial.clones[0];
    clone.given.host_name = evil();
    clone.boots[0].screen = Some(evil());
    clone.requests[0].method = evil();
    clone.requests[0].target = evil();
    clone.reports = vec![CloneReport::Health {
        state: evil(),
        sub_status: Some(evil()),
        description: Some(evil()),
    }];
    let state = clone.state.as_mut().expect("a state");
    spoil(state, text);
    trial
}

fn spoil(state: &mut CloneState, text: &str) {
    let evil = || text.to_owned();
    fn is<T>(known: &mut KnownFact<T>) -> &mut T {
        match known {
            KnownFact::Is(value) => value,
            KnownFact::Unknown { unknown } => panic!("{unknown}"),
        }
    }
    let name = is(&mut state.host_name);
    (name.name, name.next, name.computer) = (evil(), evil(), evil());
    state.machine_sid = KnownFact::Is(evil());
    state.machine_guid = KnownFact::from_reason(evil());
    state.certificates = KnownFact::Is(vec![evil()]);
    is(&mut state.accounts)[0].name = evil();
    is(&mut state.setup).image_state = Some(evil());
    state.setup_logs = KnownFact::Is(vec![CloneLogEnd {
        path: evil(),
        errors: vec![evil()],
        last: vec![evil()],
    }]);
    is(&mut state.sshd).as_mut().expect("sshd").host_keys = vec![evil()];
    let agent = is(&mut state.cloudbase_init).as_mut().expect("the agent");
    agent.plugins[0].plugin = evil();
    agent.plugins[0].done = false;
    let log = agent.service.as_mut().expect("a log");
    log.runs[0].errors = vec![evil()];
    log.runs[0].metadata = Some(evil());
    let failure = ServiceFailure {
        event: 7000,
        service: evil(),
        key: None,
        starts: None,
        since_last_start: false,
        details: vec![evil()],
    };
    state.failed_services = KnownFact::Is(vec![failure]);
}

#[test]
fn nothing_that_a_clone_says_is_markup_or_turns_the_text() {
    // Not alone: letters beside it are part of what is shown.
    let evil = "\"'><script>alert(1)</script><img src=http://h.example/x>\u{202e}gpj.exe\x1b[31m";
    let page = render_page(&hostile(evil), &pictures());
    let page = body(&page);
    for part in ["<script", "<img src=http", "\u{202e}", "\x1b", "'>", "\"'"] {
        assert!(!page.contains(part), "{part}\n{page}");
    }
    let shown = "&lt;script&gt;alert(1)&lt;/script&gt;";
    assert!(page.matches(shown).count() > 30, "{page}");
}

#[test]
fn the_page_asks_for_nothing_and_runs_nothing() {
    let page = render_page(&whole(), &pictures());
    assert!(page.contains("default-src 'none'; img-src data:; style-src 'unsafe-inline'"));
    for part in [
        "http://h", "https://", "<script", "<link", "url(", "@import",
    ] {
        assert!(!page.contains(part), "{part}");
    }
}
