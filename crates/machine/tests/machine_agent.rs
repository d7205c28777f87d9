//! The guest agent's client against a scripted peer, which does what agents do wrong, and against
//! the real Linux `qemu-ga`.

#![cfg(unix)]

use support::skip;

use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use winimg_base::error::{Error, Kind};
use winimg_base::event::Cancel;
use winimg_machine::guest::agent::{AgentGuest, AgentHost, AgentPort};
use winimg_machine::guest::{Guest, GuestCommand, GuestDelivery, GuestExit};

const PATIENCE: Duration = Duration::from_secs(5);

/// The machine around the agent, as the tests move it.
#[derive(Clone, Default)]
struct World {
    port: Arc<Mutex<AgentPort>>,
    cancel: Cancel,
    dead: Arc<Mutex<Option<&'static str>>>,
    discs: Arc<Mutex<Vec<Option<PathBuf>>>>,
    /// Its time passes at a hundredth.
    slow: bool,
    /// How far its time has been put forward.
    ahead: Arc<Mutex<Duration>>,
    /// What was told of asking and answering.
    talk: Arc<Mutex<Vec<bool>>>,
}

impl World {
    fn open() -> Self {
        let world = Self::default();
        world.change(true);
        world
    }

    fn change(&self, open: bool) {
        self.port.lock().expect("lock").set_open(open);
    }

    fn host(&self) -> AgentHost {
        let share = || self.clone();
        let (a, b, c, d, e) = (share(), share(), share(), share(), share());
        let (start, slow) = (Instant::now(), self.slow);
        AgentHost {
            check: Box::new(move || {
                a.cancel.check()?;
                match *a.dead.lock().expect("lock") {
                    Some(how) => Err(Error::new(Kind::Machine, how)),
                    None => Ok(()),
                }
            }),
            port: Box::new(move || *b.port.lock().expect("lock")),
            discs: Box::new(move |iso| {
                c.discs
                    .lock()
                    .expect("lock")
                    .push(iso.map(Path::to_path_buf));
                Ok(())
            }),
            on_contact: Box::new(move |asked| d.talk.lock().expect("lock").push(asked)),
            now: Box::new(move || {
                if slow {
                    start + start.elapsed() / 100
                } else {
                    Instant::now() + *e.ahead.lock().expect("lock")
                }
            }),
        }
    }
}

/// A peer that answers each line with the bytes that `answer` gives, in pieces of `piece` bytes.
/// Ends when the agent's end closes.
fn peer(
    world: &World,
    piece: usize,
    mut answer: impl FnMut(&Value) -> Vec<u8> + Send + 'static,
) -> (AgentGuest, Heard) {
    let (ours, theirs) = UnixStream::pair().expect("a socket pair");
    let heard = Heard::default();
    let hearing = heard.clone();
    std::thread::spawn(move || {
        let mut writer = theirs.try_clone().expect("clone");
        for line in BufReader::new(theirs).split(b'\n') {
            let Ok(line) = line else { return };
            let line = String::from_utf8_lossy(&line).into_owned();
            let object = line.trim_start_matches(char::REPLACEMENT_CHARACTER);
            let Ok(request) = serde_json::from_str::<Value>(object) else {
                continue;
            };
            hearing.0.lock().expect("lock").push(line);
            for bytes in answer(&request).chunks(piece) {
                if writer.write_all(bytes).is_err() {
                    return;
                }
            }
        }
    });
    let agent = AgentGuest::new(ours, world.host(), PATIENCE).expect("an agent");
    (agent, heard)
}

/// The lines that the peer was asked; what is no UTF-8 stands as its replacement.
#[derive(Clone, Default)]
struct Heard(Arc<Mutex<Vec<String>>>);

impl Heard {
    fn requests(&self) -> Vec<Value> {
        let heard = self.0.lock().expect("lock");
        let object = |line: &String| {
            let object = line.trim_start_matches(char::REPLACEMENT_CHARACTER);
            serde_json::from_str(object).expect("JSON")
        };
        heard.iter().map(object).collect()
    }

    fn commands(&self) -> Vec<String> {
        let name = |r: &Value| r["execute"].as_str().unwrap_or("?").to_string();
        self.requests().iter().map(name).collect()
    }
}

