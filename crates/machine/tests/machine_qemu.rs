//! The real QEMU, without any Windows: that its command lines are taken, that what ends is named,
//! and that nothing is left behind.
//!
//! Everything runs emulated, so that it runs anywhere. Skipped, with the reason printed, where QEMU
//! is missing.

#![cfg(target_os = "linux")]

use support::skip;
use support::tree::this_program_as;

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use winimg_base::error::{Error, Kind};
use winimg_base::event::{Cancel, Event, Sink};
use winimg_machine::vm::qemu::process::ChildProcess;
use winimg_machine::vm::qemu::rundir::RunDir;
use winimg_machine::vm::qemu::{QemuHypervisor, accel_choice, canary, firmware, program, tpm};
use winimg_machine::vm::{
    Accel, CdImage, GuestForward, Hypervisor, MachinePlan, NetworkAccess, NicModel, PrivateNetwork,
    SettleOutcome, StartMode, StorageController, VirtualMachine,
};
use winimg_recipe::Firmware;

#[derive(Default)]
struct Recorder(Mutex<Vec<Event>>);

impl Sink for Recorder {
    fn emit(&self, event: &Event) {
        self.0.lock().expect("lock").push(event.clone());
    }
}

impl Recorder {
    /// How often the screen was told.
    fn screens(&self) -> usize {
        let events = self.0.lock().expect("lock");
        let recorder = |e: &&Event| matches!(e, Event::Progress { .. });
        events.iter().filter(recorder).count()
    }
}

/// Where `tesseract` is installed.
const SAYS: &str = "| the screen says: ";

/// QEMU and a folder with a blank disk and two blank CDs; `None` with the reason printed.
struct Bench {
    folder: tempfile::TempDir,
    qemu: QemuHypervisor,
    recorder: Arc<Recorder>,
    cancel: Cancel,
}

