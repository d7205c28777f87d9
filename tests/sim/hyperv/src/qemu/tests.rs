//! A virtual machine from an empty disk to an installed stand-in, and a second one on a differencing disk over it.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use base64::Engine as _;
use serde_json::{Value, json};

use super::Machine;
use crate::engine::{Boot, Engine, Heartbeat, Power, SessionError, Spec};
use crate::vhdx;

const PASSWORD: &str = "Winimg-Build-1!";
const UP: u32 = 0x26;

struct Bench {
    folder: tempfile::TempDir,
    spec: Spec,
    machine: Machine,
}

/// However the test ends, no QEMU is left.
impl Drop for Bench {
    fn drop(&mut self) {
        self.machine.turn_off();
    }
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..")
}

/// The stand-in's own answer file and scripts, on a disc.
fn answer_disc(folder: &Path) -> PathBuf {
    let (files, disc) = (folder.join("cd"), folder.join("answer.iso"));
    std::fs::create_dir_all(files.join("winimg")).unwrap();
    let standin = root().join("tests/sim/windows");
    std::fs::copy(
        standin.join("answers/uefi.xml"),
        files.join("Autounattend.xml"),
    )
    .unwrap();
    for name in ["stage.cmd", "SetupComplete.cmd"] {
        std::fs::copy(
            standin.join("payload").join(name),
            files.join("winimg").join(name),
        )
        .unwrap();
    }
    let made = Command::new("genisoimage")
        .args(["-quiet", "-J", "-V", "PROVISION", "-o"])
        .args([&disc, &files])
        .status();
    assert!(made.unwrap().success());
    disc
}

impl Bench {
    fn new(disk: &Path, dvds: Vec<Option<PathBuf>>) -> Bench {
        let folder = tempfile::tempdir().unwrap();
        let machine = Machine::open(folder.path());
        let spec = Spec {
            id: uuid::Uuid::new_v4().to_string(),
            generation: 2,
            memory: 1 << 30,
            cpus: 2,
            disk: disk.to_owned(),
            boot: vec![Boot::Disk, Boot::Dvd(0)],
            dvds,
            secure_boot: true,
            com1: None,
        };
        Bench {
            folder,
            spec,
            machine,
        }
    }

    /// Until a session opens. What refuses before is the credential, or a guest that restarts.
    fn enter(&mut self, limit: Duration) {
        let deadline = Instant::now() + limit;
        loop {
            match self.machine.open_session("Administrator", PASSWORD) {
                Ok(()) => return,
                Err(SessionError::Credential | SessionError::Ended) => {}
                Err(other) => panic!("{other:?}"),
            }
            if Instant::now() > deadline {
                let screen = self.machine.screen().expect("a screen");
                let head = format!("P6\n{} {}\n255\n", screen.width, screen.height);
                let picture = [head.as_bytes(), &screen.rgb].concat();
                std::fs::write("/tmp/fake-hyperv-screen.ppm", picture).unwrap();
                panic!("no session within {limit:?}: /tmp/fake-hyperv-screen.ppm");
            }
            std::thread::sleep(Duration::from_secs(1));
        }
    }

    fn call(&mut self, name: &str, arguments: Value) -> Value {
        let arguments = arguments.as_array().unwrap().clone();
        self.machine
            .guest(name, &arguments)
            .unwrap_or_else(|e| panic!("{name}: {e:?}"))
    }

    fn run(&mut self, id: &str, line: &str) -> (Value, String) {
        let script = "# writes output.bin and status.json";
        self.call(
            "start",
            json!([id, r"C:\Windows\System32\cmd.exe", line, script]),
        );
        let deadline = Instant::now() + Duration::from_secs(60);
        loop {
            let state = self.call("poll", json!([id, 0]));
            if state["ended"] == true {
                self.call("forget", json!([id]));
                let bytes = base64::engine::general_purpose::STANDARD
                    .decode(state["output"].as_str().unwrap())
                    .unwrap();
                return (state["exit"].clone(), String::from_utf8(bytes).unwrap());
            }
            assert!(Instant::now() < deadline, "{line}: {state}");
        }
    }