fn line(value: Value) -> Vec<u8> {
    format!("{value}\n").into_bytes()
}

/// Answers syncs as an agent does, and everything else by `other`.
fn in_step(
    mut other: impl FnMut(&Value) -> Vec<u8> + Send + 'static,
) -> impl FnMut(&Value) -> Vec<u8> + Send {
    move |request| match request["execute"].as_str() {
        Some("guest-sync" | "guest-sync-delimited") => {
            line(json!({"return": request["arguments"]["id"]}))
        }
        _ => other(request),
    }
}

fn command(program: &str, arguments: &[&str]) -> GuestCommand {
    GuestCommand {
        program: program.into(),
        arguments: arguments.iter().map(ToString::to_string).collect(),
        timeout: PATIENCE,
    }
}

fn run(
    agent: &mut AgentGuest,
    command: &GuestCommand,
) -> (winimg_base::error::Result<GuestExit>, String) {
    let mut text = Vec::new();
    let exit = agent.run(command, &mut |bytes| text.extend_from_slice(bytes));
    (exit, String::from_utf8(text).expect("text"))
}

/// An agent with two files, `C:\odd` among them, whose contents it tells in another shape; a
/// program that ends with code 5; and a machine that restarts and powers off. Its first request it
/// lets wait.
fn whole(world: &World) -> (AgentGuest, Heard) {
    let moving = world.clone();
    let mut is_first = true;
    let answer = move |request: &Value| {
        let arguments = &request["arguments"];
        if std::mem::take(&mut is_first) {
            *moving.ahead.lock().expect("lock") += Duration::from_secs(3);
            return Vec::new();
        }
        let reply = match request["execute"].as_str().expect("a command") {
            "guest-sync" | "guest-sync-delimited" => arguments["id"].clone(),
            "guest-file-open" => json!(1000 + i64::from(arguments["path"] == r"C:\odd")),
            "guest-file-write" => json!({"count": 7, "eof": false}),
            "guest-file-read" if arguments["handle"] == 1001 => json!({"buf-b64": "cGxhbnRlZA=="}),
            "guest-file-read" => json!({"count": 2, "buf-b64": "b2s=", "eof": true}),
            "guest-exec" => json!({"pid": 9}),
            "guest-exec-status" => json!({"exited": true, "exitcode": 5}),
            "guest-shutdown" if arguments["mode"] == "reboot" => {
                moving.change(false);
                moving.change(true);
                return Vec::new();
            }
            "guest-shutdown" => {
                moving.port.lock().expect("lock").off = true;
                return Vec::new();
            }
            _ => json!({}),
        };
        line(json!({"return": reply}))
    };
    let (mut agent, heard) = peer(world, 4096, answer);
    assert!(agent.try_open(Duration::from_secs(60)).expect("open"));
    (agent, heard)
}

#[test]
fn a_reply_of_another_shape_is_quoted_without_its_contents() {
    let (mut agent, _) = whole(&World::open());
    assert_eq!(
        agent.get(r"C:\odd", 10).expect_err("no count").to_string(),
        "invalid reply of the guest agent\n  found: {\"buf-b64\":\"(12 characters)\"}"
    );
    // The two sides are in step nevertheless.
    assert_eq!(agent.get(r"C:\y", 10).expect("read"), Some(b"ok".to_vec()));
}

