//! Machines as text and as scripts: QEMU's command line, the firmware that is chosen, and the fake machine's whole life.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use winimg_base::error::Kind;
use winimg_base::event::{Cancel, Event, Sink};
use winimg_machine::guest::{Command, Exit, Put};
use winimg_machine::vm::{Accel, Disc, MachinePlan, Start, fake};
use winimg_recipe::recipe::{DiskBus, Firmware};

fn plan(firmware: Firmware, disk_bus: DiskBus, run_dir: &Path) -> MachinePlan {
    MachinePlan {
        name: "winimg-demo".into(),
        firmware,
        secure_boot: false,
        disk_bus,
        disk: "/work/scratch/disk, old.qcow2".into(),
        room: 0,
        cpus: 4,
        memory: 4 << 30,
        network: false,
        tpm: false,
        password: winimg_base::text::Secret::new("Password-1"),
        start: Start::Install {
            install_disc: Disc {
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

#[cfg(unix)]
mod qemu {
    use super::*;
    use winimg_machine::vm::qemu::args::{Acceleration, arguments};
    use winimg_machine::vm::qemu::firmware::{Format, Pair, Places, find};
    use winimg_machine::vm::qemu::rundir::RunDir;

    /// One line an option.
    fn text(plan: &MachinePlan, accel: &str, uefi: Option<&Pair>) -> String {
        let how = Acceleration {
            accel: accel.into(),
            cpu: match accel {
                "kvm" => "host,-vmx,-svm,hv-relaxed".into(),
                _ => "max".into(),
            },
        };
        let dir = RunDir::new(&plan.run_dir).expect("short");
        let mut text = String::new();
        for word in arguments(plan, &how, uefi, &dir) {
            text.push(match word.starts_with('-') {
                true => '\n',
                false => ' ',
            });
            text.push_str(&word);
        }
        text.split_off(1)
    }

    fn ovmf(smm: bool) -> Pair {
        Pair {
            code: "/fw/CODE.fd".into(),
            vars: "/fw/VARS.fd".into(),
            format: Format::Raw,
            smm,
        }
    }

    #[test]
    fn command_lines() {
        for (name, firmware) in [("uefi", Firmware::Uefi), ("bios", Firmware::Bios)] {
            for (bus_name, bus) in [
                ("nvme", DiskBus::Nvme),
                ("virtio", DiskBus::Virtio),
                ("ahci", DiskBus::Ahci),
            ] {
                for accel in ["kvm", "tcg"] {
                    let uefi = (firmware == Firmware::Uefi).then(|| ovmf(false));
                    let plan = plan(firmware, bus, Path::new("/run/w"));
                    let line = text(&plan, accel, uefi.as_ref());
                    insta::assert_snapshot!(format!("args_{name}_{bus_name}_{accel}"), line);
                }
            }
        }
    }

    #[test]
    fn secure_boot_and_network_add_their_pieces_and_nothing_else() {
        let mut plan = plan(Firmware::Uefi, DiskBus::Nvme, Path::new("/run/w"));
        let before = text(&plan, "kvm", Some(&ovmf(false)));
        plan.secure_boot = true;
        plan.network = true;
        let after = text(&plan, "kvm", Some(&ovmf(true)));
        let only = |a: &str, b: &str| -> Vec<String> {
            let lines = a.lines().filter(|l| !b.lines().any(|m| m == *l));
            lines.map(String::from).collect()
        };
        assert_eq!(
            only(&before, &after),
            ["-machine q35,smm=off,hpet=off,vmport=off", "-nic none"]
        );
        assert_eq!(
            only(&after, &before),
            [
                "-machine q35,smm=on,hpet=off,vmport=off",
                "-global driver=cfi.pflash01,property=secure,value=on",
                "-netdev user,id=net0",
                "-device e1000e,netdev=net0",
            ]
        );
    }

    /// A host of files: descriptors below `etc` and `share`, images of the given lengths.
    struct Host(tempfile::TempDir);

    impl Host {
        fn new() -> Self {
            Self(tempfile::tempdir().expect("a folder"))
        }

        fn path(&self, name: &str) -> PathBuf {
            self.0.path().join(name)
        }

        fn image(&self, name: &str, length: u64) -> &Self {
            let path = self.path(name);
            std::fs::create_dir_all(path.parent().expect("a folder")).expect("created");
            std::fs::File::create(path)
                .and_then(|f| f.set_len(length))
                .expect("written");
            self
        }

        fn descriptor(
            &self,
            file: &str,
            code: &str,
            vars: &str,
            format: &str,
            features: &[&str],
        ) -> &Self {
            let path = self.path(file);
            let image = |name| serde_json::json!({"filename": self.path(name), "format": format});
            let text = serde_json::json!({
                "description": "UEFI firmware for x86_64",
                "interface-types": ["uefi"],
                "mapping": {"device": "flash", "executable": image(code), "nvram-template": image(vars)},
                "targets": [{"architecture": "x86_64", "machines": ["pc-i440fx-*", "pc-q35-*"]}],
                "features": features, "tags": [],
            });
            std::fs::create_dir_all(path.parent().expect("a folder")).expect("created");
            std::fs::write(path, text.to_string()).expect("written");
            self
        }

        fn find(&self, secure_boot: bool) -> String {
            let places = Places {
                descriptors: vec![self.path("etc"), self.path("share")],
                root: self.0.path().to_path_buf(),
            };
            let text = match find(&places, secure_boot) {
                Ok(pair) => format!(
                    "{} {} {} smm={}",
                    pair.code.display(),
                    pair.vars.display(),
                    pair.format.name(),
                    pair.smm
                ),
                Err(e) => e.to_string(),
            };
            text.replace(&format!("{}/", self.0.path().display()), "")
        }
    }

    const CODE_2M: u64 = 1_966_080;
    const VARS_2M: u64 = 131_072;
    const CODE_4M: u64 = 3_653_632;
    const VARS_4M: u64 = 540_672;
    const SECURE: &[&str] = &["secure-boot", "requires-smm", "enrolled-keys"];

    #[test]
    fn descriptors_decide_and_four_mib_win() {
        let host = Host::new();
        host.image("c2", CODE_2M)
            .image("v2", VARS_2M)
            .image("c4", CODE_4M)
            .image("v4", VARS_4M);
        host.image("cs", CODE_4M).image("vs", VARS_4M);
        host.descriptor("share/10-secure.json", "cs", "vs", "raw", SECURE);
        host.descriptor(
            "share/20-not-enrolled.json",
            "cs",
            "v4",
            "raw",
            &["secure-boot", "requires-smm"],
        );
        host.descriptor("share/50-small.json", "c2", "v2", "raw", &["acpi-s3"]);
        host.descriptor(
            "share/60-large.json",
            "c4",
            "v4",
            "raw",
            &["acpi-s3", "verbose-dynamic"],
        );
        assert_eq!(host.find(false), "c4 v4 raw smm=false");
        assert_eq!(host.find(true), "cs vs raw smm=true");
        // An empty file of a higher folder switches a descriptor off.
        std::fs::create_dir_all(host.path("etc")).expect("created");
        std::fs::write(host.path("etc/60-large.json"), "").expect("written");
        assert_eq!(host.find(false), "c2 v2 raw smm=false");
    }

    #[test]
    fn a_code_image_of_one_family_never_goes_with_variables_of_the_other() {
        let host = Host::new();
        host.image("c4", CODE_4M).image("v2", VARS_2M);
        host.descriptor("share/60.json", "c4", "v2", "raw", &[]);
        std::fs::write(host.path("share/99.json"), "{").expect("written");
        assert_eq!(
            host.find(false),
            "no UEFI firmware for QEMU was found\n  | share/99.json: EOF while parsing an object at line 1 column 1\n  \
             | c4 and v2 are no pair: together 3784704 bytes, not 2 or 4 MiB\n  \
             cure: install it (Debian, Ubuntu: ovmf; Fedora, Arch: edk2-ovmf), or build for firmware = \"bios\""
        );
    }

    #[test]
    fn known_paths_serve_a_host_without_descriptors() {
        let host = Host::new();
        assert!(
            host.find(true)
                .starts_with("no UEFI firmware with Secure Boot and enrolled keys was found\n")
        );
        host.image("usr/share/edk2/ovmf/OVMF_CODE.fd", CODE_2M)
            .image("usr/share/edk2/ovmf/OVMF_VARS.fd", VARS_2M);
        assert_eq!(
            host.find(false),
            "usr/share/edk2/ovmf/OVMF_CODE.fd usr/share/edk2/ovmf/OVMF_VARS.fd raw smm=false"
        );
        host.image("usr/share/edk2/ovmf/OVMF_CODE_4M.qcow2", 99)
            .image("usr/share/edk2/ovmf/OVMF_VARS_4M.qcow2", 99);
        assert_eq!(
            host.find(false),
            "usr/share/edk2/ovmf/OVMF_CODE_4M.qcow2 usr/share/edk2/ovmf/OVMF_VARS_4M.qcow2 qcow2 smm=false"
        );
    }
}

#[derive(Default)]
struct Told(Mutex<Vec<Event>>);

impl Sink for Told {
    fn emit(&self, event: &Event) {
        self.0.lock().expect("lock").push(event.clone());
    }
}

/// A fake machine with its folder.
struct Played {
    folder: tempfile::TempDir,
    told: Arc<Told>,
    cancel: Cancel,
    machine: Box<dyn winimg_machine::vm::Machine>,
}

fn play(script: &str) -> Played {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("machine.toml");
    std::fs::write(&file, script).expect("written");
    let told = Arc::new(Told::default());
    let cancel = Cancel::default();
    let mut plan = plan(Firmware::Uefi, DiskBus::Nvme, folder.path());
    plan.disk = folder.path().join("disk.qcow2");
    let fake = fake::open(&file).expect("a script");
    let sink = Arc::clone(&told);
    let machine = fake.start(plan, sink, cancel.clone()).expect("it starts");
    Played {
        folder,
        told,
        cancel,
        machine,
    }
}

fn command(line: &str) -> Command {
    let mut words = line.split(' ').map(String::from);
    Command {
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
    let mut guest = played.machine.guest().expect("ready");
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
            Exit::Code(0),
            Exit::Code(1618),
            Exit::Code(3010),
            Exit::Code(9009),
            Exit::GuestGone
        ]
    );
    assert_eq!(
        String::from_utf8_lossy(&output),
        "The operation completed successfully.\r\nthe fake machine's script has no reply to: C:\\unknown.exe now\r\n"
    );
    guest.wait_back(Duration::from_secs(1)).expect("back");
    guest
        .put(Put::Bytes {
            path: r"C:\a.txt",
            bytes: b"a\r\nb",
        })
        .expect("put");
    guest.put(Put::Disc(&folder.join("p.iso"))).expect("disc");
    assert!(guest.put(Put::Disc(&folder.join("missing.iso"))).is_err());
    guest.put(Put::NoDiscs).expect("none");
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
        phase: "install",
        text: text.into(),
    };
    assert_eq!(
        *played.told.0.lock().expect("lock"),
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
            "Windows Setup stopped at a screen and waits for a person",
        ),
        (
            "nothing-boots",
            Kind::Setup,
            "the firmware finds nothing to boot",
        ),
        (
            "restart-loop",
            Kind::Setup,
            "Windows Setup restarts again and again",
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
        let error = played.machine.guest().map(|_| ()).expect_err(outcome);
        assert_eq!((error.kind(), error.fact()), (kind, fact), "{outcome}");
    }
}

#[test]
fn every_fault_after_it_has_its_error() {
    let mut played = play(
        "default_exit = 0\n[[run]]\ncommand = '*hang*'\noutcome = 'hangs'\n[[run]]\ncommand = '*crash*'\noutcome = 'machine-crashes'\n\
         [reboot]\noutcome = 'stays-away'\n[off]\noutcome = 'stays-on'\n",
    );
    let mut guest = played.machine.guest().expect("ready");
    let mut run = |line: &str| guest.run(&command(line), &mut |_| {});
    assert_eq!(run(r"C:\any.exe").expect("an end"), Exit::Code(0));
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
    let mut guest = played.machine.guest().expect("ready");
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
            .guest()
            .map(|_| ())
            .expect_err("interrupted")
            .kind(),
        Kind::Cancelled
    );
}
