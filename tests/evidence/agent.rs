//! The transcript of the agent's exchanges, against a peer that answers as agents do.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use regex::Regex;
use serde_json::{Value, json};
use winimg_machine::guest::agent::{AgentGuest, AgentHost, AgentPort};
use winimg_machine::guest::{Guest, GuestCommand, GuestDelivery, GuestExit};

fn host() -> AgentHost {
    let mut port = AgentPort::default();
    port.set_open(true);
    AgentHost {
        check: Box::new(|| Ok(())),
        port: Box::new(move || port),
        discs: Box::new(|_| Ok(())),
        on_contact: Box::new(|_| {}),
        now: Box::new(Instant::now),
    }
}

/// Answers until the other end closes. Anything unknown is refused, as the agent does.
fn answer(stream: UnixStream) {
    let mut writer = stream.try_clone().expect("clone");
    let mut asked = 0;
    for line in BufReader::new(stream).split(b'\n') {
        let Ok(line) = line else { return };
        let request: Value = serde_json::from_slice(&line).expect("JSON");
        let arguments = &request["arguments"];
        let reply = match request["execute"].as_str().expect("a command") {
            "guest-sync" => json!({"return": arguments["id"]}),
            "guest-file-open" => json!({"return": 1000}),
            "guest-file-write" => json!({"return": {"count": 7, "eof": false}}),
            "guest-file-flush" | "guest-file-close" => json!({"return": {}}),
            "guest-exec" => json!({"return": {"pid": 7}}),
            "guest-exec-status" => {
                asked += 1;
                match asked {
                    1..4 => json!({"return": {"exited": false}}),
                    _ => {
                        json!({"return": {"exited": true, "exitcode": 5, "out-data": "UGxhbnRlZA=="}})
                    }
                }
            }
            name => {
                json!({"error": {"class": "CommandNotFound", "desc": format!("The command {name} has not been found")}})
            }
        };
        if writeln!(writer, "{reply}").is_err() {
            return;
        }
    }
}

#[test]
fn the_last_exchanges_are_written_down_without_contents() {
    let dir = tempfile::tempdir().expect("a folder");
    let path = dir.path().join("agent.log");
    let (ours, theirs) = UnixStream::pair().expect("a socket pair");
    let peer = std::thread::spawn(move || answer(theirs));
    let agent = AgentGuest::new(ours, host(), Duration::from_secs(20)).expect("an agent");
    let mut agent = agent.with_transcript(&path);
    assert!(agent.try_open(Duration::from_secs(20)).expect("an answer"));
    let put = GuestDelivery::Bytes {
        path: r"C:\x",
        bytes: b"planted",
    };
    agent.put(put).expect("written");
    let command = GuestCommand {
        program: r"C:\Windows\System32\whoami.exe".into(),
        arguments: vec!["/all".into()],
        timeout: Duration::from_secs(20),
    };
    let exit = agent.run(&command, &mut |_| {}).expect("its end");
    assert_eq!(exit, GuestExit::Code(5));
    drop(agent);
    peer.join().expect("the peer");
    let text = std::fs::read_to_string(&path).expect("the transcript");
    let time = Regex::new(r"\d{4}-\d\d-\d\dT[0-9:.]+Z").expect("a pattern");
    insta::assert_snapshot!(time.replace_all(&text, "[time]"));
}