#[test]
fn what_goes_over_the_wire() {
    let (mut agent, heard) = whole(&World::open());
    let put = GuestDelivery::Bytes {
        path: r"C:\x",
        bytes: b"planted",
    };
    agent.put(put).expect("written");
    assert_eq!(agent.get(r"C:\y", 10).expect("read"), Some(b"ok".to_vec()));
    let query = command(r"C:\Windows\System32\reg.exe", &["query", r"HKLM\ł"]);
    assert_eq!(
        run(&mut agent, &query).0.expect("its end"),
        GuestExit::Code(5)
    );
    agent.reboot(PATIENCE).expect("back");
    agent.shut_down().expect("off");
    let mut came = String::new();
    let lines = heard.0.lock().expect("lock").clone();
    for (line, request) in lines.iter().zip(heard.requests()) {
        let id = match &request["arguments"]["id"] {
            Value::Null => &request["id"],
            id => id,
        };
        came += &line.replace(&format!("\"id\":{id}"), "\"id\":0");
        came.push('\n');
    }
    assert_eq!(
        came.replace(char::REPLACEMENT_CHARACTER, "(0xFF)"),
        r#"{"execute":"guest-sync","arguments":{"id":0}}
(0xFF){"execute":"guest-sync-delimited","arguments":{"id":0}}
{"execute":"guest-sync","arguments":{"id":0}}
{"execute":"guest-file-open","arguments":{"mode":"w","path":"C:\\x"},"id":0}
{"execute":"guest-file-write","arguments":{"buf-b64":"cGxhbnRlZA==","handle":1000},"id":0}
{"execute":"guest-file-flush","arguments":{"handle":1000},"id":0}
{"execute":"guest-file-close","arguments":{"handle":1000},"id":0}
{"execute":"guest-file-open","arguments":{"mode":"r","path":"C:\\y"},"id":0}
{"execute":"guest-file-read","arguments":{"count":49152,"handle":1000},"id":0}
{"execute":"guest-file-close","arguments":{"handle":1000},"id":0}
{"execute":"guest-exec","arguments":{"arg":["query","HKLM\\ł"],"capture-output":true,"path":"C:\\Windows\\System32\\reg.exe"},"id":0}
{"execute":"guest-exec-status","arguments":{"pid":9},"id":0}
{"execute":"guest-shutdown","arguments":{"mode":"reboot"},"id":0}
{"execute":"guest-sync","arguments":{"id":0}}
{"execute":"guest-shutdown","arguments":{"mode":"powerdown"},"id":0}
"#
    );
}

/// A machine that waits for room on the host's disk stands, and its deadlines with it.
#[test]
fn deadlines_are_the_machines_and_the_watcher_sees_each_answer() {
    let end = |slow| {
        let world = World {
            slow,
            ..World::open()
        };
        let mut started = None;
        let answer = in_step(move |request| {
            let started = *started.get_or_insert_with(Instant::now);
            match request["execute"].as_str() {
                Some("guest-exec") => line(json!({"return": {"pid": 7}})),
                _ => {
                    let exited = started.elapsed() > Duration::from_secs(4);
                    line(json!({"return": {"exited": exited, "exitcode": 0}}))
                }
            }
        });
        let (mut agent, _) = peer(&world, 4096, answer);
        assert!(agent.try_open(PATIENCE).expect("open"));
        let brief = GuestCommand {
            timeout: Duration::from_secs(2),
            ..command(r"C:\brief.exe", &[])
        };
        let exit = run(&mut agent, &brief).0;
        let talk = world.talk.lock().expect("lock").clone();
        // The last question's answer may come after the deadline.
        let pairs = talk.chunks(2).all(|p| p[0] && p.get(1) != Some(&true));
        assert!(pairs && talk.len() >= 5, "{talk:?}");
        exit.map_err(|e| e.fact().to_string())
    };
    assert_eq!(end(true), Ok(GuestExit::Code(0)));
    assert_eq!(end(false), Err("the program did not end within 2 s".into()));
}

#[test]
fn replies_in_single_bytes_and_an_exit_code_of_32_bits() {
    let world = World::open();
    let mut polls = 0;
    let (mut agent, heard) = peer(
        &world,
        1,
        in_step(move |request| {
            line(match request["execute"].as_str() {
                Some("guest-exec") => json!({"return": {"pid": 7}}),
                _ => {
                    polls += 1;
                    match polls {
                        3 => {
                            json!({"return": {"exited": true, "exitcode": -2146498529i64, "out-data": "aGkK"}})
                        }
                        _ => json!({"return": {"exited": false}}),
                    }
                }
            })
        }),
    );
    assert!(agent.try_open(PATIENCE).expect("open"));
    let (exit, text) = run(&mut agent, &command(r"C:\dism.exe", &["/online", "a b"]));
    assert_eq!(exit.expect("an end"), GuestExit::Code(-2146498529));
    assert_eq!(text, "hi\n");
    assert_eq!(
        heard.commands(),
        [
            "guest-sync",
            "guest-exec",
            "guest-exec-status",
            "guest-exec-status",
            "guest-exec-status"
        ]
    );
    assert_eq!(
        heard.requests()[1]["arguments"],
        json!({"path": r"C:\dism.exe", "arg": ["/online", "a b"], "capture-output": true})
    );
}

