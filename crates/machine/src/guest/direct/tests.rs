//! Tests of the channel with a guest that is a list of expected requests and answers.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde_json::{Value, json};

use super::*;

/// Expected scripts with their answers: any other request fails the test.
type Answers = Arc<Mutex<VecDeque<(&'static str, Result<Value, SessionFailure>)>>>;

struct Scene {
    answers: Answers,
    connects: Arc<Mutex<u32>>,
}

/// `is_off`: the machine's state when it is queried.
fn scene(
    answers: Vec<(&'static str, Result<Value, SessionFailure>)>,
    is_off: bool,
) -> (DirectGuest, Scene) {
    let answers: Answers = Arc::new(Mutex::new(answers.into()));
    let connects = Arc::new(Mutex::new(0));
    let (asked, counted) = (Arc::clone(&answers), Arc::clone(&connects));
    let direct = DirectGuest::new(SessionHost {
        connect: Box::new(move |_| {
            *counted.lock().expect("a count") += 1;
            Ok(())
        }),
        invoke: Box::new(move |script, _, _, _| {
            let next = asked.lock().expect("answers").pop_front();
            let (wanted, answer) = next.unwrap_or_else(|| panic!("{script} is asked too much"));
            assert_eq!(script, wanted);
            answer
        }),
        check: Box::new(move |fresh| {
            if fresh && is_off {
                Err(GuestFailure::PoweredOff)
            } else {
                Ok(())
            }
        }),
        restarts: Box::new(|| 0),
        known_restarts: Box::new(|| 0),
        discs: Box::new(|_| Ok(())),
        on_contact: Box::new(|_| {}),
    });
    (direct, Scene { answers, connects })
}

fn boot(id: &str) -> Result<Value, SessionFailure> {
    Ok(json!({"boot": id}))
}

fn poll(id: &str, output: &str, size: usize, exit: Value) -> Result<Value, SessionFailure> {
    Ok(
        json!({"boot": id, "known": true, "ended": !exit.is_null(), "exit": exit, "error": null,
        "output": BASE64.encode(output), "size": size}),
    )
}

fn command(timeout: u64) -> GuestCommand {
    GuestCommand {
        program: r"C:\Windows\System32\cmd.exe".into(),
        arguments: vec!["/c".into(), "dir".into()],
        timeout: Duration::from_secs(timeout),
    }
}

fn run(direct: &mut DirectGuest, timeout: u64) -> (Result<GuestExit>, String) {
    let mut said = Vec::new();
    let exit = direct.run(&command(timeout), &mut |bytes| {
        said.extend_from_slice(bytes)
    });
    (exit, String::from_utf8(said).expect("text"))
}

#[test]
fn a_program_goes_on_while_a_session_breaks() {
    let broken = || Err(SessionFailure::Broken("the session ended".into()));
    let (mut direct, scene) = scene(
        vec![
            ("start", boot("a")),
            ("poll", poll("a", "one\ntw", 6, Value::Null)),
            ("poll", broken()),
            ("poll", poll("a", "o\n", 8, json!(0xc000_0005u32))),
            ("forget", boot("a")),
        ],
        false,
    );
    let (exit, said) = run(&mut direct, 60);
    assert_eq!(exit.expect("an end"), GuestExit::Code(-1_073_741_819));
    assert_eq!(said, "one\ntwo\n");
    assert_eq!(*scene.connects.lock().expect("a count"), 2);
    assert!(scene.answers.lock().expect("answers").is_empty());
}

#[test]
fn a_guest_that_restarts_or_powers_off_takes_the_program_along() {
    let (mut direct, _) = scene(
        vec![
            ("start", boot("a")),
            ("poll", poll("b", "", 0, Value::Null)),
        ],
        false,
    );
    assert_eq!(
        run(&mut direct, 60).0.expect("an end"),
        GuestExit::GuestGone
    );
    let broken = Err(SessionFailure::Broken("the session ended".into()));
    let (mut direct, _) = scene(vec![("start", boot("a")), ("poll", broken)], true);
    assert_eq!(
        run(&mut direct, 60).0.expect("an end"),
        GuestExit::GuestGone
    );
    let broken = Err(SessionFailure::Broken("the session ended".into()));
    let (mut direct, _) = scene(vec![("off", broken)], true);
    direct.shut_down().expect("it is off already");
}

#[test]
fn a_program_that_does_not_start_or_end_is_reported_and_forgotten() {
    let none = json!({"boot": "a", "known": true, "ended": true, "exit": null,
        "error": "The system cannot find the file specified", "output": "", "size": 0});
    let (mut direct, _) = scene(
        vec![
            ("start", boot("a")),
            ("poll", Ok(none)),
            ("forget", boot("a")),
        ],
        false,
    );
    assert_eq!(
        run(&mut direct, 60).0.expect_err("no program").to_string(),
        "the guest cannot start the program\n  at: C:\\Windows\\System32\\cmd.exe\n  found: The system cannot find the file specified"
    );
    let (mut direct, scene) = scene(
        vec![
            ("start", boot("a")),
            ("poll", poll("a", "half a line", 11, Value::Null)),
            ("forget", boot("a")),
        ],
        false,
    );
    let (exit, said) = run(&mut direct, 0);
    assert_eq!(
        exit.expect_err("too long").fact(),
        "the program did not end within 0 s"
    );
    assert_eq!(said, "half a line");
    assert!(scene.answers.lock().expect("answers").is_empty());
}

#[test]
fn a_reboot_is_over_when_another_start_of_windows_answers() {
    let refused = Err(SessionFailure::Credential(
        "The credential is invalid.".into(),
    ));
    let (mut direct, scene) = scene(
        vec![
            ("restart", boot("a")),
            ("look", boot("a")),
            ("look", refused),
            ("look", boot("b")),
        ],
        false,
    );
    direct.reboot(Duration::from_secs(60)).expect("back");
    assert_eq!(direct.boot, "b");
    assert!(scene.answers.lock().expect("answers").is_empty());
}
