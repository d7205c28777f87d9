use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::process::{Child, Command};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::guest::Guest;
use crate::windows::{Power, serve_agent};

/// One end of a conversation; replies are lines.
struct Talk(UnixStream, Vec<u8>);

impl Talk {
    fn new(guest: &Guest) -> Talk {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let windows = guest.windows.clone();
        std::thread::spawn(move || {
            serve_agent(
                std::fs::File::from(std::os::fd::OwnedFd::from(theirs)),
                windows,
            )
        });
        Talk::on(ours)
    }

    fn on(stream: UnixStream) -> Talk {
        stream
            .set_read_timeout(Some(Duration::from_secs(20)))
            .unwrap();
        Talk(stream, Vec::new())
    }

    fn send(&mut self, bytes: &[u8]) {
        self.0.write_all(bytes).unwrap();
    }

    fn line(&mut self) -> Vec<u8> {
        loop {
            if let Some(end) = self.1.iter().position(|&b| b == b'\n') {
                let rest = self.1.split_off(end + 1);
                let mut line = std::mem::replace(&mut self.1, rest);
                line.pop();
                return line;
            }
            let mut chunk = [0; 65536];
            let len = self.0.read(&mut chunk).expect("a reply in time");
            assert!(len > 0, "the agent closed");
            self.1.extend(&chunk[..len]);
        }
    }

    fn reply(&mut self) -> Value {
        let line = self.line();
        serde_json::from_slice(line.strip_prefix(&[0xff]).unwrap_or(&line)).unwrap()
    }

    fn ask(&mut self, message: Value) -> Value {
        self.send(message.to_string().as_bytes());
        self.reply()
    }

    fn exec(&mut self, argv: &[&str]) -> Value {
        let start = self.ask(json!({"execute": "guest-exec", "arguments": {"path": argv[0], "arg": argv[1..], "capture-output": true}}));
        let Some(pid) = start["return"]["pid"].as_i64() else {
            return start;
        };
        let deadline = Instant::now() + Duration::from_secs(20);
        loop {
            let status =
                self.ask(json!({"execute": "guest-exec-status", "arguments": {"pid": pid}}));
            if status["return"]["exited"] != json!(false) {
                return status["return"].clone();
            }
            assert!(Instant::now() < deadline, "{argv:?} did not end");
            std::thread::sleep(Duration::from_millis(2));
        }
    }
}