#[test]
fn stale_replies_before_the_first_answer_are_dropped() {
    let world = World::open();
    let mut first = true;
    let (mut agent, _) = peer(&world, 3, move |request| {
        let mut bytes = Vec::new();
        if std::mem::take(&mut first) {
            bytes.extend(line(json!({"return": 4711})));
            bytes.extend(b"{\"error\": {\"class\": \"GenericError\", \"desc\": \"JSON parse error, stray\"}}\n\xff");
            bytes.extend(b"not json\n");
        }
        bytes.extend(match request["execute"].as_str() {
            Some("guest-sync") => line(json!({"return": request["arguments"]["id"]})),
            _ => line(json!({"return": {}})),
        });
        bytes
    });
    assert!(agent.try_open(PATIENCE).expect("open"));
}

/// A reply that comes after its deadline must not be taken for the next one's.
#[test]
fn a_late_reply_does_not_answer_the_next_command() {
    let world = World::open();
    let mut held: Option<Vec<u8>> = None;
    let mut opens = 0;
    let (mut agent, heard) = peer(&world, 4096, move |request| {
        match request["execute"].as_str() {
            Some("guest-exec") => {
                held = Some(line(json!({"return": {"pid": 1}})));
                Vec::new()
            }
            Some("guest-sync") => {
                let mut bytes = held.take().unwrap_or_default();
                bytes.extend(line(json!({"return": request["arguments"]["id"]})));
                bytes
            }
            Some("guest-file-open") => {
                opens += 1;
                line(json!({"return": 1000 + opens}))
            }
            Some("guest-file-read") => {
                line(json!({"return": {"count": 2, "buf-b64": "b2s=", "eof": true}}))
            }
            _ => line(json!({"return": {}})),
        }
    });
    assert!(agent.try_open(PATIENCE).expect("open"));
    let slow = GuestCommand {
        timeout: Duration::from_millis(200),
        ..command(r"C:\slow.exe", &[])
    };
    let error = run(&mut agent, &slow).0.expect_err("no reply");
    assert_eq!(error.kind(), Kind::Step);
    assert_eq!(error.fact(), "the program did not end within 0 s");
    assert_eq!(
        agent.get(r"C:\ok", 100).expect("read"),
        Some(b"ok".to_vec())
    );
    assert_eq!(
        heard.commands(),
        [
            "guest-sync",
            "guest-exec",
            "guest-sync",
            "guest-file-open",
            "guest-file-read",
            "guest-file-close"
        ]
    );
}

/// What a peer does with the `id` of its requests.
#[derive(Clone, Copy)]
enum Ids {
    Echoed,
    Ignored,
    Refused,
}

/// A peer whose program ends with code 7, and which says something else before it tells so.
fn noise_before(
    ids: Ids,
    mut before: impl FnMut(&Value) -> Vec<u8> + Send + 'static,
) -> (String, Vec<String>) {
    let world = World::open();
    let mut asked = 0;
    let (mut agent, heard) = peer(
        &world,
        4096,
        in_step(move |request| {
            let id = &request["id"];
            if matches!(ids, Ids::Refused) && !id.is_null() {
                let desc = "QMP input object member 'id' is unexpected";
                return line(json!({"error": {"class": "GenericError", "desc": desc}}));
            }
            let mut reply = match request["execute"].as_str() {
                Some("guest-exec") => json!({"return": {"pid": 1}}),
                _ => {
                    asked += 1;
                    json!({"return": {"exited": asked > 1, "exitcode": 7}})
                }
            };
            if matches!(ids, Ids::Echoed) {
                reply["id"] = id.clone();
            }
            let mut bytes = match request["execute"].as_str() {
                Some("guest-exec-status") => before(request),
                _ => Vec::new(),
            };
            bytes.extend(line(reply));
            bytes
        }),
    );
    assert!(agent.try_open(PATIENCE).expect("open"));
    let (exit, _) = run(&mut agent, &command(r"C:\a.exe", &[]));
    (format!("{exit:?}"), heard.commands())
}

