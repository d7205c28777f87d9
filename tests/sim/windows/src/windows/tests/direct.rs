//! PowerShell Direct's end: who gets in, and what the calls do.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::guest::Guest;
use crate::windows::direct::Direct;

const SCRIPT: &str = "# writes output.bin, then status.json";

struct Talk {
    direct: Direct,
    session: String,
}

impl Talk {
    fn new(guest: &Guest) -> Talk {
        let mut direct = Direct::new(guest.windows.clone());
        let asked = json!({"id": 1, "user": "Administrator", "password": "Winimg-Build-1!"});
        let session = direct.answer(asked.to_string().as_bytes()).unwrap()["session"].clone();
        let session = session.as_str().expect("a session").to_owned();
        Talk { direct, session }
    }

    fn reply(&mut self, call: &str, arguments: Value) -> Value {
        let asked = json!({"id": 7, "session": self.session, "call": call, "arguments": arguments});
        let reply = self.direct.answer(asked.to_string().as_bytes()).unwrap();
        assert_eq!(reply["id"], 7);
        reply
    }

    fn value(&mut self, call: &str, arguments: Value) -> Value {
        let reply = self.reply(call, arguments);
        assert!(reply["value"]["boot"].is_string(), "{call}: {reply}");
        reply["value"].clone()
    }

    fn threw(&mut self, call: &str, arguments: Value) -> String {
        let reply = self.reply(call, arguments);
        reply["threw"]
            .as_str()
            .unwrap_or_else(|| panic!("{call}: {reply}"))
            .to_owned()
    }