impl Bench {
    fn new() -> Option<Self> {
        let qemu = match QemuHypervisor::find() {
            Ok(qemu) => qemu,
            Err(e) => {
                skip::skipped(e);
                return None;
            }
        };
        let folder = tempfile::Builder::new()
            .prefix("winimg-")
            .tempdir()
            .expect("a folder");
        let bench = Self {
            folder,
            qemu,
            recorder: Arc::default(),
            cancel: Cancel::default(),
        };
        let made = Command::new("qemu-img")
            .args(["create", "-q", "-f", "qcow2"])
            .arg(bench.path("disk.qcow2"))
            .arg("64M")
            .status();
        assert!(made.expect("qemu-img").success());
        bench.write("install.iso", &[]);
        bench.write("answer.iso", &[]);
        Some(bench)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// A file of 1 MiB that begins with `bytes`.
    fn write(&self, name: &str, bytes: &[u8]) {
        let mut whole = vec![0; 1 << 20];
        whole[..bytes.len()].copy_from_slice(bytes);
        std::fs::write(self.path(name), whole).expect("written");
    }

    /// Makes the disk boot this code from its first sector.
    fn boot_code(&self, code: &[u8]) {
        let mut sector = code.to_vec();
        sector.resize(510, 0);
        sector.extend([0x55, 0xaa]);
        self.write("boot.raw", &sector);
        let made = Command::new("qemu-img")
            .args(["convert", "-O", "qcow2"])
            .args([self.path("boot.raw"), self.path("disk.qcow2")])
            .status();
        assert!(made.expect("qemu-img").success());
    }

    fn plan(&self, firmware: Firmware) -> MachinePlan {
        MachinePlan {
            name: "winimg-test".into(),
            firmware,
            secure_boot: false,
            controller: StorageController::Ahci,
            disk: self.path("disk.qcow2"),
            room: 0,
            cpus: 1,
            memory: 256 << 20,
            network: NetworkAccess::None,
            tpm: false,
            password: winimg_base::text::Secret::new("Password-1"),
            start: StartMode::Install {
                install_disc: CdImage {
                    file: self.path("install.iso"),
                    format: "raw",
                    prompts: false,
                },
                answer_disc: self.path("answer.iso"),
            },
            run_dir: self.folder.path().into(),
            accel: Accel::Tcg,
            timeout: Duration::from_secs(1800),
            still_limit: Duration::from_secs(6),
        }
    }

    fn start(&self, plan: MachinePlan) -> Box<dyn VirtualMachine> {
        let sink: Arc<Recorder> = Arc::clone(&self.recorder);
        self.qemu
            .start(plan, sink, self.cancel.clone())
            .expect("it starts")
    }

    fn fails(&self, plan: MachinePlan) -> Error {
        self.start(plan)
            .wait_for_guest()
            .map(|_| ())
            .expect_err("there is no Windows")
    }

    /// The error's text with the folder, the times and what this host could read of the screen
    /// taken out.
    fn filtered(&self, error: &Error) -> String {
        let text = error
            .to_string()
            .replace(&self.folder.path().display().to_string(), "RUN");
        let lines = text.lines().filter(|l| !l.contains(SAYS));
        let text = lines.collect::<Vec<_>>().join("\n");
        let mut out = String::new();
        let mut words = text.split(' ').peekable();
        while let Some(word) = words.next() {
            let seconds = words
                .peek()
                .is_some_and(|next| next.trim_end_matches(',') == "s");
            out.push_str(match word.parse::<u32>() {
                Ok(_) if seconds => "N",
                _ => word,
            });
            out.push(' ');
        }
        out.trim_end().to_string()
    }
}

/// Whether a process with this argument runs.
fn runs(argument: &str) -> bool {
    let processes = std::fs::read_dir("/proc").expect("/proc").flatten();
    processes
        .filter_map(|p| std::fs::read(p.path().join("cmdline")).ok())
        .any(|line| {
            let line = String::from_utf8_lossy(&line).into_owned();
            line.starts_with(|c: char| c != '\0')
                && line.contains("qemu-system")
                && line.contains(argument)
        })
}

fn wait_for(what: &str, mut done: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(120);
    while !done() {
        assert!(Instant::now() < deadline, "{what} within 120 s");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// KVM may be anything here; emulation must work, and whatever KVM does must have a sentence.
#[test]
fn the_canary_sings_emulated_and_is_judged_on_kvm() {
    let Ok(program) = program::find() else {
        return skip::skipped("no QEMU");
    };
    let how = |accel: &str, cpu: &str| winimg_machine::vm::qemu::args::Acceleration {
        accel: accel.into(),
        cpu: cpu.into(),
    };
    let emulated = canary::send(&program, &how("tcg", "max"), None).expect("sent");
    assert_eq!(emulated, canary::CanaryOutcome::Works);
    let wrong = canary::send(&program, &how("tcg", "no-such-cpu"), None).expect("sent");
    assert!(
        matches!(&wrong, canary::CanaryOutcome::Refused { words } if words.contains("no-such-cpu")),
        "{wrong:?}"
    );
    if accel_choice::kvm_obstacle().is_some() {
        return skip::not_tried("there is no /dev/kvm that can be used");
    }
    let uefi = firmware::find(&firmware::FirmwarePaths::from_system(), false).expect("OVMF");
    let on_kvm = |cpu| canary::send(&program, &how("kvm", cpu), None).expect("sent");
    let firmware = canary::send_firmware(&program, &how("kvm", "qemu64"), &uefi).expect("sent");
    for outcome in [on_kvm("host"), on_kvm("qemu64"), firmware] {
        println!("kvm: {:?}", outcome.describe("kvm"));
        let healthy = outcome == canary::CanaryOutcome::Works;
        let sentence = outcome.describe("kvm").unwrap_or_default();
        assert_eq!(sentence.contains("KVM"), !healthy);
    }
}

#[test]
fn the_firmware_half_passes_emulated() {
    let Ok(program) = program::find() else {
        return skip::skipped("no QEMU");
    };
    let how = winimg_machine::vm::qemu::args::Acceleration {
        accel: "tcg".into(),
        cpu: "max".into(),
    };
    for secure_boot in [false, true] {
        let uefi =
            firmware::find(&firmware::FirmwarePaths::from_system(), secure_boot).expect("OVMF");
        let outcome = canary::send_firmware(&program, &how, &uefi).expect("sent");
        assert_eq!(outcome, canary::CanaryOutcome::Works);
    }
}

#[test]
fn auto_always_finds_something_and_says_why_not_kvm() {
    let Some(bench) = Bench::new() else { return };
    let probe = bench
        .qemu
        .probe(Accel::Auto, Firmware::Uefi, &Cancel::default())
        .expect("at least emulation");
    println!("{probe:?}");
    assert!(probe.version.starts_with("QEMU "));
    match probe.accel.as_str() {
        "kvm" => assert_eq!(probe.slowness, 1),
        other => {
            assert_eq!(other, "tcg");
            assert!(probe.slowness > 1 && !probe.remarks.is_empty());
        }
    }
}

/// Azure's addresses, behind words that neither a shell nor QEMU's options may change.
fn own(nic: NicModel, has_way_out: bool) -> NetworkAccess {
    let forward = |to: &str| GuestForward {
        to: to.parse().expect("an address"),
        command: ["/bin/echo", "a, b", "it's $HOME"]
            .map(String::from)
            .to_vec(),
    };
    NetworkAccess::Own(PrivateNetwork {
        mac: "52:54:00:00:00:01".into(),
        nic,
        subnet: "168.0.0.0/7".into(),
        forwards: vec![forward("169.254.169.254:80"), forward("168.63.129.16:80")],
        has_way_out,
    })
}

#[test]
fn every_controller_network_and_secure_boot_is_taken_by_qemu_and_stopped() {
    let Some(bench) = Bench::new() else { return };
    for (firmware, controller, secure_boot, network) in [
        (
            Firmware::Uefi,
            StorageController::Nvme,
            false,
            NetworkAccess::None,
        ),
        (
            Firmware::Uefi,
            StorageController::VirtioBlk,
            true,
            NetworkAccess::None,
        ),
        (
            Firmware::Bios,
            StorageController::Ahci,
            false,
            NetworkAccess::Open,
        ),
        (
            Firmware::Uefi,
            StorageController::VirtioScsi,
            false,
            own(NicModel::Virtio, true),
        ),
        (
            Firmware::Bios,
            StorageController::Ide,
            false,
            own(NicModel::E1000e, false),
        ),
        (
            Firmware::Bios,
            StorageController::LsiSas,
            false,
            own(NicModel::Vmxnet3, false),
        ),
        (
            Firmware::Uefi,
            StorageController::Pvscsi,
            false,
            own(NicModel::Vmxnet3, false),
        ),
    ] {
        let plan = MachinePlan {
            controller,
            secure_boot,
            network,
            ..bench.plan(firmware)
        };
        let _ = std::fs::remove_file(bench.path("uefi-vars.fd"));
        let mut machine = bench.start(plan);
        assert!(runs(&bench.path("disk.qcow2").display().to_string()));
        let picture = bench.path("now.png");
        machine.take_screenshot(&picture).expect("a picture");
        assert!(
            std::fs::read(&picture)
                .expect("the picture")
                .starts_with(b"\x89PNG")
        );
        machine.stop();
        machine.stop();
        assert!(!runs(&bench.path("disk.qcow2").display().to_string()));
    }
}

/// The swtpm of this bench, as it runs.
impl Bench {
    fn swtpm(&self) -> Option<u32> {
        let processes = std::fs::read_dir("/proc").expect("/proc").flatten();
        let is_it = |p: &std::fs::DirEntry| {
            let line = std::fs::read(p.path().join("cmdline")).unwrap_or_default();
            let line = String::from_utf8_lossy(&line).into_owned();
            let folder = std::fs::read_link(p.path().join("cwd"));
            line.contains("--tpmstate") && folder.is_ok_and(|f| f == self.folder.path())
        };
        let found = processes.filter(is_it);
        let mut found = found.filter_map(|p| p.file_name().to_string_lossy().parse().ok());
        found.next()
    }

    fn with_tpm(&self, start: StartMode) -> MachinePlan {
        MachinePlan {
            start,
            tpm: true,
            ..self.plan(Firmware::Uefi)
        }
    }
}

/// The firmware writes to the TPM as it starts: what it keeps changes.
#[test]
fn a_tpm_is_there_and_empty_for_each_machine_but_kept_for_a_clone() {
    let Some(bench) = Bench::new() else { return };
    if let Err(e) = tpm::find() {
        return skip::skipped(e);
    }
    let state = bench.path("tpm/tpm2-00.permall");
    let seed = bench.path("tpm/from-before");
    let clone = bench.clone(Firmware::Uefi).start;
    // Whether what lay in the TPM's folder before is there still.
    for (start, kept) in [
        (StartMode::Boot, false),
        (clone.clone(), true),
        (clone, true),
    ] {
        std::fs::create_dir_all(bench.path("tpm")).expect("a folder");
        std::fs::write(&seed, "").expect("written");
        let mut machine = bench.start(bench.with_tpm(start));
        assert!(bench.swtpm().is_some(), "QEMU runs, and so does swtpm");
        assert_eq!(seed.exists(), kept);
        wait_for("QEMU talks to the TPM", || state.exists());
        machine.stop();
        assert_eq!(bench.swtpm(), None);
        assert!(!runs(&bench.path("disk.qcow2").display().to_string()));
    }
    let rights = |path: &Path| {
        use std::os::unix::fs::PermissionsExt as _;
        let metadata = std::fs::metadata(path).expect("it is there");
        metadata.permissions().mode() & 0o777
    };
    assert_eq!((rights(&bench.path("tpm")), rights(&state)), (0o700, 0o600));
    let log = std::fs::read_to_string(bench.path("swtpm.log")).expect("swtpm.log");
    assert_eq!(log.lines().filter(|l| l.starts_with("=== ")).count(), 3);
}

#[test]
fn a_swtpm_that_dies_is_named_and_ends_the_machine() {
    let Some(bench) = Bench::new() else { return };
    if let Err(e) = tpm::find() {
        return skip::skipped(e);
    }
    let mut machine = bench.start(bench.with_tpm(StartMode::Boot));
    kill(bench.swtpm().expect("it runs"));
    let error = machine
        .wait_for_guest()
        .map(|_| ())
        .expect_err("there is no TPM");
    assert_eq!(error.kind(), Kind::Machine);
    assert_eq!(
        bench.filtered(&error),
        "swtpm, the machine's TPM, died: signal 9 (SIGKILL)\n  at: RUN/swtpm.log"
    );
    drop(machine);
    assert!(!runs(&bench.path("disk.qcow2").display().to_string()));
}

#[test]
fn a_swtpm_that_does_not_start_is_named_with_its_words() {
    let folder = tempfile::tempdir().expect("a folder");
    let dir = RunDir::new(folder.path()).expect("short");
    let program = folder.path().join("swtpm");
    let script = "#!/bin/sh\necho \"no TPM for $*\" >&2\nexit 3\n";
    std::fs::write(&program, script).expect("written");
    let executable = std::os::unix::fs::PermissionsExt::from_mode(0o700);
    std::fs::set_permissions(&program, executable).expect("executable");
    let error = tpm::SwtpmProcess::start(&program, &dir, false, &Cancel::default());
    assert_eq!(
        error
            .err()
            .expect("it ended")
            .to_string()
            .replace(&folder.path().display().to_string(), "RUN"),
        "swtpm did not start: it ended with exit status 3\n  at: RUN/swtpm.log\n  \
         | no TPM for socket --tpm2 --tpmstate dir=tpm,mode=0600 --ctrl type=unixio,path=tpm.sock,mode=0600 --terminate"
    );
}

#[test]
fn a_machine_with_nothing_to_boot_is_named_under_bios_and_uefi() {
    let Some(bench) = Bench::new() else { return };
    let error = bench.fails(bench.plan(Firmware::Bios));
    assert_eq!(error.kind(), Kind::Setup);
    assert_eq!(
        bench.filtered(&error),
        "the firmware finds nothing to boot\n  at: RUN/screens/stopped.png\n  \
         found: N s after power-on, before the first restart\n  \
         | Boot failed: not a bootable disk\n  | Boot failed: Could not read from CDROM (code 0005)\n  \
         cure: check that the ISO boots with this firmware: not every disc has both a UEFI and a BIOS entry"
    );
    assert!(bench.path("screens/stopped.png").exists());
    if winimg_machine::vm::screen::ocr::find_tesseract().is_some() {
        let text = error.to_string();
        let said = text.lines().filter(|l| l.contains(SAYS));
        assert!(
            said.clone().any(|l| l.contains("Booting from Hard Disk")),
            "{text}"
        );
    } else {
        skip::skipped("no tesseract to read the screen with");
    }
    let error = bench.fails(bench.plan(Firmware::Uefi));
    assert_eq!(error.fact(), "the firmware finds nothing to boot");
    let events = bench.recorder.0.lock().expect("lock");
    let mut progress = events.iter().filter_map(|e| match e {
        Event::Progress { text, .. } => Some(text.as_str()),
        _ => None,
    });
    assert_eq!(progress.next_back(), Some("firmware"));
}

/// A text-mode screen with a blinking cursor, drives idle, the processor halted between ticks: as
/// an error box would be.
#[test]
fn a_screen_that_waits_is_distinguished_from_one_that_works() {
    let Some(bench) = Bench::new() else { return };
    // sti; hlt; jmp -3
    bench.boot_code(&[0xfb, 0xf4, 0xeb, 0xfd]);
    let error = bench.fails(bench.plan(Firmware::Bios));
    assert_eq!(
        bench.filtered(&error).lines().take(4).collect::<Vec<_>>(),
        [
            "Windows Setup is waiting for input",
            "  at: RUN/screens/stopped.png",
            "  expected: Setup to continue without input",
            "  found: no activity since N s after power-on, for N s, before the first restart",
        ]
    );
    // jmp self: the same screen, but the processor works, so only the last resort ends it.
    bench.boot_code(&[0xeb, 0xfe]);
    let plan = MachinePlan {
        timeout: Duration::from_secs(12),
        ..bench.plan(Firmware::Bios)
    };
    assert_eq!(
        bench.fails(plan).fact(),
        "the guest agent did not answer within 12 s"
    );
}

/// mov al, 0feh; out 64h, al; hlt: the keyboard controller's reset, after a wait so that each
/// counts for itself (mov cx, 1eh; sti; 1: hlt; loop 1b).
const RESETS: [u8; 12] = [
    0xb9, 0x1e, 0x00, 0xfb, 0xf4, 0xe2, 0xfd, 0xb0, 0xfe, 0xe6, 0x64, 0xf4,
];

#[test]
fn a_guest_that_powers_off_or_restarts_for_ever_is_named() {
    let Some(bench) = Bench::new() else { return };
    // mov dx, 604h; mov ax, 2000h; out dx, ax: ACPI's S5 on q35.
    bench.boot_code(&[0xba, 0x04, 0x06, 0xb8, 0x00, 0x20, 0xef, 0xf4]);
    let mut machine = bench.start(bench.plan(Firmware::Bios));
    let error = machine.wait_for_guest().map(|_| ()).expect_err("off");
    assert_eq!(
        error.fact(),
        "the machine powered off while Windows was being installed"
    );
    machine
        .wait_off(Duration::from_secs(10))
        .expect("QEMU ended well");
    drop(machine);
    bench.boot_code(&RESETS);
    let error = bench.fails(bench.plan(Firmware::Bios));
    assert_eq!(error.fact(), "Windows Setup keeps restarting");
    let events = bench.recorder.0.lock().expect("lock");
    let counts: Vec<u32> = events
        .iter()
        .filter_map(|e| match e {
            Event::Restarted { count } => Some(*count),
            _ => None,
        })
        .collect();
    // A host that stalls may show two restarts in one look; each look is told, and none after the
    // one that names the loop.
    let (last, before) = counts.split_last().expect("restarts were told");
    assert!(counts.is_sorted_by(|a, b| a < b), "{counts:?}");
    assert!(before.iter().all(|n| *n <= 8) && *last > 8, "{counts:?}");
    let found = error.to_string();
    assert!(found.contains(&format!("{last} restarts")), "{found}");
}

/// Several machines of one build run in the same directory, one after the other.
#[test]
fn a_machine_that_only_boots_is_reported_without_setup_and_its_traces_follow_the_earlier_ones() {
    let Some(bench) = Bench::new() else { return };
    let boot = |firmware| MachinePlan {
        start: StartMode::Boot,
        ..bench.plan(firmware)
    };
    let error = bench.fails(boot(Firmware::Uefi));
    assert_eq!(error.fact(), "the firmware finds no Windows on the disk");
    // sti; hlt; jmp -3
    bench.boot_code(&[0xfb, 0xf4, 0xeb, 0xfd]);
    let error = bench.fails(boot(Firmware::Bios));
    assert_eq!(error.kind(), Kind::Machine);
    assert_eq!(
        bench.filtered(&error),
        "Windows does not start: it is stuck at a screen and its guest agent does not answer\n  \
         at: RUN/screens/stopped.png\n  \
         expected: Windows to continue without input and its guest agent to answer\n  \
         found: no activity since N s after power-on, for N s, before the first restart\n  \
         | likely: a stop error (blue screen), or Windows' recovery after one: the disk's driver does not start\n  \
         | likely: the guest agent's service QEMU-GA or its driver vioserial does not start\n  \
         cure: look at the screenshot: its text names the cause"
    );
    let serial = std::fs::read_to_string(bench.path("serial.log")).expect("serial.log");
    let headings = serial.lines().filter(|l| l.starts_with("=== ")).count();
    assert_eq!(headings, 2);
    assert!(serial.contains("BdsDxe"), "the first machine's firmware");
    let times = std::fs::read_to_string(bench.path("screens/times.jsonl")).expect("times");
    let lines: Vec<serde_json::Value> = times
        .lines()
        .map(|l| serde_json::from_str(l).expect("JSON"))
        .collect();
    let files: Vec<&str> = lines.iter().filter_map(|l| l["file"].as_str()).collect();
    assert!(
        files
            .iter()
            .all(|f| bench.path(&format!("screens/{f}")).exists())
    );
    assert_eq!(files.last(), Some(&"stopped.png"));
    assert!(
        files.len() >= 3,
        "a picture of each machine at least: {files:?}"
    );
    assert_eq!(lines[files.len() - 1]["stage"], "the disk boots");
}

/// `quiet` of the clones here.
const QUIET: Duration = Duration::from_secs(8);

impl Bench {
    fn clone(&self, firmware: Firmware) -> MachinePlan {
        MachinePlan {
            start: StartMode::Clone {
                disc: None,
                uuid: "9b0cbe85-6a4f-4b4e-8b0f-1f6d3f0f2b11".into(),
            },
            ..self.plan(firmware)
        }
    }

    fn settles(&self, plan: MachinePlan, timeout: Duration) -> Result<Duration, String> {
        let mut machine = self.start(plan);
        let settled = machine.wait_settled(QUIET, timeout);
        settled.after.map_err(|error| self.filtered(&error))
    }
}

#[test]
fn a_clone_that_rests_is_settled_and_its_power_button_ends_it() {
    let Some(bench) = Bench::new() else { return };
    // mov dx, 602h; mov ax, 100h; out dx, ax; 1: sti; hlt; mov dx, 600h; in ax, dx; test ah, 1; jz
    // 1b; then S5: waits for ACPI's power button, as Windows does.
    bench.boot_code(&[
        0xba, 0x02, 0x06, 0xb8, 0x00, 0x01, 0xef, 0xfb, 0xf4, 0xba, 0x00, 0x06, 0xed, 0xf6, 0xc4,
        0x01, 0x74, 0xf5, 0xba, 0x04, 0x06, 0xb8, 0x00, 0x20, 0xef, 0xf4,
    ]);
    let mut machine = bench.start(MachinePlan {
        controller: StorageController::Ide,
        network: own(NicModel::E1000e, false),
        ..bench.clone(Firmware::Bios)
    });
    let began = Instant::now();
    let settled = machine.wait_settled(QUIET, Duration::from_secs(300));
    assert_eq!(settled.restarts, 0);
    let after = settled.after.expect("it rests");
    assert!(after + QUIET <= began.elapsed(), "{after:?}");
    machine.press_power_button().expect("pressed");
    machine
        .wait_off(Duration::from_secs(60))
        .expect("it went off by itself");
    let events = bench.recorder.0.lock().expect("lock");
    let told = events.iter().filter_map(|e| match e {
        Event::Progress { text, .. } => Some(text.as_str()),
        _ => None,
    });
    assert_eq!(
        told.collect::<Vec<_>>(),
        ["firmware", "the clone starts", "no more activity"]
    );
}

#[test]
fn a_clone_that_does_not_come_to_rest_is_named() {
    let Some(bench) = Bench::new() else { return };
    let minutes = Duration::from_secs(300);
    assert_eq!(
        bench.settles(bench.clone(Firmware::Bios), minutes),
        Err("the firmware finds no Windows on the disk\n  at: RUN/screens/stopped.png\n  \
             found: N s after power-on, before the first restart\n  | Boot failed: not a bootable disk\n  \
             cure: a new machine boots \\EFI\\BOOT\\BOOTX64.EFI, or with BIOS the active partition: the image needs the one that its firmware uses"
            .into())
    );
    // jmp self
    bench.boot_code(&[0xeb, 0xfe]);
    assert_eq!(
        bench.settles(bench.clone(Firmware::Bios), Duration::from_secs(15)),
        Err("the clone did not become idle within 15 s\n  at: RUN/screens/stopped.png\n  \
             found: Windows is still working, before the first restart\n  cure: check in the screenshot what Windows is doing"
            .into())
    );
    // S5
    bench.boot_code(&[0xba, 0x04, 0x06, 0xb8, 0x00, 0x20, 0xef, 0xf4]);
    assert_eq!(
        bench.settles(bench.clone(Firmware::Bios), minutes),
        Err(
            "the machine powered off while Windows was starting as a clone\n  \
             found: N s after power-on, before the first restart\n  \
             cure: check the commands of the answer file, the platform's agent and its user data for a shutdown"
                .into()
        )
    );
}

#[test]
fn a_clone_that_restarts_for_ever_comes_with_its_restarts() {
    let Some(bench) = Bench::new() else { return };
    bench.boot_code(&RESETS);
    let minutes = Duration::from_secs(300);
    let mut machine = bench.start(bench.clone(Firmware::Bios));
    let SettleOutcome { restarts, after } = machine.wait_settled(QUIET, minutes);
    let error = after.expect_err("a loop");
    assert_eq!(error.fact(), "Windows keeps restarting");
    assert!(restarts > 8, "{restarts}");
    let found = error.to_string();
    assert!(found.contains(&format!("{restarts} restarts")), "{found}");
}

#[test]
fn a_clone_at_a_screen_that_is_known_is_named_before_it_has_been_quiet() {
    let Some(bench) = Bench::new() else { return };
    if winimg_machine::vm::screen::ocr::find_tesseract().is_none() {
        return skip::skipped("no tesseract to read the screen with");
    }
    // mov si, text; 1: lodsb; test al, al; jz 2f; mov ah, 0eh; int 10h; jmp 1b; 2: sti; hlt; jmp
    // 2b; text
    let mut code = vec![
        0xbe, 0x12, 0x7c, 0xac, 0x84, 0xc0, 0x74, 0x06, 0xb4, 0x0e, 0xcd, 0x10, 0xeb, 0xf5, 0xfb,
        0xf4, 0xeb, 0xfc,
    ];
    code.extend(b"\r\n\r\nMissing operating system\r\n\0");
    bench.boot_code(&code);
    let mut machine = bench.start(bench.clone(Firmware::Bios));
    let hour = Duration::from_secs(3600);
    let error = machine.wait_settled(hour, hour).after.expect_err("a box");
    let text = bench.filtered(&error);
    assert!(
        text.starts_with(
            "Windows stopped: Windows' boot loader needs a repair\n  at: RUN/screens/stopped.png\n  \
             expected: Windows to start without input\n  found: no activity since"
        ),
        "{text}"
    );
}

#[test]
fn a_kernel_that_reports_its_crash_is_named_with_its_last_picture() {
    let Some(bench) = Bench::new() else { return };
    // mov dx, 505h; mov al, 1; out dx, al; hlt: what the pvpanic driver does when Windows stops.
    bench.boot_code(&[0xba, 0x05, 0x05, 0xb0, 0x01, 0xee, 0xf4]);
    let error = bench.fails(MachinePlan {
        start: StartMode::Boot,
        ..bench.plan(Firmware::Bios)
    });
    assert_eq!(error.kind(), Kind::Machine);
    assert_eq!(
        bench.filtered(&error).lines().take(3).collect::<Vec<_>>(),
        [
            "Windows crashed with a stop error",
            "  at: RUN/screens/stopped.png",
            "  found: N s after power-on, before the first restart",
        ]
    );
    assert!(bench.path("screens/stopped.png").exists());
}

/// A file system of its own, so that it can be filled; needs the right to mount.
struct Mounted(PathBuf);

impl Mounted {
    fn new(at: PathBuf, megabytes: u32) -> Option<Self> {
        std::fs::create_dir(&at).expect("a folder");
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", &format!("size={megabytes}m"), "tmpfs"]);
        let mounted = mount.arg(&at).stderr(Stdio::null()).status();
        if mounted.is_ok_and(|status| status.success()) {
            Some(Self(at))
        } else {
            skip::skipped("no right to mount");
            None
        }
    }

    fn fill(&self, name: &str, megabytes: u64) {
        let file = std::fs::File::create(self.0.join(name)).expect("created");
        let size = i64::try_from(megabytes << 20).expect("small");
        nix::fcntl::posix_fallocate(&file, 0, size).expect("room");
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}

#[test]
fn a_guest_waits_while_the_hosts_disk_is_full_and_a_full_host_starts_none() {
    let Some(bench) = Bench::new() else { return };
    let Some(mounted) = Mounted::new(bench.path("small"), 700) else {
        return;
    };
    // jmp self
    bench.boot_code(&[0xeb, 0xfe]);
    let disk = mounted.0.join("disk.qcow2");
    std::fs::copy(bench.path("disk.qcow2"), &disk).expect("copied");
    let plan = MachinePlan {
        disk,
        timeout: Duration::from_secs(10),
        ..bench.plan(Firmware::Bios)
    };
    let recorder = |what: fn(&Event) -> bool| {
        let recorder = Arc::clone(&bench.recorder);
        move || recorder.0.lock().expect("lock").iter().any(what)
    };
    let error = std::thread::scope(|scope| {
        let failing = scope.spawn(|| bench.fails(plan.clone()));
        wait_for(
            "a screen",
            recorder(|e| matches!(e, Event::Progress { .. })),
        );
        mounted.fill("filler", 500);
        wait_for(
            "a warning",
            recorder(
                |e| matches!(e, Event::Warning { text } if text.contains("the guest is paused until space is free")),
            ),
        );
        // Longer than the machine may take: what is waited for room does not count.
        std::thread::sleep(plan.timeout + Duration::from_secs(1));
        assert!(!failing.is_finished());
        std::fs::remove_file(mounted.0.join("filler")).expect("removed");
        wait_for(
            "a note",
            recorder(|e| matches!(e, Event::Note { text } if text.contains("the guest continues"))),
        );
        failing.join().expect("joined")
    });
    assert_eq!(error.fact(), "the guest agent did not answer within 10 s");
    mounted.fill("filler", 300);
    let refused = bench.qemu.start(
        plan,
        Arc::clone(&bench.recorder) as Arc<dyn Sink>,
        bench.cancel.clone(),
    );
    let error = refused.map(|_| ()).expect_err("no room");
    assert_eq!(error.kind(), Kind::Host);
    assert_eq!(error.fact(), "not enough free space for the machine's disk");
}

#[test]
fn a_killed_qemu_is_reported_with_its_signal_and_an_interrupt_ends_the_wait() {
    let Some(bench) = Bench::new() else { return };
    bench.boot_code(&[0xeb, 0xfe]);
    let disk = bench.path("disk.qcow2").display().to_string();
    let mut machine = bench.start(bench.plan(Firmware::Bios));
    let pid = pid_of(&disk);
    let recorder = Arc::clone(&bench.recorder);
    let killer = std::thread::spawn(move || {
        wait_for("a screen", || recorder.screens() > 0);
        kill(pid);
    });
    let error = machine.wait_for_guest().map(|_| ()).expect_err("killed");
    killer.join().expect("joined");
    assert_eq!(
        bench.filtered(&error),
        "QEMU died: signal 9 (SIGKILL)\n  at: RUN/qemu.log"
    );
    drop(machine);
    let recorder = Arc::clone(&bench.recorder);
    let before = recorder.screens();
    let mut machine = bench.start(bench.plan(Firmware::Bios));
    let cancel = bench.cancel.clone();
    let canceller = std::thread::spawn(move || {
        wait_for("a screen", || recorder.screens() > before);
        cancel.cancel();
    });
    assert_eq!(
        machine
            .wait_for_guest()
            .map(|_| ())
            .expect_err("interrupted")
            .kind(),
        Kind::Cancelled
    );
    canceller.join().expect("joined");
    drop(machine);
    assert!(!runs(&disk));
}

fn pid_of(argument: &str) -> u32 {
    let processes = std::fs::read_dir("/proc").expect("/proc").flatten();
    let found = processes.filter_map(|p| {
        let line = std::fs::read(p.path().join("cmdline")).ok()?;
        let line = String::from_utf8_lossy(&line).into_owned();
        (line.contains("qemu-system") && line.contains(argument))
            .then(|| p.file_name().to_string_lossy().parse().ok())?
    });
    let found: Vec<u32> = found.collect();
    assert_eq!(found.len(), 1, "one QEMU with {argument}");
    found[0]
}

fn kill(pid: u32) {
    let status = Command::new("kill").args(["-9", &pid.to_string()]).status();
    assert!(status.expect("kill").success());
}

/// `kill -9` of the parent leaves no QEMU and no swtpm. The parent is this test program once more,
/// playing `parent_for_the_test_above`.
#[test]
fn a_parent_that_is_killed_takes_qemu_along() {
    let Some(bench) = Bench::new() else { return };
    bench.boot_code(&[0xeb, 0xfe]);
    let disk = bench.path("disk.qcow2").display().to_string();
    let mut parent = this_program_as(module_path!(), "parent_for_the_test_above")
        .env("WINIMG_TEST_FOLDER", bench.folder.path())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("it starts");
    let tpm = || bench.swtpm().is_some();
    wait_for("QEMU starts", || {
        runs(&disk) && (tpm() || tpm::find().is_err())
    });
    parent.kill().expect("killed");
    parent.wait().expect("reaped");
    wait_for("both are gone", || !runs(&disk) && !tpm());
}

#[test]
#[ignore = "started by a_parent_that_is_killed_takes_qemu_along"]
fn parent_for_the_test_above() {
    let Some(folder) = std::env::var_os("WINIMG_TEST_FOLDER") else {
        return;
    };
    let Some(bench) = Bench::new() else { return };
    let folder = PathBuf::from(folder);
    let mut machine = bench.start(MachinePlan {
        disk: folder.join("disk.qcow2"),
        run_dir: folder,
        tpm: tpm::find().is_ok(),
        ..bench.plan(Firmware::Bios)
    });
    let _ = machine.wait_for_guest();
}

/// The kernel's signal comes when the spawning thread ends: the child must outlive the thread that
/// asked for it.
#[test]
fn a_child_outlives_the_thread_that_started_it_but_not_its_owner() {
    let folder = tempfile::tempdir().expect("a folder");
    let log = folder.path().join("log");
    let start = move || {
        let script = "echo started >&2; sleep 30".to_string();
        ChildProcess::spawn(Path::new("/bin/sh"), &["-c".into(), script], &log).expect("it starts")
    };
    let process = std::thread::spawn(start).join().expect("joined");
    wait_for("the child speaks", || process.last_words() == ["started"]);
    assert_eq!(process.wait(Duration::from_millis(300)), None);
    let status = format!("/proc/{}/status", process.pid());
    assert!(Path::new(&status).exists());
    drop(process);
    assert!(!Path::new(&status).exists(), "killed and reaped");
    std::io::stdout().flush().expect("flushed");
}