#[test]
fn a_reply_to_another_request_is_not_taken_for_this_ones() {
    let stale = |id: Value| {
        move |_: &Value| {
            let mut reply = json!({"return": {"exited": true, "exitcode": 0}});
            if !id.is_null() {
                reply["id"] = id.clone();
            }
            line(reply)
        }
    };
    let seven = "Ok(Code(7))";
    assert_eq!(noise_before(Ids::Echoed, stale(json!(1))).0, seven);
    assert_eq!(noise_before(Ids::Echoed, stale(json!("old"))).0, seven);
    // Of a request that had none, such as another client's.
    assert_eq!(noise_before(Ids::Echoed, stale(Value::Null)).0, seven);
}

#[test]
fn an_agent_without_ids_is_served() {
    let asked = [
        "guest-sync",
        "guest-exec",
        "guest-exec-status",
        "guest-exec-status",
    ];
    let (exit, heard) = noise_before(Ids::Ignored, |_| Vec::new());
    assert_eq!(
        (exit.as_str(), &heard[..]),
        ("Ok(Code(7))", &asked.map(String::from)[..])
    );
    // One that takes the member for a mistake is asked again without it, and no more with it.
    let (exit, heard) = noise_before(Ids::Refused, |_| Vec::new());
    assert_eq!(exit, "Ok(Code(7))");
    assert_eq!(
        heard,
        [
            "guest-sync",
            "guest-exec",
            "guest-exec",
            "guest-exec-status",
            "guest-exec-status",
        ]
    );
}

#[test]
fn nothing_is_sent_before_the_port_is_open() {
    let world = World::default();
    let (mut agent, heard) = peer(&world, 4096, in_step(|_| Vec::new()));
    assert!(
        !agent
            .try_open(Duration::from_millis(200))
            .expect("still closed")
    );
    assert_eq!(heard.commands(), Vec::<String>::new());
    world.change(true);
    assert!(agent.try_open(PATIENCE).expect("open"));
    assert_eq!(heard.commands(), ["guest-sync"]);
}

#[test]
fn a_guest_that_goes_down_under_a_command_is_gone_and_comes_back() {
    let world = World::open();
    let moving = world.clone();
    let mut asked = 0;
    let (mut agent, heard) = peer(
        &world,
        4096,
        in_step(move |request| match request["execute"].as_str() {
            Some("guest-exec") => line(json!({"return": {"pid": 1}})),
            _ => {
                asked += 1;
                if asked == 2 {
                    moving.change(false);
                    let later = moving.clone();
                    std::thread::spawn(move || {
                        std::thread::sleep(Duration::from_millis(300));
                        later.change(true);
                    });
                }
                line(json!({"return": {"exited": false}}))
            }
        }),
    );
    assert!(agent.try_open(PATIENCE).expect("open"));
    assert_eq!(
        run(&mut agent, &command(r"C:\update.exe", &[]))
            .0
            .expect("gone"),
        GuestExit::GuestGone
    );
    let error = agent.get(r"C:\x", 10).expect_err("not back yet");
    assert_eq!(
        error.fact(),
        r"the guest restarted or closed its channel during reading C:\x"
    );
    agent.wait_for_return(PATIENCE).expect("back");
    assert_eq!(
        heard.commands().last().map(String::as_str),
        Some("guest-sync")
    );
}

#[test]
fn a_reboot_waits_for_the_port_to_close_and_open_again() {
    let world = World::open();
    let moving = world.clone();
    let (mut agent, heard) = peer(
        &world,
        4096,
        in_step(move |request| {
            assert_eq!(request["arguments"], json!({"mode": "reboot"}));
            let later = moving.clone();
            std::thread::spawn(move || {
                for open in [false, true] {
                    std::thread::sleep(Duration::from_millis(150));
                    later.change(open);
                }
            });
            Vec::new()
        }),
    );
    assert!(agent.try_open(PATIENCE).expect("open"));
    agent.reboot(PATIENCE).expect("back");
    assert_eq!(
        heard.commands(),
        ["guest-sync", "guest-shutdown", "guest-sync"]
    );
    let error = agent
        .wait_for_return(Duration::from_millis(100))
        .expect_err("no further restart");
    assert_eq!(error.fact(), "the guest did not restart within 0 s");
}

