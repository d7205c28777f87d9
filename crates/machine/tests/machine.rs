//! Machines as text: QEMU's command line, and the firmware that is chosen.

use std::path::{Path, PathBuf};
use std::time::Duration;

use winimg_machine::vm::{Accel, Disc, MachinePlan, Start};
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
