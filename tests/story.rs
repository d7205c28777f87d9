//! The page of a build with hostile text in every place that foreign text can come from, and its links.

use winimg::engine::evidence::{Failure, Fault};
use winimg::story::{
    Component, Course, Found, Road, Row, RowKind, Screen, State, Step, StepEnd, Story, Tried, page,
};
use winimg_base::event::{Details, Proof, Severity};

const HOSTILE: &str =
    "</pre><script>alert(1)</script><img src=x onerror=a> \" ' \u{202e}exe.txt \u{1b}[31m";

fn hostile() -> String {
    HOSTILE.into()
}

fn details() -> Details {
    Details {
        message: hostile(),
        at: Some(hostile()),
        recipe: None,
        expected: Some(hostile()),
        found: Some(hostile()),
        lines: vec![hostile()],
        cure: Some(hostile()),
    }
}

fn course() -> Course {
    Course {
        recipe_path: Some(hostile()),
        line: Some(hostile()),
        rows: vec![Row {
            after: 1.0,
            what: hostile(),
            kind: RowKind::Step(1),
            seconds: None,
        }],
        warnings: vec![hostile()],
        findings: vec![Found {
            severity: Severity::Error,
            details: details(),
            step: Some(hostile()),
        }],
        checked: vec![hostile()],
        ..Course::default()
    }
}

fn story() -> Story {
    let fault = Fault {
        fact: hostile(),
        parts: vec![("found".into(), hostile())],
        lines: vec![hostile()],
        around: vec![(1, hostile(), true), (2, hostile(), false)],
    };
    Story {
        recipe: hostile(),
        state: State::Failed(Box::new(details())),
        course: course(),
        failure: Some(Failure {
            error: fault,
            next: hostile(),
            failed_step: Some(hostile()),
            errors: vec![(hostile(), hostile())],
            logs: vec![("a\"><b>.log".into(), hostile(), true)],
            ..Failure::default()
        }),
        roads: vec![Road {
            title: "Azure",
            commands: hostile(),
        }],
        components: vec![Component {
            name: hostile(),
            version: Some(hostile()),
            license: Some(hostile()),
            url: hostile(),
            bytes: 1,
            digest: hostile(),
            proof: Proof::Unverified { reason: hostile() },
            signers: vec![hostile()],
        }],
        steps: vec![Step {
            number: 1,
            name: hostile(),
            place: hostile(),
            commands: vec![hostile()],
            end: StepEnd::Skipped(hostile()),
            log: Some(("logs/01-\"<a>.log".into(), hostile())),
            ..Step::default()
        }],
        screens: vec![Screen {
            file: "screens/\"<a>.png".into(),
            stage: Some(hostile()),
            ..Screen::default()
        }],
        tries: vec![Tried {
            target: hostile(),
            outcome: hostile(),
            summary: hostile(),
            page: Some("try/\"<a>.html".into()),
            is_good: false,
        }],
        files: vec![("\"<a>".into(), 1)],
        base: "../some folder/".into(),
        ..Story::default()
    }
}

#[test]
fn hostile_text_is_shown_and_does_nothing() {
    for state in [story().state, State::Open, State::Interrupted, State::Built] {
        let page = page(&Story { state, ..story() }).html();
        for harmful in [
            "<script",
            "<img src=x",
            "<a>",
            "<b>",
            "\u{202e}",
            "\u{1b}",
            "onerror=a>",
        ] {
            assert!(!page.contains(harmful), "{harmful}:\n{page}");
        }
        assert!(page.contains("&lt;script&gt;alert(1)&lt;/script&gt;"));
    }
}

#[test]
fn links_lead_from_the_page_to_the_folder() {
    let page = page(&story()).html();
    for link in [
        "href=\"../some%20folder/logs/01-%22%3Ca%3E.log\"",
        "href=\"../some%20folder/screens/%22%3Ca%3E.png\"",
        "href=\"../some%20folder/try/%22%3Ca%3E.html\"",
    ] {
        assert!(page.contains(link), "{link}:\n{page}");
    }
}