#[test]
fn a_guest_that_powers_off_instead_is_reported() {
    let world = World::open();
    let moving = world.clone();
    let (mut agent, _) = peer(
        &world,
        4096,
        in_step(move |_| {
            moving.port.lock().expect("lock").off = true;
            Vec::new()
        }),
    );
    assert!(agent.try_open(PATIENCE).expect("open"));
    let error = agent.reboot(PATIENCE).expect_err("off");
    assert_eq!(error.fact(), "the guest powered off instead of restarting");
    agent.shut_down().expect("it is off already");
}

#[test]
fn a_machine_that_dies_ends_every_wait_with_its_reason() {
    for how in ["dies", "interrupted"] {
        let world = World::open();
        let moving = world.clone();
        let (mut agent, _) = peer(
            &world,
            4096,
            in_step(move |_| {
                match how {
                    "dies" => {
                        *moving.dead.lock().expect("lock") = Some("QEMU died: signal 6 (SIGABRT)")
                    }
                    _ => moving.cancel.cancel(),
                }
                Vec::new()
            }),
        );
        assert!(agent.try_open(PATIENCE).expect("open"));
        let began = Instant::now();
        let long = GuestCommand {
            timeout: Duration::from_secs(3600),
            ..command(r"C:\x.exe", &[])
        };
        let error = run(&mut agent, &long).0.expect_err(how);
        let expected = match how {
            "dies" => (Kind::Machine, "QEMU died: signal 6 (SIGABRT)"),
            _ => (Kind::Cancelled, "interrupted"),
        };
        assert_eq!((error.kind(), error.fact()), expected);
        assert!(
            began.elapsed() < Duration::from_secs(60),
            "waited for the command's hour"
        );
    }
}

#[test]
fn a_socket_that_closes_without_a_reason_is_an_error() {
    let world = World::open();
    let (ours, theirs) = UnixStream::pair().expect("a socket pair");
    let mut agent = AgentGuest::new(ours, world.host(), PATIENCE).expect("an agent");
    drop(theirs);
    let error = agent.try_open(PATIENCE).expect_err("closed");
    assert_eq!(error.fact(), "the guest agent's socket was closed");
}

/// Windows in another language says "not found" in its own words; `cmd` is asked instead.
#[test]
fn a_missing_file_is_none_in_every_language_and_a_refusal_is_not() {
    for (words, exit, expected) in [
        (
            "failed to open file 'C:\\x y': The system cannot find the file specified.",
            1,
            Some(()),
        ),
        (
            "failed to open file 'C:\\x y': The system cannot find the path specified.",
            1,
            Some(()),
        ),
        (
            "failed to open file 'C:\\x y': Das System kann die angegebene Datei nicht finden.",
            44,
            Some(()),
        ),
        ("failed to open file 'C:\\x y': Zugriff verweigert", 0, None),
    ] {
        let world = World::open();
        let (mut agent, heard) = peer(
            &world,
            4096,
            in_step(move |request| {
                line(match request["execute"].as_str() {
                    Some("guest-file-open") => {
                        json!({"error": {"class": "GenericError", "desc": words}})
                    }
                    Some("guest-exec") => json!({"return": {"pid": 9}}),
                    _ => json!({"return": {"exited": true, "exitcode": exit}}),
                })
            }),
        );
        assert!(agent.try_open(PATIENCE).expect("open"));
        match (agent.get(r"C:\x y", 10), expected) {
            (Ok(None), Some(())) => {}
            (Err(error), None) => assert_eq!(
                error.to_string(),
                format!("the guest agent refused reading C:\\x y\n  found: {words}")
            ),
            (other, _) => panic!("{words}: {other:?}"),
        }
        if exit == 44 {
            assert_eq!(
                heard.requests()[2]["arguments"]["arg"],
                json!(["/d", "/c", "if", "not", "exist", r"C:\x y", "exit", "44"])
            );
        }
    }
}

