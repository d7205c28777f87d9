//! A build that waits for a person: breaks, failures, `winimg attach`, `winimg screen`, and the build's own terminal.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::cli::site::{BUILD, SEAL, Site};
use crate::cli::terminal::{screen, terminal};
use support::difference::lines_that_differ;
use support::killed::KilledChild;
use support::tree::root;

const LONGEST: Duration = Duration::from_secs(60);
const STEPS: &str = "[[steps]]\nname = \"one\"\ncmd = \"echo one\"\n\n[[steps]]\nname = \"two\"\ncmd = \"echo two\"\n";

/// Steps one and two, and a seal.
pub fn site() -> Site {
    Site::new(&format!("{STEPS}\n{SEAL}"))
}

fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let deadline = Instant::now() + LONGEST;
    while !is_so() {
        assert!(Instant::now() < deadline, "{what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Answers of the guest to a person's lines, one after the other: output, exit code, folder afterwards.
fn answers(replies: &[(&str, i64, &str)]) -> String {
    let entry = |(output, exit, folder): &(&str, i64, &str)| {
        format!(
            "[[run]]\ncommand = 'C:\\Windows\\System32\\cmd.exe /d /c C:\\winimg\\attach.cmd'\ntimes = 1\n\
             output = \"{output}\"\nexit = {exit}\nfiles = {{ 'C:\\winimg\\attach.cwd' = \"{}\\r\\n\" }}\n",
            folder.replace('\\', "\\\\")
        )
    };
    replies.iter().map(entry).collect()
}

/// The second step fails the first `times` it is run.
fn fails(times: u32) -> String {
    format!(
        "[[run]]\ncommand = '*\\steps\\002.cmd'\nexit = 5\ntimes = {times}\noutput = \"no\\r\\n\"\n"
    )
}

/// A build without a terminal.
pub struct Build<'a> {
    site: &'a Site,
    child: Option<Child>,
}

impl<'a> Build<'a> {
    pub fn start(site: &'a Site, more: &[&str]) -> Self {
        let mut command = site.command(&[&BUILD, more].concat());
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let child = Some(command.spawn().expect("winimg starts"));
        Self { site, child }
    }

    /// Started, and run to its `nth` pause.
    pub fn paused(site: &'a Site, more: &[&str]) -> Self {
        let build = Self::start(site, more);
        build.pauses(1);
        build
    }

    fn pauses(&self, nth: usize) {
        let events = self.site.path("out/events.jsonl");
        until("it does not pause", || {
            let text = std::fs::read_to_string(&events).unwrap_or_default();
            text.matches("\"event\":\"paused\"").count() >= nth
        });
    }

    pub fn signal(&self, signal: Signal) {
        let child = self.child.as_ref().expect("running");
        let pid = Pid::from_raw(i32::try_from(child.id()).expect("a pid"));
        kill(pid, signal).expect("the signal is sent");
    }

    pub fn end(&mut self) -> Output {
        let mut child = self.child.take().expect("running");
        until("it does not end", || {
            child.try_wait().expect("a child").is_some()
        });
        child.wait_with_output().expect("its words")
    }
}

impl Drop for Build<'_> {
    fn drop(&mut self) {
        if let Some(child) = &mut self.child {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// `winimg` with these lines on its standard input.
pub fn piped(site: &Site, arguments: &[&str], lines: &str) -> String {
    let mut command = site.command(arguments);
    command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = command.spawn().expect("winimg starts");
    let mut stdin = child.stdin.take().expect("piped");
    // It may leave before it has read everything.
    let _ = stdin.write_all(lines.as_bytes());
    drop(stdin);
    site.ended(child.wait_with_output().expect("it ends"))
        .whole()
}

#[test]
fn options_that_cannot_be_met_are_reported_at_once_before_anything_is_made() {
    let site = Site::new(&format!(
        "{STEPS}\n[[steps]]\nname = \"never\"\nwhen = \"1 == 2\"\ncmd = \"echo\"\n\n{SEAL}"
    ));
    let mut said = site
        .build(&[
            "--break",
            "tow",
            "--break",
            "9",
            "--break",
            "never",
            "--break",
            "2",
            "--debug",
            "--on-error",
            "ask",
        ])
        .whole();
    said += &site.build(&["--keep-for", "1h"]).whole();
    said += &site.build(&["--keep-for", "soon"]).whole();
    insta::assert_snapshot!(said);
    assert!(!site.path("out").exists());
}

#[test]
fn a_break_is_attached_to_through_a_pipe() {
    let site = site();
    site.machine(
        "[files]\n'C:\\winimg\\bootstrap.done' = \"result=ok\\r\\n\"\n'C:\\k\\a log.txt' = \"kept\"\n",
        &answers(&[
            ("Microsoft Windows [Version 10.0.20348.587]\\r\\n", 0, "C:\\"),
            ("", 0, "C:\\k"),
            ("File Not Found\\r\\n", 3, "C:\\k"),
            ("a\\u001b[31mb\\r\\n", 0, "C:\\k"),
        ]),
    );
    let mut build = Build::paused(&site, &["--break", "two"]);
    let mut said = piped(
        &site,
        &["attach", "out"],
        "ver\r\ncd k\n\ndir x\n.get \"a log.txt\" got.txt\n.get nothing got.txt\n.retry\n.frob\necho Ä\n.screen seen.png\ndir x\n",
    );
    assert_eq!(site.read("got.txt"), "kept");
    let png = std::fs::read(site.path("seen.png")).expect("a picture");
    assert!(png.starts_with(b"\x89PNG"));
    // The status is the last line's.
    said += &piped(&site, &["attach", "out"], "dir x\n.go\n");
    insta::assert_snapshot!("attached", said);
    let output = build.end();
    let outcome = site.ended(output).ended_well();
    insta::assert_snapshot!("attached_build", outcome.stderr());
    insta::assert_snapshot!("attached_asked", site.asked());
    let manifest: serde_json::Value =
        serde_json::from_str(&site.read("out/manifest.json")).expect("JSON");
    let warnings = manifest["warnings"].to_string();
    assert!(
        warnings.contains("commands were run manually before step 2"),
        "{warnings}"
    );
}

#[test]
fn the_status_is_the_exit_code_of_the_last_line() {
    let site = site();
    let replies = [("", 7, "C:\\"), ("", 0, "C:\\"), ("", 3010, "C:\\")];
    site.machine("", &answers(&replies));
    let _build = Build::paused(&site, &["--break", "1"]);
    let status = |lines: &str| {
        let said = piped(&site, &["attach", "out"], lines);
        said.lines().next().unwrap_or_default().to_string()
    };
    assert_eq!(status("a\n"), "exit status: 7");
    assert_eq!(status("a\n"), "exit status: 0");
    assert_eq!(status("a\n"), "exit status: 1");
}

#[test]
fn a_failed_step_is_mended_and_tried_again() {
    let site = site();
    site.machine(
        "",
        &format!("{}{}", fails(1), answers(&[("mended\\r\\n", 0, "C:\\")])),
    );
    let mut build = Build::paused(&site, &["--on-error", "keep", "--keep-for", "1h"]);
    let said = piped(&site, &["attach", "out"], "mend\n.go\n.retry\n");
    insta::assert_snapshot!("mended", said);
    let outcome = site.ended(build.end()).ended_well();
    insta::assert_snapshot!("mended_build", outcome.stderr());
    let log = site.read("out/logs/02-two.log");
    let said: Vec<&str> = log.lines().filter(|l| !l.contains("payload")).collect();
    let command = r"> C:\Windows\System32\cmd.exe /d /c C:\winimg\steps\002.cmd";
    assert_eq!(said, [command, "no", command], "{log}");
    let manifest: serde_json::Value =
        serde_json::from_str(&site.read("out/manifest.json")).expect("JSON");
    assert_eq!(
        manifest["warnings"]
            .to_string()
            .matches("retried manually")
            .count(),
        1,
        "{}",
        manifest["warnings"]
    );
}

#[test]
fn a_kept_machine_is_let_go_by_stop_by_ctrl_c_and_by_time() {
    let site = site();
    site.machine("", &fails(9));
    // The first snapshot is complete; the others are differences from it.
    let (mut whole, mut said) = (String::new(), String::new());
    for (how, longest) in [("stop", "1h"), ("ctrl-c", "1h"), ("time", "1s")] {
        let mut build = Build::paused(&site, &["--on-error", "keep", "--keep-for", longest]);
        match how {
            "stop" => drop(piped(&site, &["attach", "out"], ".stop\n")),
            "ctrl-c" => build.signal(Signal::SIGINT),
            _ => {}
        }
        let outcome = site.ended(build.end());
        let left = site.files("out");
        let is_kept = left.iter().any(|f| f.ends_with("/disk.qcow2"));
        let is_reported = left.iter().any(|f| f == "failure/error.txt");
        said += &format!("=== {how}: disk kept {is_kept}, evidence {is_reported}\n");
        if whole.is_empty() {
            whole = outcome.whole();
            said += &whole;
        } else {
            said += &lines_that_differ(&whole, &outcome.whole());
        }
        std::fs::remove_dir_all(site.path("out")).expect("removed");
    }
    insta::assert_snapshot!(said);
}

#[test]
fn ctrl_c_at_a_break_ends_the_build() {
    let site = site();
    let mut build = Build::paused(&site, &["--break", "one"]);
    build.signal(Signal::SIGINT);
    let outcome = site.ended(build.end());
    assert_eq!(outcome.status(), Some(130));
    assert_eq!(outcome.error(), "error: interrupted\n");
    assert_eq!(
        site.files("out"),
        [".winimg-lock", "events.jsonl", "report.html"]
    );
}

#[test]
fn a_machine_that_dies_under_a_pause_ends_it() {
    let site = site();
    site.machine(
        "",
        "[[run]]\ncommand = '*attach.cmd'\noutcome = \"machine-crashes\"\n",
    );
    let mut build = Build::paused(&site, &["--break", "two"]);
    let said = piped(&site, &["attach", "out"], "boom\nver\n");
    assert!(said.contains("QEMU died"), "{said}");
    let outcome = site.ended(build.end());
    insta::assert_snapshot!(outcome.failure());
}

#[test]
fn a_guest_that_restarts_under_a_line_is_waited_for() {
    let site = site();
    site.machine(
        "",
        &format!(
            "[[run]]\ncommand = '*attach.cmd'\noutcome = \"guest-gone\"\ntimes = 1\n{}",
            answers(&[("back\\r\\n", 0, "C:\\")])
        ),
    );
    let mut build = Build::paused(&site, &["--break", "two"]);
    insta::assert_snapshot!(piped(
        &site,
        &["attach", "out"],
        "shutdown /r /t 0\necho back\n.go\n"
    ));
    site.ended(build.end()).ended_well();
}

#[test]
fn setup_that_fails_can_be_looked_at() {
    let site = site();
    site.machine("[install]\noutcome = \"stands-still\"\n", "");
    let mut build = Build::paused(&site, &["--on-error", "keep", "--keep-for", "1h"]);
    let said = piped(&site, &["attach", "out"], "ver\n.retry\n");
    site.run(&["screen", "out", "--png", "setup.png"])
        .ended_well();
    assert!(site.path("setup.png").exists());
    let stopped = piped(&site, &["attach", "out"], ".stop\n");
    let outcome = site.ended(build.end());
    insta::assert_snapshot!(format!("{said}{stopped}{}", outcome.whole()));
}

#[test]
fn a_build_that_is_not_paused_only_shows_its_screen() {
    let site = site();
    site.machine(
        "",
        "[[run]]\ncommand = '*\\steps\\001.cmd'\noutcome = \"hangs\"\n",
    );
    let mut build = Build::start(&site, &[]);
    let events = site.path("out/events.jsonl");
    until("the step does not begin", || {
        let text = std::fs::read_to_string(&events).unwrap_or_default();
        text.contains("steps\\\\001.cmd")
    });
    let said = piped(&site, &["attach", "out"], "ver\n.go\n.screen now.png\n");
    let no_terminal = site.run(&["screen", "out"]).whole();
    let (drawn, status) = {
        let output = terminal(&site, "screen out").output().expect("script");
        (
            String::from_utf8_lossy(&output.stdout).into_owned(),
            output.status.code(),
        )
    };
    assert_eq!(drawn, "\u{1b}[38;2;0;0;0m▀\u{1b}[0m\r\n");
    assert_eq!(status, Some(0));
    build.signal(Signal::SIGKILL);
    build.end();
    // Its socket is still there, and nobody answers at it.
    let dead = site.run(&["attach", "out"]).error();
    let dead = dead.lines().take(2).collect::<Vec<_>>().join("\n");
    insta::assert_snapshot!(format!("{said}{no_terminal}{dead}"));
}

#[test]
fn several_builds_are_listed_and_none_is_guessed() {
    let (first, second) = (site(), site());
    let _one = Build::paused(&first, &["--break", "two"]);
    let _other = Build::paused(&second, &["--break", "one"]);
    let outcome = first.run(&["attach"]);
    assert_eq!(outcome.status(), Some(2));
    let said = outcome.error();
    assert!(
        said.starts_with("error: several builds are running\n"),
        "{said}"
    );
    assert!(
        said.contains("| /site/out: node, provision, [1/3] one\n"),
        "{said}"
    );
    let other = second.path("out").display().to_string();
    let other = other.replace(&root().display().to_string(), "/source");
    let line = format!("| {other}: node, provision\n");
    assert!(said.contains(&line), "{said}");
}

/// The socket of the build into this site.
fn socket(site: &Site) -> PathBuf {
    let runtime = format!("/tmp/winimg-{}", nix::unistd::getuid());
    let output = format!("{:?}", site.path("out"));
    for entry in std::fs::read_dir(runtime).expect("builds run").flatten() {
        let socket = entry.path().join("attach.sock");
        let Ok(mut stream) = UnixStream::connect(&socket) else {
            continue;
        };
        stream.write_all(b"{\"ask\":\"state\"}\n").expect("asked");
        let mut line = String::new();
        let _ = BufReader::new(stream).read_line(&mut line);
        if line.contains(&output) {
            return socket;
        }
    }
    panic!("no socket of this build");
}

#[test]
fn clients_that_flood_or_hang_do_not_harm_the_build() {
    let site = site();
    let mut build = Build::paused(&site, &["--break", "two"]);
    let socket = socket(&site);
    let connect = || {
        let stream = UnixStream::connect(&socket).expect("connected");
        stream.set_read_timeout(Some(LONGEST)).expect("set");
        stream
    };
    let answer = |mut stream: &UnixStream, bytes: &[u8]| {
        let _ = stream.write_all(bytes);
        let mut line = String::new();
        let _ = BufReader::new(stream).read_line(&mut line);
        line
    };
    assert_eq!(
        answer(&connect(), &vec![b'x'; 200 << 10]),
        "{\"reply\":\"refused\",\"why\":\"a line is longer than 65536 bytes\"}\n"
    );
    let strange = answer(&connect(), b"\xff\x00[[[[\n");
    assert!(
        strange.starts_with("{\"reply\":\"refused\",\"why\":\"unknown request: "),
        "{strange}"
    );
    let strange = answer(&connect(), b"{\"ask\":\"run\",\"line\":\"a\"}\n");
    assert!(strange.contains("missing field `folder`"), "{strange}");
    // Eight that say nothing, and one that finds no room; a client that just left may still be counted.
    let mut silent = Vec::new();
    until("the clients are not counted", || {
        let stream = connect();
        let answered = answer(&stream, b"{\"ask\":\"state\"}\n");
        let is_full = answered.contains("too many clients");
        silent.push(stream);
        is_full
    });
    assert!(silent.len() <= 9, "{}", silent.len());
    drop(silent);
    until("there is no room again", || {
        answer(&connect(), b"{\"ask\":\"state\"}\n").contains("\"reply\":\"state\"")
    });
    piped(&site, &["attach", "out"], ".go\n");
    site.ended(build.end()).ended_well();
}

/// A person at a terminal: waits for a text, then types.
struct Person {
    child: KilledChild,
    seen: String,
    from: std::sync::mpsc::Receiver<u8>,
}

impl Person {
    fn sits_at(site: &Site, arguments: &str) -> Self {
        let mut command: Command = terminal(site, arguments);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().expect("script starts");
        let stdout = child.stdout.take().expect("piped");
        let (to, from) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            for byte in BufReader::new(stdout).bytes().map_while(Result::ok) {
                if to.send(byte).is_err() {
                    return;
                }
            }
        });
        Self {
            child: KilledChild(child),
            seen: String::new(),
            from,
        }
    }

    /// Types `line` once `text` has been written after all that was waited for before.
    fn answers(&mut self, text: &str, line: &str) -> &mut Self {
        let mut bytes = Vec::new();
        while !bytes.ends_with(text.as_bytes()) {
            match self.from.recv_timeout(LONGEST) {
                Ok(byte) => bytes.push(byte),
                Err(_) => panic!("no {text:?} in {:?}", String::from_utf8_lossy(&bytes)),
            }
        }
        self.seen += &String::from_utf8_lossy(&bytes);
        let stdin = self.child.0.stdin.as_mut().expect("piped");
        stdin.write_all(line.as_bytes()).expect("typed");
        self
    }

    /// What the screen shows at the end, and the status.
    fn leaves(mut self, site: &Site) -> String {
        let mut bytes = Vec::new();
        while let Ok(byte) = self.from.recv_timeout(LONGEST) {
            bytes.push(byte);
        }
        self.seen += &String::from_utf8_lossy(&bytes);
        until("it does not end", || {
            self.child.0.try_wait().expect("a child").is_some()
        });
        let status = self.child.0.wait().expect("a status");
        // A terminal shows Ctrl-C where it was pressed.
        let shown = screen(&self.seen).join("\n").replace("^C", "^C\n");
        format!("{status}\n{}", site.filtered(&shown).trim_end())
    }
}

const AT_TERMINAL: &str =
    "build recipe.toml --hypervisor fake:machine.toml --output out --no-verify";

#[test]
fn debug_steps_through_with_a_shell_beside_it() {
    let site = site();
    site.machine("", &answers(&[("hello\\u001b[31m\\r\\n", 2, "C:\\k")]));
    let mut person = Person::sits_at(&site, &format!("{AT_TERMINAL} --debug"));
    person
        .answers("[q]uit: ", "\n")
        .answers("[q]uit: ", "s\n")
        .answers("C:\\>", "echo hello\n")
        .answers("C:\\k>", ".retry\n")
        .answers("C:\\k>", "exit\n")
        .answers("[q]uit: ", "what\n")
        .answers("[q]uit: ", "q\n");
    insta::assert_snapshot!(person.leaves(&site));
}

#[test]
fn a_failure_is_asked_about() {
    let site = site();
    site.machine("", &fails(2));
    let mut person = Person::sits_at(&site, &format!("{AT_TERMINAL} --on-error ask"));
    person
        .answers("[c]lean up: ", "r\n")
        .answers("[c]lean up: ", "s\n")
        .answers("C:\\>", ".retry\n");
    let mended = person.leaves(&site);
    site.machine("", &fails(9));
    let mut person = Person::sits_at(&site, &format!("{AT_TERMINAL} --on-error ask"));
    person.answers("[c]lean up: ", "c\n");
    let cleaned = person.leaves(&site);
    let left = site.files("out");
    assert!(!left.iter().any(|f| f.ends_with("disk.qcow2")), "{left:?}");
    let mut person = Person::sits_at(&site, &format!("{AT_TERMINAL} --on-error ask"));
    person
        .answers("[c]lean up: ", "k\n")
        .answers("until you press Ctrl-C\r\n", "\u{3}");
    let kept = person.leaves(&site);
    let left = site.files("out");
    assert!(left.iter().any(|f| f.ends_with("disk.qcow2")), "{left:?}");
    let last = |text: &str| match text.find("[2/3]") {
        Some(at) => text[at..].to_string(),
        None => text.to_string(),
    };
    insta::assert_snapshot!(format!(
        "=== tried again\n{mended}\n=== cleaned up\n{}\n=== kept\n{}",
        last(&cleaned),
        last(&kept)
    ));
}

#[test]
fn attach_at_a_terminal_has_a_prompt_and_survives_ctrl_c() {
    let site = site();
    let slow =
        "[[run]]\ncommand = '*attach.cmd'\ntimes = 1\ndelay_ms = 5000\noutput = \"slow\\r\\n\"\n";
    site.machine("", &format!("{slow}{}", answers(&[("", 0, "C:\\k")])));
    let mut build = Build::paused(&site, &["--break", "two"]);
    let mut person = Person::sits_at(&site, "attach out");
    person.answers("C:\\>", "slow\n");
    let asked = || site.asked().contains("attach.cmd\n");
    until("the line is not run", asked);
    person
        .answers("slow\r\n", "\u{3}")
        .answers("C:\\>", "cd k\n")
        .answers("C:\\k>", "\u{3}")
        .answers("C:\\k>", "\u{3}");
    insta::assert_snapshot!(person.leaves(&site));
    piped(&site, &["attach", "out"], ".go\n");
    site.ended(build.end()).ended_well();
}