    fn ended(&mut self, id: &str) -> Value {
        let deadline = Instant::now() + Duration::from_secs(20);
        loop {
            let state = self.value("poll", json!([id, 0]));
            if state["ended"] == true {
                return state;
            }
            assert!(Instant::now() < deadline, "{state}");
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

fn guest() -> Guest {
    let guest = Guest::new();
    assert!(
        guest
            .windows
            .set_password("Administrator", "Winimg-Build-1!")
    );
    guest
}

#[test]
fn a_session_wants_an_enabled_account_and_its_password() {
    let guest = guest();
    let mut direct = Direct::new(guest.windows.clone());
    let mut opens = |user: &str, password: &str| {
        let asked = json!({"id": "a", "user": user, "password": password});
        let reply = direct.answer(asked.to_string().as_bytes()).unwrap();
        reply["session"].is_string() || {
            assert_eq!(
                reply,
                json!({"id": "a", "refused": "The credential is invalid."})
            );
            false
        }
    };
    for (user, password, fits) in [
        ("Administrator", "Winimg-Build-1!", true),
        ("administrator", "Winimg-Build-1!", true),
        (r".\Administrator", "Winimg-Build-1!", true),
        (r"NODE1\Administrator", "Winimg-Build-1!", true),
        (r"OTHER\Administrator", "Winimg-Build-1!", false),
        ("Administrator", "winimg-build-1!", false),
        ("Administrator", "", false),
        ("Guest", "", false),
        ("nobody", "Winimg-Build-1!", false),
    ] {
        assert_eq!(opens(user, password), fits, "{user} {password:?}");
    }
    let run = |line: &str| assert_eq!(guest.run(line).0, 0, "{line}");
    run(r#"net.exe user other "Quite-New-1" /add"#);
    assert!(opens("other", "Quite-New-1"));
    run(r#"net.exe user Administrator "Second-Pass-2""#);
    assert!(!opens("Administrator", "Winimg-Build-1!"));
    assert!(opens("Administrator", "Second-Pass-2"));
    run("net.exe user Administrator /active:no");
    assert!(!opens("Administrator", "Second-Pass-2"));
    assert_eq!(direct.answer(b"ession\":\"rest of a line\n"), None);
    let stale = json!({"id": 2, "session": "none", "call": "look", "arguments": []});
    let reply = direct.answer(stale.to_string().as_bytes()).unwrap();
    assert!(reply["ended"].is_string(), "{reply}");
}

#[test]
fn a_session_ends_when_generalize_takes_the_password() {
    let guest = guest();
    let mut talk = Talk::new(&guest);
    talk.value("look", json!([]));
    let sysprep = r"C:\Windows\System32\Sysprep\sysprep.exe /generalize /oobe /quit /quiet";
    assert_eq!(guest.run(sysprep).0, 0);
    let reply = talk.reply("look", json!([]));
    assert!(reply["ended"].is_string(), "{reply}");
}

#[test]
fn jobs_run_as_system_and_leave_nothing_when_forgotten() {
    let guest = guest();
    let mut talk = Talk::new(&guest);
    let cmd = r"C:\Windows\System32\cmd.exe";
    let line = r#"/d /c "echo one & echo two>&2& exit /b 3""#;
    talk.value("start", json!(["j-1", cmd, line, SCRIPT]));
    let state = talk.ended("j-1");
    assert_eq!((&state["exit"], &state["error"]), (&json!(3), &Value::Null));
    assert_eq!(state["output"], "b25lIA0KdHdvDQo=");
    assert_eq!(state["size"], 11);
    assert_eq!(talk.value("poll", json!(["j-1", 9]))["output"], "DQo=");
    assert_eq!(talk.value("poll", json!(["j-1", 99]))["output"], "");
    // A second start of the same job does nothing.
    talk.value("start", json!(["j-1", cmd, "/c exit 9", SCRIPT]));
    assert_eq!(talk.ended("j-1")["exit"], 3);
    assert!(
        guest
            .text(r"C:\ProgramData\winimg-jobs\j-1\job.ps1")
            .contains("status.json")
    );
    assert_eq!(guest.run(r"schtasks.exe /query /tn winimg-j-1").0, 0);
    talk.value("forget", json!(["j-1"]));
    assert_eq!(talk.value("poll", json!(["j-1", 0]))["known"], false);
    assert_eq!(guest.run(r"schtasks.exe /query /tn winimg-j-1").0, 1);
    assert!(!guest.host(r"C:\ProgramData\winimg-jobs").exists());

    talk.value("start", json!(["j-2", r"C:\nowhere.exe", "", SCRIPT]));
    let state = talk.ended("j-2");
    assert_eq!(state["exit"], Value::Null);
    assert_eq!(state["error"], "The system cannot find the file specified.");
    // NT status codes are negative, as .NET has them.
    talk.value("start", json!(["j-3", cmd, "/c exit -1073741819", SCRIPT]));
    assert_eq!(talk.ended("j-3")["exit"], -1073741819);

    // What was not forgotten goes with `off`.
    talk.value("off", json!([]));
    assert!(!guest.host(r"C:\ProgramData\winimg-jobs").exists());
    assert_eq!(guest.run(r"schtasks.exe /query /tn winimg-j-2").0, 1);
    assert_eq!(guest.power(), Some(crate::windows::Power::Shutdown));
}

#[test]
fn files_go_both_ways_and_mistakes_are_refused() {
    let guest = guest();
    let mut talk = Talk::new(&guest);
    talk.value("put", json!([r"C:\note.txt", "aGVsbG8="]));
    assert_eq!(guest.text(r"C:\note.txt"), "hello");
    let found = talk.value("get", json!([r"c:\NOTE.txt", 5]));
    assert_eq!(
        (&found["there"], &found["size"], &found["base64"]),
        (&json!(true), &json!(5), &json!("aGVsbG8="))
    );
    assert_eq!(
        talk.value("get", json!([r"C:\note.txt", 4]))["base64"],
        Value::Null
    );
    assert_eq!(
        talk.value("get", json!([r"C:\none.txt", 4]))["there"],
        false
    );
    for (call, arguments, said) in [
        (
            "put",
            json!([r"C:\nowhere\a", "aGVsbG8="]),
            "The system cannot find the path specified.",
        ),
        ("put", json!([r"D:\a", "aGVsbG8="]), "write protected"),
        ("put", json!([r"C:\a", "!"]), "Base-64"),
        ("look", json!([1]), "too many arguments"),
        ("poll", json!(["j"]), "missing"),
        ("poll", json!(["j", "0"]), "System.Int64"),
        ("poll", json!([r"..\j", 0]), "letters, digits"),
        (
            "start",
            json!(["j", "cmd.exe", "", "exit"]),
            "writes no status.json",
        ),
        ("start", json!(["j", "cmd.exe", ""]), "missing"),
        ("dance", json!([]), "no script"),
    ] {
        let threw = talk.threw(call, arguments.clone());
        assert!(threw.contains(said), "{call} {arguments}: {threw}");
    }
    let first = talk.value("look", json!([]))["boot"].clone();
    talk.value("restart", json!([]));
    assert_eq!(guest.power(), Some(crate::windows::Power::Reboot));
    assert_ne!(Talk::new(&guest).value("look", json!([]))["boot"], first);
}