/// Malformed and plain messages that have the same answer on every system.
const SHARED: &[&[u8]] = &[
    b"{\"execute\":\"guest-sync\",\"arguments\":{\"id\":77}}\n",
    b"{\"execute\":\"guest-ping\"}\n",
    b"{\"execute\":\"guest-ping\"",
    b"\xff\n",
    b"foo\n",
    b"[1]\n",
    b"12\n",
    b"\"x\"\n",
    b"}\n",
    b"{\"a\" 1}\n",
    b"{\"execute\":tru}\n",
    b"\x01\n",
    b"{\"execute\":1}\n",
    b"{\"exec\":\"a\"}\n",
    b"{\"id\":1}\n",
    b"{\"execute\":\"nope\"}\n",
    b"{\"execute\":\"guest-ping\",\"arguments\":{\"x\":1}}\n",
    b"{\"execute\":\"guest-ping\",\"arguments\":3}\n",
    b"{\"execute\":\"guest-ping\",\"foo\":3}\n",
    b"{\"execute\":\"guest-ping\",\"id\":5}",
    b"{\"execute\":\"guest-ping\",\"id\":{\"a\":[1,\"}\"]}}",
    b"{\"execute\":\"guest-sync\",\"arguments\":{\"id\":\"a\"}}\n",
    b"{\"execute\":\"guest-sync\"}\n",
    b"{\"execute\":\"guest-file-open\",\"arguments\":{\"path\":\"PATH\",\"mode\":\"q\"}}\n",
    b"{\"execute\":\"guest-file-open\",\"arguments\":{\"path\":\"PATH\",\"mode\":\"w+\"}}\n",
    b"{\"execute\":\"guest-file-write\",\"arguments\":{\"handle\":1000,\"buf-b64\":\"!!\"}}\n",
    b"{\"execute\":\"guest-file-write\",\"arguments\":{\"handle\":1000,\"buf-b64\":\"YWJj\"}}\n",
    b"{\"execute\":\"guest-file-write\",\"arguments\":{\"handle\":1000,\"buf-b64\":\"YWJj\",\"count\":9}}\n",
    b"{\"execute\":\"guest-file-seek\",\"arguments\":{\"handle\":1000,\"offset\":0,\"whence\":\"set\"}}\n",
    b"{\"execute\":\"guest-file-seek\",\"arguments\":{\"handle\":1000,\"offset\":0,\"whence\":9}}\n",
    b"{\"execute\":\"guest-file-read\",\"arguments\":{\"handle\":1000,\"count\":2}}\n",
    b"{\"execute\":\"guest-file-read\",\"arguments\":{\"handle\":1000,\"count\":67108864}}\n",
    b"{\"execute\":\"guest-file-flush\",\"arguments\":{\"handle\":1000}}\n",
    b"{\"execute\":\"guest-file-close\",\"arguments\":{\"handle\":1000}}\n",
    b"{\"execute\":\"guest-file-close\",\"arguments\":{\"handle\":1000}}\n",
    b"{\"execute\":\"guest-exec\",\"arguments\":{\"path\":\"PATH\",\"arg\":\"a\"}}\n",
    b"{\"execute\":\"guest-exec\",\"arguments\":{\"path\":\"PATH\",\"arg\":[1]}}\n",
    b"{\"execute\":\"guest-exec\"}\n",
    b"{\"execute\":\"guest-fsfreeze-status\"}\n",
];

fn transcript(talk: &mut Talk, path: &str) -> Vec<(String, Value)> {
    let mut replies = Vec::new();
    for message in SHARED {
        let text = String::from_utf8_lossy(message).into_owned();
        let bytes: Vec<u8> = if text.contains("PATH") {
            text.replace("PATH", &path.replace('\\', "\\\\"))
                .into_bytes()
        } else {
            message.to_vec()
        };
        talk.send(&bytes);
        if text != "{\"execute\":\"guest-ping\"" {
            replies.push((text, talk.reply()));
        }
    }
    replies
}

struct Real(Child);

