//! The page of a build with hostile text in every place that foreign text can come from, and its links.

use winimg::build_report::{
    BuildReport, BuildState, NextStep, ReportInput, ReportScreen, ReportStep, ReportStepEnd,
    ReportTrial, Timeline, TimelineRow, TimelineRowKind, render_page,
};
use winimg::engine::evidence::{ErrorRecord, FailureRecord};
use winimg::verify::ReportedFinding;
use winimg_base::event::{FindingSeverity, InputProof, ProblemDetails};

const HOSTILE: &str =
    "</pre><script>alert(1)</script><img src=x onerror=a> \" ' \u{202e}exe.txt \u{1b}[31m";

fn hostile() -> String {
    HOSTILE.into()
}

fn details() -> ProblemDetails {
    ProblemDetails {
        message: hostile(),
        at: Some(hostile()),
        recipe: None,
        expected: Some(hostile()),
        found: Some(hostile()),
        lines: vec![hostile()],
        cure: Some(hostile()),
    }
}

fn timeline() -> Timeline {
    Timeline {
        recipe_path: Some(hostile()),
        line: Some(hostile()),
        rows: vec![TimelineRow {
            after: 1.0,
            what: hostile(),
            kind: TimelineRowKind::Step(1),
            seconds: None,
        }],
        warnings: vec![hostile()],
        findings: vec![ReportedFinding {
            severity: FindingSeverity::Error,
            details: details(),
            step: Some(hostile()),
        }],
        checked: vec![hostile()],
        ..Timeline::default()
    }
}

fn story() -> BuildReport {
    let fault = ErrorRecord {
        fact: hostile(),
        parts: vec![("found".into(), hostile())],
        lines: vec![hostile()],
        around: vec![(1, hostile(), true), (2, hostile(), false)],
    };
    BuildReport {
        recipe: hostile(),
        state: BuildState::Failed(Box::new(details())),
        timeline: timeline(),
        failure: Some(FailureRecord {
            error: fault,
            next: hostile(),
            failed_step: Some(hostile()),
            errors: vec![(hostile(), hostile())],
            logs: vec![("a\"><b>.log".into(), hostile(), true)],
            ..FailureRecord::default()
        }),
        next_steps: vec![NextStep {
            title: "Azure",
            commands: hostile(),
        }],
        components: vec![ReportInput {
            name: hostile(),
            version: Some(hostile()),
            license: Some(hostile()),
            url: hostile(),
            bytes: 1,
            digest: hostile(),
            proof: InputProof::Unverified { reason: hostile() },
            signers: vec![hostile()],
        }],
        steps: vec![ReportStep {
            number: 1,
            name: hostile(),
            place: hostile(),
            commands: vec![hostile()],
            end: ReportStepEnd::Skipped(hostile()),
            log: Some(("logs/01-\"<a>.log".into(), hostile())),
            ..ReportStep::default()
        }],
        screens: vec![ReportScreen {
            file: "screens/\"<a>.png".into(),
            stage: Some(hostile()),
            ..ReportScreen::default()
        }],
        trials: vec![ReportTrial {
            target: hostile(),
            outcome: hostile(),
            summary: hostile(),
            page: Some("try/\"<a>.html".into()),
            is_good: false,
        }],
        files: vec![("\"<a>".into(), 1)],
        base: "../some folder/".into(),
        ..BuildReport::default()
    }
}

#[test]
fn hostile_text_is_shown_and_does_nothing() {
    for state in [
        story().state,
        BuildState::Open,
        BuildState::Interrupted,
        BuildState::Built,
    ] {
        let page = render_page(&BuildReport { state, ..story() }).render();
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
    let page = render_page(&story()).render();
    for link in [
        "href=\"../some%20folder/logs/01-%22%3Ca%3E.log\"",
        "href=\"../some%20folder/screens/%22%3Ca%3E.png\"",
        "href=\"../some%20folder/try/%22%3Ca%3E.html\"",
    ] {
        assert!(page.contains(link), "{link}:\n{page}");
    }
}