    fn wait_off(&mut self) {
        let deadline = Instant::now() + Duration::from_secs(120);
        while self.machine.state() != Power::Off {
            assert!(Instant::now() < deadline, "it does not power off");
            std::thread::sleep(Duration::from_millis(200));
        }
    }
}

#[test]
#[ignore = "boots QEMU: make end-to-end-hyperv"]
fn an_installed_machine_is_kept_in_vhdx_files() {
    let files = tempfile::tempdir().unwrap();
    let (base, leaf) = (
        files.path().join("base.vhdx"),
        files.path().join("leaf.vhdx"),
    );
    vhdx::create(&base, 32 << 30, 1 << 20).unwrap();
    let medium = root().join("target/standin/standin.iso");
    let answer = answer_disc(files.path());
    let mut first = Bench::new(&base, vec![Some(medium), Some(answer)]);
    let spec = first.spec.clone();
    first.machine.start(&spec).unwrap();
    assert!(first.machine.start(&spec).is_err(), "twice");
    assert_eq!(
        first.machine.open_session("Administrator", PASSWORD),
        Err(SessionError::Credential)
    );
    // The medium asks for a key; the disk, which comes first, does not.
    let deadline = Instant::now() + Duration::from_secs(240);
    while first.machine.heartbeat() == Heartbeat::NoContact && Instant::now() < deadline {
        first.machine.key(UP).unwrap();
        std::thread::sleep(Duration::from_millis(250));
    }
    first.enter(Duration::from_secs(60));
    assert_eq!(first.machine.heartbeat(), Heartbeat::OkApplicationsUnknown);
    for (user, password) in [
        ("Administrator", "wrong"),
        ("Guest", ""),
        ("nobody", PASSWORD),
    ] {
        assert_eq!(
            first.machine.open_session(user, password),
            Err(SessionError::Credential),
            "{user}"
        );
    }
    assert_eq!(
        first.machine.guest("look", &[]),
        Err(SessionError::Ended),
        "its session was replaced"
    );

    // Another process finds it.
    first.machine = Machine::open(first.folder.path());
    assert_eq!(first.machine.state(), Power::Running);
    first.enter(Duration::from_secs(5));
    let boot = first.call("look", json!([]))["boot"].clone();
    let (exit, said) = first.run(
        "a-1",
        r#"/c "echo one two>C:\kept.txt&type C:\kept.txt&exit /b 7""#,
    );
    assert_eq!((exit, said.as_str()), (json!(7), "one two\r\n"));
    assert_eq!(first.call("poll", json!(["a-1", 0]))["known"], false);
    first.machine.set_dvd(1, None).unwrap();

    first.call("restart", json!([]));
    let deadline = Instant::now() + Duration::from_secs(60);
    while first.machine.guest("look", &[]) != Err(SessionError::Ended) {
        assert!(Instant::now() < deadline, "the session outlives a restart");
        std::thread::sleep(Duration::from_millis(100));
    }
    first.enter(Duration::from_secs(120));
    assert_ne!(first.call("look", json!([]))["boot"], boot);
    first.call("off", json!([]));
    first.wait_off();
    assert!(!first.folder.path().join("disk.raw").exists());

    // Over it: what the first one wrote is there, and the first one's file stays as it is.
    let before = std::fs::read(&base).unwrap();
    vhdx::create_over(&leaf, &base, None).unwrap();
    let mut second = Bench::new(&leaf, vec![None, None]);
    let spec = second.spec.clone();
    second.machine.start(&spec).unwrap();
    second.enter(Duration::from_secs(120));
    let kept = second.call("get", json!([r"C:\kept.txt", 100]));
    assert_eq!(
        (&kept["there"], &kept["base64"]),
        (&json!(true), &json!("b25lIHR3bw0K"))
    );
    second.machine.turn_off();
    assert_eq!(second.machine.state(), Power::Off);
    assert!(std::fs::read(&base).unwrap() == before);
    let sizes = [&base, &leaf].map(|path| std::fs::metadata(path).unwrap().len());
    assert!(sizes[1] < sizes[0], "{sizes:?}");
}
