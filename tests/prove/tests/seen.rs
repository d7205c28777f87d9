//! winimg's records, as far as a proof needs them.

use prove::seen::{build, checked, failure, medium, trial, verified};

#[test]
fn events_become_what_was_seen() {
    let events = r#"{"event":"host_probed","accelerator":"kvm"}
{"event":"layer_sealed","seconds":2.5}
{"event":"phase_finished","phase":"install","seconds":600.5}
{"event":"step_started","step":3,"name":"probe firewall"}
{"event":"output","step":3,"text":"added=0\r\n"}
{"event":"output","step":3,"text":"shown=0\r\n"}
{"event":"step_started","step":4,"name":"seal"}
{"event":"output","step":4,"text":"no answer"}
{"event":"phase_fini"#;
    let seen = build(events);
    assert_eq!(seen.accelerator.as_deref(), Some("kvm"));
    assert_eq!((seen.layers_sealed, seen.resumed), (1, false));
    assert!(seen.is_installed());
    let answers: Vec<_> = seen.answers.into_iter().collect();
    assert_eq!(
        answers,
        [("firewall".into(), "added=0\r\nshown=0\r\n".into())]
    );
}

#[test]
fn a_seal_is_a_step_that_began_and_ended() {
    let step = |event: &str, step: u8, name: &str| {
        format!("{{\"event\":\"{event}\",\"step\":{step},\"name\":\"{name}\"}}\n")
    };
    let began = step("step_started", 3, "probe acl")
        + &step("step_finished", 3, "")
        + "{\"event\":\"phase_finished\",\"phase\":\"provision\",\"seconds\":1}\n";
    assert_eq!(build(&began).generalized, None);
    let began = began + &step("step_started", 4, "seal");
    assert_eq!(build(&began).generalized, Some(false));
    let ended = began + &step("step_finished", 4, "");
    assert_eq!(build(&ended).generalized, Some(true));
    // A build that goes on from the sealed layer runs no step.
    let again = ended + "{\"event\":\"started\"}\n{\"event\":\"layer_used\"}\n";
    assert_eq!(build(&again).generalized, Some(true));
}

#[test]
fn what_the_last_build_said_of_its_disk_is_read() {
    let events = r#"{"event":"started"}
{"event":"finding","severity":"error","message":"of an earlier build"}
{"event":"checked","checks":9,"hold":8}
{"event":"started"}
{"event":"finding","severity":"error","message":"SetupType is 0"}
{"event":"finding","severity":"unknown","message":"a service's state"}
{"event":"checked","checks":9,"hold":7}
{"event":"failed","status":10,"message":"the image failed verification"}"#;
    let found = checked(events).expect("a result");
    assert_eq!((found.checks, found.hold), (9, 7));
    assert_eq!(found.findings, ["SetupType is 0"]);
    assert_eq!(checked("{\"event\":\"started\"}"), None);
}

#[test]
fn a_failure_is_told_with_what_the_recipe_lacks() {
    let events = r#"{"event":"diagnostics","diagnostics":[{"severity":"error","message":"`arguments` takes a list"},{"severity":"warning","message":"w"}]}
{"event":"failed","message":"1 error in x.toml","found":"a string"}"#;
    let said = failure(events).expect("a failure");
    assert_eq!(
        said,
        "1 error in x.toml\nfound: a string\n`arguments` takes a list"
    );
    assert_eq!(failure(""), None);
}

#[test]
fn a_document_without_its_fields_is_no_good_sign() {
    assert_eq!(
        trial("{}").expect_err("none"),
        "this is no result of winimg try"
    );
    let said = verified(r#"{"files":[{"checks":1,"findings":[]}]}"#).expect_err("none");
    assert_eq!(said, "this is no result of winimg verify");
    let said = medium(r#"{"images":[]}"#).expect_err("none");
    assert_eq!(said, "the medium has no images of Windows");
}