#[test]
fn large_files_go_onto_a_disc_and_discs_reach_the_machine() {
    let world = World::open();
    let (mut agent, heard) = peer(&world, 4096, in_step(|_| Vec::new()));
    let bytes = vec![0; (256 << 10) + 1];
    let error = agent
        .put(GuestDelivery::Bytes {
            path: r"C:\big",
            bytes: &bytes,
        })
        .expect_err("too large");
    assert_eq!(
        error.to_string(),
        "this file is too large for the guest agent\n  at: C:\\big\n  expected: at most 262144 bytes\n  \
         found: 262145 bytes\n  cure: deliver it on the payload disc"
    );
    agent
        .put(GuestDelivery::Disc(Path::new("/tmp/p.iso")))
        .expect("disc");
    agent.put(GuestDelivery::NoDiscs).expect("none");
    assert_eq!(
        *world.discs.lock().expect("lock"),
        [Some(PathBuf::from("/tmp/p.iso")), None]
    );
    assert_eq!(heard.commands(), Vec::<String>::new());
}

#[test]
fn a_reply_without_end_is_an_error() {
    let world = World::open();
    let (mut agent, _) = peer(&world, 1 << 20, in_step(|_| vec![b'x'; 65 << 20]));
    assert!(agent.try_open(PATIENCE).expect("open"));
    let error = agent.get(r"C:\x", 10).expect_err("no end");
    assert_eq!(
        error.to_string(),
        "the guest agent's reply is too long\n  expected: at most 64 MiB"
    );
}

/// An agent that hangs with its input full must not hang us.
#[test]
fn a_peer_that_reads_nothing_is_late_not_a_hang() {
    let world = World::open();
    let (ours, theirs) = UnixStream::pair().expect("a socket pair");
    let mut agent =
        AgentGuest::new(ours, world.host(), Duration::from_millis(300)).expect("an agent");
    assert!(
        !agent
            .try_open(Duration::from_millis(300))
            .expect("no answer")
    );
    let bytes = vec![b'x'; 256 << 10];
    let error = agent
        .put(GuestDelivery::Bytes {
            path: r"C:\x",
            bytes: &bytes,
        })
        .expect_err("late");
    assert_eq!(
        error.fact(),
        r"the guest agent did not answer in time during writing C:\x"
    );
    drop(theirs);
}

/// The real agent, ended with the test.
struct QemuGa {
    child: Child,
    folder: tempfile::TempDir,
}

impl QemuGa {
    /// `None`, with the reason printed, where it is not installed.
    fn start() -> Option<Self> {
        let Some(program) = ["/usr/sbin/qemu-ga", "/usr/bin/qemu-ga"]
            .into_iter()
            .find(|p| Path::new(p).exists())
        else {
            skip::skipped("qemu-ga is not installed (package qemu-guest-agent)");
            return None;
        };
        let folder = tempfile::tempdir().expect("a folder");
        let path = |name: &str| folder.path().join(name);
        let child = std::process::Command::new(program)
            .args(["-m", "unix-listen", "-p"])
            .arg(path("ga.sock"))
            .arg("-t")
            .arg(folder.path())
            .arg("-f")
            .arg(path("ga.pid"))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("qemu-ga starts");
        Some(Self { child, folder })
    }

