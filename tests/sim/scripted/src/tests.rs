//! A scripted machine's whole life, and each of its faults.

use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use winimg_base::error::Kind;
use winimg_base::event::{Cancel, Event, Phase, Sink};
use winimg_machine::guest::{GuestCommand, GuestDelivery, GuestExit};
use winimg_machine::vm::{
    Accel, CdImage, MachinePlan, NetworkAccess, StartMode, StorageController,
};
use winimg_recipe::Firmware;

use crate::open;
use crate::script::Script;

fn plan(run_dir: &Path) -> MachinePlan {
    MachinePlan {
        name: "winimg-demo".into(),
        firmware: Firmware::Uefi,
        secure_boot: false,
        controller: StorageController::Nvme,
        disk: run_dir.join("disk.qcow2"),
        room: 0,
        cpus: 4,
        memory: 4 << 30,
        network: NetworkAccess::None,
        tpm: false,
        password: winimg_base::text::Secret::new("Password-1"),
        start: StartMode::Install {
            install_disc: CdImage {
                file: "/store/overlay.qcow2".into(),
                format: "qcow2",
                prompts: false,
            },
            answer_disc: "/run/w/answer.iso".into(),
        },
        run_dir: run_dir.into(),
        accel: Accel::Auto,
        timeout: Duration::from_secs(1),
        still_limit: Duration::from_secs(30),
    }
}

#[derive(Default)]
struct Recorder(Mutex<Vec<Event>>);

impl Sink for Recorder {
    fn emit(&self, event: &Event) {
        self.0.lock().expect("lock").push(event.clone());
    }
}

/// A fake machine with its folder.
struct Played {
    folder: tempfile::TempDir,
    rendered: Arc<Recorder>,
    cancel: Cancel,
    machine: Box<dyn winimg_machine::vm::VirtualMachine>,
}

fn play(script: &str) -> Played {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("machine.toml");
    std::fs::write(&file, script).expect("written");
    let rendered = Arc::new(Recorder::default());
    let cancel = Cancel::default();
    let plan = plan(folder.path());
    let fake = open(&file).expect("a script");
    let sink = Arc::clone(&rendered);
    let machine = fake.start(plan, sink, cancel.clone()).expect("it starts");
    Played {
        folder,
        rendered,
        cancel,
        machine,
    }
}

fn command(line: &str) -> GuestCommand {
    let mut words = line.split(' ').map(String::from);
    GuestCommand {
        program: words.next().expect("a program"),
        arguments: words.collect(),
        timeout: Duration::from_millis(200),
    }
}

#[test]
fn a_whole_life_is_played_and_written_down() {
    let mut played = play(
        r#"
        disk = "result.img"
        [install]
        progress = ["firmware", "Windows Setup"]
        restarts = 2
        [[run]]
        command = '*\reg.exe add *'
        output = "The operation completed successfully.\r\n"
        [[run]]
        command = '*\msiexec.exe *'
        exit = 1618
        times = 1
        [[run]]
        command = '*\msiexec.exe *'
        exit = 3010
        files = { 'C:\log.txt' = "done" }
        [[run]]
        command = '*shutdown*'
        outcome = "guest-gone"
        [files]
        'C:\winimg\ready' = "ok"
        "#,
    );
    let folder = played.folder.path().to_path_buf();
    std::fs::write(folder.join("result.img"), "the image").expect("written");
    std::fs::write(folder.join("p.iso"), "an ISO").expect("written");
    let mut guest = played.machine.wait_for_guest().expect("ready");
    assert_eq!(
        guest.get(r"c:\WINIMG\ready", 10).expect("read"),
        Some(b"ok".to_vec())
    );
    let mut output = Vec::new();
    let mut exits = Vec::new();
    for line in [
        r"C:\Windows\System32\reg.exe add HKLM\X",
        r"C:\Windows\System32\msiexec.exe /i x.msi",
        r"C:\Windows\System32\msiexec.exe /i x.msi",
        r"C:\unknown.exe now",
        r"C:\Windows\System32\shutdown.exe /r",
    ] {
        exits.push(
            guest
                .run(&command(line), &mut |b| output.extend_from_slice(b))
                .expect("an end"),
        );
    }
    assert_eq!(
        exits,
        [
            GuestExit::Code(0),
            GuestExit::Code(1618),
            GuestExit::Code(3010),
            GuestExit::Code(9009),
            GuestExit::GuestGone
        ]
    );
    assert_eq!(
        String::from_utf8_lossy(&output),
        "The operation completed successfully.\r\nthe fake machine's script has no reply to: C:\\unknown.exe now\r\n"
    );
    guest.wait_for_return(Duration::from_secs(1)).expect("back");
    guest
        .put(GuestDelivery::Bytes {
            path: r"C:\a.txt",
            bytes: b"a\r\nb",
        })
        .expect("put");
    guest
        .put(GuestDelivery::Disc(&folder.join("p.iso")))
        .expect("disc");
    assert!(
        guest
            .put(GuestDelivery::Disc(&folder.join("missing.iso")))
            .is_err()
    );
    guest.put(GuestDelivery::NoDiscs).expect("none");
    assert_eq!(
        guest.get(r"C:\log.txt", 10).expect("read"),
        Some(b"done".to_vec())
    );
    assert_eq!(guest.get(r"C:\none", 10).expect("read"), None);
    guest.reboot(Duration::from_secs(1)).expect("back");
    guest.shut_down().expect("asked");
    played
        .machine
        .wait_off(Duration::from_secs(1))
        .expect("off");
    played.machine.stop();
    drop(guest);
    assert_eq!(
        std::fs::read(folder.join("disk.qcow2")).expect("the disk"),
        b"the image"
    );
    let transcript = std::fs::read_to_string(folder.join("transcript")).expect("the transcript");
    assert_eq!(
        transcript,
        r"start winimg-demo firmware=Uefi disk=Nvme cpus=4 memory=4294967296 network=false secure_boot=false
guest
get c:\WINIMG\ready
run C:\Windows\System32\reg.exe add HKLM\X
run C:\Windows\System32\msiexec.exe /i x.msi
run C:\Windows\System32\msiexec.exe /i x.msi
run C:\unknown.exe now
run C:\Windows\System32\shutdown.exe /r
wait_back
put C:\a.txt a\r\nb
disc p.iso
disc missing.iso
no discs
get C:\log.txt
get C:\none
reboot
shut_down
wait_off
"
    );
    let progress = |text: &str| Event::Progress {
        phase: Phase::Install,
        text: text.into(),
    };
    assert_eq!(
        *played.rendered.0.lock().expect("lock"),
        [
            progress("firmware"),
            progress("Windows Setup"),
            Event::Restarted { count: 1 },
            progress("Windows Setup (restart 1)"),
            Event::Restarted { count: 2 },
            progress("Windows Setup (restart 2)"),
        ]
    );
}

