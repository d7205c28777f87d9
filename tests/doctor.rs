//! What is made of a host: made-up facts of several systems, each as the whole text that a user reads.

use winimg::doctor::{
    BuildFolder, DoctorConfiguration, DoctorFacts, DoctorReport, FolderSpace, HostClock,
    HostProblem, OperatingSystem, RecipeNeeds, check_host, generate_schema,
};

use winimg_base::problem::Problem;
use winimg_machine::vm::hyperv::doctor::check_report;
use winimg_machine::vm::hyperv::{HostNeed, HostReport};
use winimg_machine::vm::qemu::doctor::{KvmAccess, QemuFacts, QemuHost};
use winimg_machine::vm::{HostRequirements, HypervisorProbe};
use winimg_recipe::Firmware;

use support::golden::schema_is_current;

const GIB: u64 = 1 << 30;

const DEBIAN: &str = "PRETTY_NAME=\"Debian GNU/Linux 12 (bookworm)\"\nNAME=\"Debian GNU/Linux\"\nVERSION_ID=\"12\"\nID=debian\n";

/// Nothing of the kind is installed.
fn absent(fact: &str) -> HostProblem {
    HostProblem {
        problem: Box::new(Problem::new(fact)),
        is_absent: true,
    }
}

fn started(accel: &str) -> Result<HypervisorProbe, HostProblem> {
    Ok(HypervisorProbe {
        version: "QEMU 7.2.22".into(),
        accel: accel.into(),
        ..HypervisorProbe::default()
    })
}

fn room(what: BuildFolder, folder: &str, free: u64, volume: u64) -> FolderSpace {
    FolderSpace {
        what,
        folder: folder.into(),
        free,
        volume,
    }
}

/// A host that has all.
fn good(os_release: &str) -> DoctorFacts {
    let system = OperatingSystem::from_os_release(os_release);
    let qemu = QemuHost {
        qemu: Ok(QemuFacts {
            firmware: vec![("UEFI", started("kvm")), ("BIOS", started("kvm"))],
            kvm: KvmAccess::Usable,
            secure_boot: Ok("/usr/share/OVMF/OVMF_CODE_4M.ms.fd".into()),
            swtpm: Ok("swtpm 0.7.1".into()),
        }),
        qemu_img: Some("qemu-img version 7.2.22".into()),
    };
    DoctorFacts {
        machines: qemu.check(&system, None),
        system,
        tesseract: Some("tesseract 5.3.0".into()),
        memory: Some(16 * GIB),
        processors: 8,
        rooms: vec![
            room(BuildFolder::Cache, "/home/u/.cache/winimg", 200 * GIB, 1),
            room(BuildFolder::Output, "/home/u/out", 200 * GIB, 1),
            room(BuildFolder::Temporary, "/tmp", 8 * GIB, 2),
        ],
        needs: None,
        proxies: Vec::new(),
        broken_proxies: Vec::new(),
        clock: HostClock {
            now: 1_800_000_000,
            newest_file: 1_799_000_000,
            is_kept: Some(true),
        },
    }
}

/// The same without anything that packages bring.
fn bare(os_release: &str) -> DoctorFacts {
    let good = good(os_release);
    let qemu = QemuHost {
        qemu: Err(absent("qemu-system-x86_64 is not in PATH")),
        qemu_img: None,
    };
    DoctorFacts {
        machines: qemu.check(&good.system, None),
        tesseract: None,
        ..good
    }
}

fn text(facts: &DoctorFacts) -> String {
    let report = DoctorReport {
        schema: 1,
        winimg: "0.1.0".into(),
        system: facts.system.name.clone(),
        configuration: DoctorConfiguration::default(),
        checks: check_host(facts),
    };
    format!("{}missing: {}\n", report.render(), report.count_missing())
}

#[test]
fn a_host_that_has_all_has_nothing_to_mend() {
    assert_eq!(
        text(&good(DEBIAN)),
        "\
UEFI: QEMU 7.2.22 with kvm
BIOS: QEMU 7.2.22 with kvm
KVM: /dev/kvm can be opened
Secure Boot: /usr/share/OVMF/OVMF_CODE_4M.ms.fd
TPM: swtpm 0.7.1
qemu-img version 7.2.22
tesseract 5.3.0 (reads text from the screen when a VM hangs)
memory: 16.0 GiB
processors: 8
disk space: 200.0 GiB free for cache /home/u/.cache/winimg, output /home/u/out
disk space: 8.0 GiB free for temporary files /tmp
clock: 2027-01-15 08:00 UTC
missing: 0
"
    );
}