    fn connect(&self) -> UnixStream {
        let socket = self.folder.path().join("ga.sock");
        let deadline = Instant::now() + Duration::from_secs(10);
        loop {
            match UnixStream::connect(&socket) {
                Ok(stream) => return stream,
                Err(e) => assert!(Instant::now() < deadline, "{e}"),
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    fn agent(&self) -> AgentGuest {
        agent_on(self.connect())
    }
}

/// In step with the real agent at the stream's other end.
fn agent_on(stream: UnixStream) -> AgentGuest {
    let mut agent = AgentGuest::new(stream, World::open().host(), PATIENCE).expect("an agent");
    assert!(agent.try_open(PATIENCE).expect("open"));
    agent
}

impl Drop for QemuGa {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn the_real_agent_runs_programs() {
    let Some(ga) = QemuGa::start() else { return };
    let mut agent = ga.agent();
    let (exit, text) = run(
        &mut agent,
        &command("/bin/sh", &["-c", "echo out; echo err >&2; exit 3"]),
    );
    assert_eq!(exit.expect("an end"), GuestExit::Code(3));
    assert_eq!(text, "out\nerr\n");
    let arguments = [
        "%s|",
        "a b",
        "quo\"te",
        r"back\slash",
        "żółć",
        "%PATH%",
        "^&|<>",
    ];
    let (exit, text) = run(&mut agent, &command("/usr/bin/printf", &arguments));
    assert_eq!(exit.expect("an end"), GuestExit::Code(0));
    assert_eq!(text, "a b|quo\"te|back\\slash|żółć|%PATH%|^&|<>|");
    let (exit, _) = run(&mut agent, &command("/bin/sh", &["-c", "kill -9 $$"]));
    assert_eq!(exit.expect("an end"), GuestExit::Code(137));
    let error = run(&mut agent, &command("/no/such/program", &[]))
        .0
        .expect_err("missing");
    assert_eq!(error.kind(), Kind::Step);
    assert_eq!(error.fact(), "the guest cannot start the program");
    let slow = GuestCommand {
        timeout: Duration::from_millis(300),
        ..command("/bin/sleep", &["30"])
    };
    assert_eq!(
        run(&mut agent, &slow).0.expect_err("slow").kind(),
        Kind::Step
    );
    let (exit, text) = run(
        &mut agent,
        &command("/bin/echo", &["after", "a", "timeout"]),
    );
    assert_eq!(
        (exit.expect("an end"), text.as_str()),
        (GuestExit::Code(0), "after a timeout\n")
    );
}

#[test]
fn the_real_agent_writes_and_reads_files() {
    let Some(ga) = QemuGa::start() else { return };
    let mut agent = ga.agent();
    let file = ga.folder.path().join("some file");
    let path = file.to_str().expect("text");
    // More than one chunk of 48 KiB, and every byte value.
    let bytes: Vec<u8> = (0..150_000u32).map(|n| (n % 251) as u8).collect();
    agent
        .put(GuestDelivery::Bytes {
            path,
            bytes: &bytes,
        })
        .expect("written");
    assert_eq!(std::fs::read(&file).expect("the file"), bytes);
    assert_eq!(
        agent.get(path, bytes.len()).expect("read"),
        Some(bytes.clone())
    );
    let error = agent.get(path, 1000).expect_err("larger than allowed");
    assert_eq!(error.fact(), "the guest's file is too large");
    assert_eq!(agent.get("/no/such/file", 10).expect("no error"), None);
    agent
        .put(GuestDelivery::Bytes { path, bytes: b"" })
        .expect("emptied");
    assert_eq!(agent.get(path, 10).expect("read"), Some(Vec::new()));
    let error = agent
        .put(GuestDelivery::Bytes {
            path: "/no/such/folder/x",
            bytes: b"x",
        })
        .expect_err("no folder");
    assert_eq!(
        error.fact(),
        "the guest agent refused writing /no/such/folder/x"
    );
}

/// Replies that nobody waited for, and half a request, of a client before us: on our connection, as
/// behind a serial port, and on one of its own, which leaves the half request in the agent's
/// parser.
#[test]
fn the_real_agent_is_brought_in_step_after_a_client_that_left_half_a_request() {
    let ping = b"{\"execute\": \"guest-ping\"}\n";
    let half = b"{\"execute\": \"guest-ping\", \"argum";
    for is_ours in [true, false] {
        let Some(ga) = QemuGa::start() else { return };
        let mut rude = ga.connect();
        rude.write_all(ping).expect("written");
        if !is_ours {
            // A client that leaves with a reply unread resets the connection, at which qemu-ga
            // ends; a serial port has no such.
            let mut reply = String::new();
            let read = BufReader::new(&rude).read_line(&mut reply);
            assert_eq!(
                (read.expect("read"), reply.as_str()),
                (15, "{\"return\": {}}\n")
            );
        }
        rude.write_all(half).expect("written");
        let mut agent = if is_ours {
            agent_on(rude)
        } else {
            drop(rude);
            ga.agent()
        };
        let (exit, text) = run(&mut agent, &command("/bin/echo", &["mine"]));
        assert_eq!(
            (exit.expect("an end"), text.as_str()),
            (GuestExit::Code(0), "mine\n")
        );
    }
}