impl Drop for Real {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn answers_are_those_of_the_real_agent() {
    let guest = Guest::new();
    let dir = tempfile::tempdir().unwrap();
    let socket = dir.path().join("ga.sock");
    let program = ["/usr/sbin/qemu-ga", "/usr/bin/qemu-ga"]
        .into_iter()
        .find(|path| std::path::Path::new(path).exists());
    let mut command = Command::new(program.expect("qemu-ga (package qemu-guest-agent)"));
    command
        .args(["-m", "unix-listen", "-p"])
        .arg(&socket)
        .arg("-t")
        .arg(dir.path())
        .arg("-f")
        .arg(dir.path().join("pid"));
    let _real = Real(command.stderr(std::process::Stdio::null()).spawn().unwrap());
    let deadline = Instant::now() + Duration::from_secs(20);
    let stream = loop {
        match UnixStream::connect(&socket) {
            Ok(stream) => break stream,
            Err(e) => assert!(Instant::now() < deadline, "{e}"),
        }
        std::thread::sleep(Duration::from_millis(10));
    };
    let real = transcript(
        &mut Talk::on(stream),
        dir.path().join("f").to_str().unwrap(),
    );
    let ours = transcript(&mut Talk::new(&guest), r"C:\f");
    for (real, ours) in real.iter().zip(&ours) {
        assert_eq!(real, ours);
    }
}

#[test]
fn a_delimited_sync_comes_after_the_fault_of_its_own_mark() {
    let guest = Guest::new();
    let mut talk = Talk::new(&guest);
    talk.send(b"\xff{\"execute\":\"guest-sync-delimited\",\"arguments\":{\"id\":9}}\n");
    assert_eq!(
        talk.reply(),
        json!({"error": {"class": "GenericError", "desc": "JSON parse error, stray '\u{fffd}'"}})
    );
    assert_eq!(talk.line(), b"\xff{\"return\":9}");
}

#[test]
fn commands_run_by_windows_rules() {
    let guest = Guest::new();
    let mut talk = Talk::new(&guest);
    let b64 = |text: &str| super::super::agent::encode_for_tests(text);
    for (argv, status) in [
        (
            &["cmd.exe", "/d", "/c", "exit 3010"][..],
            json!({"exited": true, "exitcode": 3010}),
        ),
        (
            &["cmd.exe", "/c", "exit", "-1"],
            json!({"exited": true, "signal": -1}),
        ),
        (
            &["cmd.exe", "/c", "exit", "-2146498529"],
            json!({"exited": true, "exitcode": -2146498529_i64}),
        ),
        (
            &["cmd", "/c", "echo", "a b", "", "c"],
            json!({"exited": true, "exitcode": 0, "out-data": b64("\"a b\" c\r\n")}),
        ),
        (
            &["hostname.exe"],
            json!({"exited": true, "exitcode": 0, "out-data": b64("NODE1\r\n")}),
        ),
        (
            &["cmd.exe", "/c", "echo oops 1>&2"],
            json!({"exited": true, "exitcode": 0, "err-data": b64("oops \r\n")}),
        ),
        (
            &["C:\\nope.exe"],
            json!({"error": {"class": "GenericError", "desc": "Guest agent command failed, error was 'Failed to execute child process (No such file or directory)'"}}),
        ),
    ] {
        let got = talk.exec(argv);
        assert_eq!(got, status, "{argv:?}");
    }
    let gone = talk.ask(json!({"execute": "guest-exec-status", "arguments": {"pid": 2004}}));
    assert_eq!(
        gone,
        json!({"error": {"class": "GenericError", "desc": "PID 2004 does not exist"}})
    );
    let merged = talk.ask(json!({"execute": "guest-exec", "arguments": {"path": "cmd.exe", "capture-output": "merged"}}));
    assert_eq!(
        merged["error"]["desc"],
        "Parameter 'capture-output' does not accept value 'merged'"
    );
}

#[test]
fn env_replaces_the_whole_environment() {
    let guest = Guest::new();
    let mut talk = Talk::new(&guest);
    let start = talk.ask(json!({"execute": "guest-exec", "arguments": {"path": "cmd.exe", "arg": ["/c", "set"], "env": ["FOO=1"], "capture-output": true}}));
    let pid = start["return"]["pid"].clone();
    let deadline = Instant::now() + Duration::from_secs(20);
    let status = loop {
        let status = talk.ask(json!({"execute": "guest-exec-status", "arguments": {"pid": pid}}));
        if status["return"]["exited"] == json!(true) {
            break status;
        }
        assert!(Instant::now() < deadline);
        std::thread::sleep(Duration::from_millis(2));
    };
    assert_eq!(
        status["return"]["out-data"],
        super::super::agent::encode_for_tests("FOO=1\r\n")
    );
}

#[test]
fn long_output_is_cut_at_16_mib() {
    let guest = Guest::new();
    guest.put(r"C:\big", &vec![b'x'; (16 << 20) + 5]);
    let status = Talk::new(&guest).exec(&["cmd.exe", "/c", "type C:\\big"]);
    assert_eq!(status["out-truncated"], json!(true));
    assert_eq!(
        status["out-data"].as_str().unwrap().len(),
        (16usize << 20).div_ceil(3) * 4
    );
}

#[test]
fn files_by_windows_paths() {
    let guest = Guest::new();
    guest.put(r"D:\cd.txt", b"cd");
    let mut talk = Talk::new(&guest);
    let mut open = |path: &str, mode: &str| {
        talk.ask(json!({"execute": "guest-file-open", "arguments": {"path": path, "mode": mode}}))
    };
    for (path, mode, answer) in [
        (
            r"C:\nope\x",
            "w",
            json!({"error": {"class": "GenericError", "desc": r"failed to open file 'C:\nope\x': The system cannot find the path specified."}}),
        ),
        (
            r"C:\nope",
            "r",
            json!({"error": {"class": "GenericError", "desc": r"failed to open file 'C:\nope': The system cannot find the file specified."}}),
        ),
        (
            r"D:\cd.txt",
            "w",
            json!({"error": {"class": "GenericError", "desc": r"failed to open file 'D:\cd.txt': The media is write protected."}}),
        ),
        (
            r"C:\a<b",
            "w",
            json!({"error": {"class": "GenericError", "desc": r"failed to open file 'C:\a<b': The filename, directory name, or volume label syntax is incorrect."}}),
        ),
        (
            r"C:\Windows",
            "r",
            json!({"error": {"class": "GenericError", "desc": r"failed to open file 'C:\Windows': Access is denied."}}),
        ),
        (r"d:/CD.TXT", "rb", json!({"return": 1000})),
        (r"C:\new.txt", "wb", json!({"return": 1001})),
    ] {
        assert_eq!(open(path, mode), answer, "{path}");
    }
    let read = talk
        .ask(json!({"execute": "guest-file-read", "arguments": {"handle": 1000, "count": 100}}));
    assert_eq!(
        read,
        json!({"return": {"count": 2, "buf-b64": "Y2Q=", "eof": false}})
    );
    let end = talk
        .ask(json!({"execute": "guest-file-read", "arguments": {"handle": 1000, "count": 100}}));
    assert_eq!(
        end,
        json!({"return": {"count": 0, "buf-b64": "", "eof": true}})
    );
}

#[test]
fn a_shutdown_is_not_answered_and_ends_the_service() {
    let guest = Guest::new();
    let mut talk = Talk::new(&guest);
    talk.send(br#"{"execute":"guest-shutdown","arguments":{"mode":"reboot"}}"#);
    let mut rest = Vec::new();
    talk.0.read_to_end(&mut rest).unwrap();
    assert_eq!((rest, guest.power()), (vec![], Some(Power::Reboot)));
}

#[test]
fn an_agent_that_is_killed_closes_its_port() {
    let guest = Guest::new();
    guest.put(r"C:\Program Files\Qemu-ga\qemu-ga.exe", b"MZ");
    guest.run(r#"sc create QEMU-GA binPath= "\"C:\Program Files\Qemu-ga\qemu-ga.exe\" -d --retry-path" start= auto"#);
    guest.run("sc start QEMU-GA");
    let mut talk = Talk::new(&guest);
    assert_eq!(
        talk.ask(json!({"execute": "guest-ping"})),
        json!({"return": {}})
    );
    assert_eq!(guest.run("taskkill /f /im qemu-ga.exe").0, 0);
    let mut rest = Vec::new();
    assert_eq!(talk.0.read_to_end(&mut rest).unwrap(), 0);
}

#[test]
fn osinfo_names_the_image() {
    let guest = Guest::new();
    let info = Talk::new(&guest).ask(json!({"execute": "guest-get-osinfo"}));
    assert_eq!(info["return"]["id"], "mswindows");
    assert_eq!(
        info["return"]["pretty-name"],
        "Windows Server 2022 Datacenter"
    );
    assert_eq!(
        (
            &info["return"]["version-id"],
            &info["return"]["kernel-release"]
        ),
        (&json!("2022"), &json!("20348"))
    );
}
