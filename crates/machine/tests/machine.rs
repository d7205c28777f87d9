//! Machines as text: QEMU's command line, the firmware that is chosen, and what Hyper-V refuses.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use winimg_base::event::{Cancel, Event, Sink};
use winimg_machine::vm::hyperv::HyperVHypervisor;
use winimg_machine::vm::{
    Accel, CdImage, GuestForward, Hypervisor, MachinePlan, NetworkAccess, NicModel, PrivateNetwork,
    StartMode, StorageController,
};
use winimg_recipe::Firmware;

/// Of a clone's machine.
const UUID: &str = "9b0cbe85-6a4f-4b4e-8b0f-1f6d3f0f2b11";

fn plan(firmware: Firmware, controller: StorageController, run_dir: &Path) -> MachinePlan {
    MachinePlan {
        name: "winimg-demo".into(),
        firmware,
        secure_boot: false,
        controller,
        disk: "/work/scratch/disk, old.qcow2".into(),
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

struct Silent;

impl Sink for Silent {
    fn emit(&self, _: &Event) {}
}

#[test]
fn hyper_v_refuses_clones_by_name() {
    let hyperv = HyperVHypervisor::find().expect("nothing is started");
    let refused = "clones can only be started with QEMU, not with Hyper-V\n  cure: try the image on a host with QEMU";
    let plan = MachinePlan {
        start: StartMode::Clone {
            disc: None,
            uuid: UUID.into(),
        },
        ..plan(Firmware::Uefi, StorageController::Nvme, Path::new("/run/w"))
    };
    let started = hyperv.start(plan, Arc::new(Silent), Cancel::default());
    assert_eq!(started.err().expect("refused").to_string(), refused);
    let (disk, image) = (Path::new("a.vhdx"), Path::new("b.vhdx"));
    let made = hyperv.create_disk_over_image(disk, image, 1 << 20, &Cancel::default());
    assert_eq!(made.expect_err("refused").to_string(), refused);
}

#[cfg(unix)]
mod qemu {
    use super::*;
    use support::difference::lines_that_differ;
    use winimg_machine::vm::qemu::args::{Acceleration, build_arguments, check_forwards};
    use winimg_machine::vm::qemu::firmware::{FirmwareFormat, FirmwarePair, FirmwarePaths, find};
    use winimg_machine::vm::qemu::rundir::RunDir;

    /// One line an option.
    fn text(plan: &MachinePlan, accel: &str, uefi: Option<&FirmwarePair>) -> String {
        let how = Acceleration {
            accel: accel.into(),
            cpu: match accel {
                "kvm" => "host,-vmx,-svm,hv-relaxed".into(),
                _ => "max".into(),
            },
        };
        let dir = RunDir::new(&plan.run_dir).expect("short");
        let mut text = String::new();
        for word in build_arguments(plan, &how, uefi, &dir) {
            text.push(if word.starts_with('-') { '\n' } else { ' ' });
            text.push_str(&word);
        }
        text.split_off(1)
    }

    fn ovmf(smm: bool) -> FirmwarePair {
        FirmwarePair {
            code: "/fw/CODE.fd".into(),
            vars: "/fw/VARS.fd".into(),
            format: FirmwareFormat::Raw,
            smm,
        }
    }

    /// The first snapshot is complete; the others are differences from it.
    #[test]
    fn command_lines() {
        let (mut whole, mut differences) = (String::new(), String::new());
        for (name, firmware) in [("uefi", Firmware::Uefi), ("bios", Firmware::Bios)] {
            for (bus_name, bus) in [
                ("nvme", StorageController::Nvme),
                ("virtio", StorageController::VirtioBlk),
                ("ahci", StorageController::Ahci),
            ] {
                for accel in ["kvm", "tcg"] {
                    let uefi = (firmware == Firmware::Uefi).then(|| ovmf(false));
                    let plan = plan(firmware, bus, Path::new("/run/w"));
                    let line = text(&plan, accel, uefi.as_ref());
                    if whole.is_empty() {
                        insta::assert_snapshot!(format!("args_{name}_{bus_name}_{accel}"), line);
                        whole = line + "\n";
                        continue;
                    }
                    let differs = lines_that_differ(&whole, &(line + "\n"));
                    differences.push_str(&format!("== {name}_{bus_name}_{accel}\n{differs}"));
                }
            }
        }
        insta::assert_snapshot!("args_of_the_others", differences);
    }

    #[test]
    fn secure_boot_and_network_add_their_pieces_and_nothing_else() {
        let mut plan = plan(Firmware::Uefi, StorageController::Nvme, Path::new("/run/w"));
        let before = text(&plan, "kvm", Some(&ovmf(false)));
        plan.secure_boot = true;
        plan.network = NetworkAccess::Open;
        let after = text(&plan, "kvm", Some(&ovmf(true)));
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

    #[test]
    fn a_tpm_is_a_device_whose_emulator_listens_in_the_machines_folder() {
        let mut plan = plan(
            Firmware::Uefi,
            StorageController::Nvme,
            Path::new("/run/w, x"),
        );
        let before = text(&plan, "kvm", Some(&ovmf(false)));
        plan.tpm = true;
        let after = text(&plan, "kvm", Some(&ovmf(false)));
        assert_eq!(only(&before, &after), [""; 0]);
        assert_eq!(
            only(&after, &before),
            [
                "-chardev socket,id=swtpm,path=/run/w,, x/tpm.sock",
                "-tpmdev emulator,id=tpm0,chardev=swtpm",
                "-device tpm-crb,tpmdev=tpm0",
            ]
        );
    }

    fn only(a: &str, b: &str) -> Vec<String> {
        let lines = a.lines().filter(|l| !b.lines().any(|m| m == *l));
        lines.map(String::from).collect()
    }

    #[test]
    fn each_controller_of_a_platform_is_a_card_with_the_disk_on_it() {
        let device = |controller| {
            let plan = plan(Firmware::Bios, controller, Path::new("/run/w"));
            let line = text(&plan, "tcg", None);
            let devices = line.lines().skip_while(|l| !l.contains("id=disk0"));
            let devices = devices.skip(1).take_while(|l| l.starts_with("-device"));
            devices.collect::<Vec<_>>().join("\n")
        };
        let on = |card: &str, disk: &str| {
            format!(
                "-device {card},id=hba\n-device {disk},bus=hba.0,id=disk,drive=disk0,bootindex=1"
            )
        };
        assert_eq!(device(StorageController::Ide), on("piix4-ide", "ide-hd"));
        let scsi = [
            (StorageController::VirtioScsi, "virtio-scsi-pci"),
            (StorageController::LsiSas, "mptsas1068"),
            (StorageController::Pvscsi, "pvscsi"),
        ];
        for (controller, card) in scsi {
            assert_eq!(device(controller), on(card, "scsi-hd"));
        }
    }

    #[test]
    fn a_clone_has_its_disc_alone_and_nothing_of_a_build() {
        let mut plan = plan(Firmware::Uefi, StorageController::Nvme, Path::new("/run/w"));
        let built = text(&plan, "kvm", Some(&ovmf(false)));
        plan.start = StartMode::Clone {
            disc: Some("/run/w/metadata.iso".into()),
            uuid: UUID.into(),
        };
        let clone = text(&plan, "kvm", Some(&ovmf(false)));
        assert_eq!(
            only(&built, &clone),
            [
                "-drive if=none,id=cd0,media=cdrom,readonly=on,format=qcow2,file=/store/overlay.qcow2",
                "-device ide-cd,id=install,bus=ide.1,drive=cd0,bootindex=2",
                "-drive if=none,id=cd1,media=cdrom,readonly=on,format=raw,file=/run/w/answer.iso",
                "-device virtio-serial-pci,id=channels",
                "-chardev socket,id=agent,server=on,wait=off,path=/run/w/agent.sock",
                "-device virtserialport,bus=channels.0,chardev=agent,id=agent0,name=org.qemu.guest_agent.0",
            ]
        );
        assert_eq!(
            only(&clone, &built),
            [
                "-drive if=none,id=cd1,media=cdrom,readonly=on,format=raw,file=/run/w/metadata.iso",
                "-uuid 9b0cbe85-6a4f-4b4e-8b0f-1f6d3f0f2b11",
            ]
        );
        plan.start = StartMode::Clone {
            disc: None,
            uuid: UUID.into(),
        };
        let without = text(&plan, "kvm", Some(&ovmf(false)));
        assert_eq!(
            only(&without, &clone),
            ["-drive if=none,id=cd1,media=cdrom,readonly=on"]
        );
    }

    #[test]
    fn a_network_of_its_own_holds_its_forwards_with_every_word_as_it_was_given() {
        let mut plan = plan(Firmware::Uefi, StorageController::Nvme, Path::new("/run/w"));
        let before = text(&plan, "kvm", Some(&ovmf(false)));
        let forward = |to: &str, command: &[&str]| GuestForward {
            to: to.parse().expect("an address"),
            command: command.iter().map(ToString::to_string).collect(),
        };
        let mut own = PrivateNetwork {
            mac: "52:54:00:00:00:01".into(),
            nic: NicModel::Virtio,
            subnet: "168.0.0.0/7".into(),
            forwards: vec![
                forward("169.254.169.254:80", &["/opt/win img", "relay", "/w/a, b"]),
                forward("168.63.129.16:80", &["/bin/it's", "$HOME"]),
            ],
            has_way_out: false,
        };
        plan.network = NetworkAccess::Own(own.clone());
        let after = text(&plan, "kvm", Some(&ovmf(false)));
        assert_eq!(only(&before, &after), ["-nic none"]);
        assert_eq!(
            only(&after, &before),
            [
                "-netdev user,id=net0,restrict=on,ipv6=off,net=168.0.0.0/7,\
                 guestfwd=tcp:169.254.169.254:80-cmd:'/opt/win img' 'relay' '/w/a,, b',\
                 guestfwd=tcp:168.63.129.16:80-cmd:'/bin/it'\\''s' '$HOME'",
                "-device virtio-net-pci,netdev=net0,mac=52:54:00:00:00:01",
            ]
        );
        own.has_way_out = true;
        plan.network = NetworkAccess::Own(own);
        let open = text(&plan, "kvm", Some(&ovmf(false)));
        let [netdev] = &only(&open, &after)[..] else {
            panic!("{open}");
        };
        let same = netdev.replace("restrict=off", "restrict=on");
        assert_eq!(only(&after, &open), [same]);
    }

    #[test]
    fn a_forward_that_qemu_would_cut_short_is_refused() {
        let forwarding = |length: usize| {
            let forward = GuestForward {
                to: "169.254.169.254:80".parse().expect("an address"),
                command: vec!["x".repeat(length)],
            };
            let network = NetworkAccess::Own(PrivateNetwork {
                mac: "52:54:00:00:00:01".into(),
                nic: NicModel::E1000e,
                subnet: "168.0.0.0/7".into(),
                forwards: vec![forward],
                has_way_out: false,
            });
            check_forwards(&network).map_err(|e| e.to_string())
        };
        let around = "tcp:169.254.169.254:80-cmd:''".len();
        assert_eq!(forwarding(1023 - around), Ok(()));
        assert_eq!(
            forwarding(1024 - around),
            Err(
                "the command for an address of the clone's network is too long for QEMU\n  \
                 at: 169.254.169.254:80\n  expected: 1023 bytes at most\n  found: 1024 bytes\n  \
                 cure: use shorter paths for winimg and for its folder of temporary files"
                    .into()
            )
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
            let places = FirmwarePaths {
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
             | c4 and v2 do not match: 3784704 bytes together instead of 2 or 4 MiB\n  \
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