#[test]
fn every_fault_of_an_installation_has_its_error() {
    for (outcome, kind, fact) in [
        (
            "stands-still",
            Kind::Setup,
            "Windows Setup is waiting for input",
        ),
        (
            "nothing-boots",
            Kind::Setup,
            "the firmware finds nothing to boot",
        ),
        (
            "restart-loop",
            Kind::Setup,
            "Windows Setup keeps restarting",
        ),
        (
            "powers-off",
            Kind::Setup,
            "the machine powered off while Windows was being installed",
        ),
        ("crashes", Kind::Machine, "QEMU died: signal 6 (SIGABRT)"),
        (
            "hangs",
            Kind::Setup,
            "the guest agent did not answer within 1 s",
        ),
    ] {
        let mut played = play(&format!("[install]\noutcome = \"{outcome}\"\n"));
        let error = played
            .machine
            .wait_for_guest()
            .map(|_| ())
            .expect_err(outcome);
        assert_eq!((error.kind(), error.fact()), (kind, fact), "{outcome}");
    }
}

#[test]
fn every_fault_after_it_has_its_error() {
    let mut played = play(
        "default_exit = 0\n[[run]]\ncommand = '*hang*'\noutcome = 'hangs'\n[[run]]\ncommand = '*crash*'\noutcome = 'machine-crashes'\n\
         [reboot]\noutcome = 'stays-away'\n[off]\noutcome = 'stays-on'\n",
    );
    let mut guest = played.machine.wait_for_guest().expect("ready");
    let mut run = |line: &str| guest.run(&command(line), &mut |_| {});
    assert_eq!(run(r"C:\any.exe").expect("an end"), GuestExit::Code(0));
    assert_eq!(
        run(r"C:\hang.exe").expect_err("hangs").fact(),
        "the program did not end within 0 s"
    );
    let error = guest.reboot(Duration::from_millis(50)).expect_err("away");
    assert_eq!(error.fact(), "the guest did not come back within 0 s");
    guest.shut_down().expect("asked");
    let error = played
        .machine
        .wait_off(Duration::from_millis(50))
        .expect_err("on");
    assert_eq!(error.fact(), "the guest did not power off within 0 s");

    let mut played = play("[[run]]\ncommand = '*crash*'\noutcome = 'machine-crashes'\n");
    let mut guest = played.machine.wait_for_guest().expect("ready");
    for _ in 0..2 {
        let error = guest
            .run(&command(r"C:\crash.exe"), &mut |_| {})
            .expect_err("dead");
        assert_eq!(
            (error.kind(), error.fact()),
            (Kind::Machine, "QEMU died: signal 6 (SIGABRT)")
        );
    }
}

#[test]
fn an_interrupt_ends_a_hanging_installation() {
    let mut played = play("[install]\noutcome = \"hangs\"\n");
    played.cancel.cancel();
    assert_eq!(
        played
            .machine
            .wait_for_guest()
            .map(|_| ())
            .expect_err("interrupted")
            .kind(),
        Kind::Cancelled
    );
}

#[test]
fn the_script_of_the_readme_is_read() {
    let readme = include_str!("../README.md");
    let script = readme
        .split("```")
        .nth(1)
        .and_then(|b| b.strip_prefix("toml\n"));
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("machine.toml");
    std::fs::write(&file, script.expect("a script")).expect("written");
    Script::read(&file).expect("a script");
}