#[test]
fn each_system_has_its_own_line_to_type() {
    let systems = [
        DEBIAN,
        "PRETTY_NAME=\"Linux Mint 22\"\nID=linuxmint\nID_LIKE=\"ubuntu debian\"\n",
        "PRETTY_NAME=\"Fedora Linux 43 (Server Edition)\"\nID=fedora\n",
        "PRETTY_NAME=\"EndeavourOS\"\nID=endeavouros\nID_LIKE=arch\n",
        "PRETTY_NAME=\"openSUSE Leap 16.0\"\nID=\"opensuse-leap\"\nID_LIKE=\"suse opensuse\"\n",
        "PRETTY_NAME=\"Alpine Linux v3.23\"\nID=alpine\n",
    ];
    let mut all = String::new();
    for system in systems {
        let facts = bare(system);
        let lines = text(&facts);
        let lacking = lines.lines().filter(|line| line.contains("; "));
        all += &format!("{}\n", facts.system.name);
        lacking.for_each(|line| all += &format!("  {line}\n"));
    }
    insta::assert_snapshot!(all);
}

#[test]
fn a_small_host_and_a_recipe_that_asks_for_more() {
    let mut facts = good(DEBIAN);
    let qemu = QemuHost {
        qemu: Ok(QemuFacts {
            firmware: vec![
                ("UEFI", Err(absent("no UEFI firmware for QEMU was found"))),
                ("BIOS", started("tcg")),
            ],
            kvm: KvmAccess::Denied,
            secure_boot: Err(absent(
                "no UEFI firmware with Secure Boot and enrolled keys was found",
            )),
            swtpm: Err(absent("swtpm is not in PATH")),
        }),
        qemu_img: Some("qemu-img version 7.2.22".into()),
    };
    facts.machines = qemu.check(&facts.system, None);
    facts.memory = Some(8 * GIB);
    facts.processors = 2;
    facts.rooms = vec![
        room(BuildFolder::Cache, "/cache", 40 * GIB, 1),
        room(BuildFolder::Temporary, "/tmp", GIB / 2, 2),
        room(BuildFolder::Output, "/out", 40 * GIB, 1),
    ];
    facts.proxies = vec![
        "https addresses: http://…@proxy.example.com:3128 (https_proxy), except for localhost"
            .into(),
    ];
    facts.broken_proxies = vec!["HTTP_PROXY is ignored: its value is not a proxy address, so it is not used for http addresses".into()];
    facts.clock = HostClock {
        now: 1_800_000_000,
        newest_file: 1_800_086_400,
        is_kept: Some(false),
    };
    let alone = text(&facts);
    facts.needs = Some(RecipeNeeds {
        memory: 8 * GIB,
        processors: 4,
        cache: 20 * GIB,
        output: 30 * GIB,
    });
    let demanding = HostRequirements {
        firmware: Firmware::Uefi,
        secure_boot: true,
        tpm: true,
    };
    facts.machines = qemu.check(&facts.system, Some(demanding));
    insta::assert_snapshot!(format!("{alone}\n--- with a recipe\n{}", text(&facts)));
}

#[test]
fn windows_and_hyper_v() {
    let mut facts = bare("");
    facts.system = OperatingSystem {
        name: "windows".into(),
        id: "windows".into(),
        like: Vec::new(),
    };
    facts.memory = None;
    facts.machines = check_report(HostReport {
        host: "Microsoft Windows Server 2022 Standard, 10.0.20348".into(),
        needs: vec![
            HostNeed::Has("the hypervisor is running".into()),
            HostNeed::Lacks {
                what: "rights",
                cure: "run winimg from an elevated prompt",
            },
        ],
        remarks: vec!["checkpoints are made".into()],
    });
    facts.clock.is_kept = None;
    facts.clock.newest_file = facts.clock.now + 7200;
    insta::assert_snapshot!(text(&facts));
}

#[test]
fn the_schema_is_the_one_in_the_repository() {
    schema_is_current(
        concat!(env!("CARGO_MANIFEST_DIR"), "/schemas/doctor-1.json"),
        &generate_schema(),
    );
}
