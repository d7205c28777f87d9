//! Evaluates the facts about a host.

use super::{
    BuildFolder, CheckState, CheckTopic, DoctorFacts, FolderSpace, HostCheck, HostClock,
    HostHypervisor, HostProblem, HostProgram, KvmAccess, OperatingSystem, RecipeNeeds, StartedVm,
};

/// Default memory of a VM in bytes (docs/recipe.md).
const MACHINE: u64 = 4 << 30;
/// Memory that VMs leave to the host, in bytes.
pub const HOST: u64 = 1 << 30;
/// Bytes that a first build needs: an installed Windows, its layers and one output. With less it is
/// likely to fill the disk.
const CACHE: u64 = 32 << 30;
const OUTPUT: u64 = 24 << 30;
const TEMPORARY: u64 = 1 << 30;
/// Total disk space of a first build, in bytes.
pub const FIRST_BUILD: u64 = CACHE + OUTPUT + TEMPORARY;
/// Seconds by which files may be newer than the clock, as when copied from a machine whose clock
/// differs a little.
const SKEW: i64 = 300;

/// Returns all checks in display order.
pub fn check_host(facts: &DoctorFacts) -> Vec<HostCheck> {
    let mut checks = check_machines(facts);
    if !matches!(
        facts.machines,
        HostHypervisor::HyperV { .. } | HostHypervisor::NoHyperV(_)
    ) {
        checks.push(check_program(
            facts.qemu_img.clone(),
            CheckState::Missing,
            &facts.system,
            HostProgram::QemuImg,
        ));
    }
    checks.push(check_program(
        facts
            .tesseract
            .as_ref()
            .map(|version| format!("{version} (reads text from the screen when a VM hangs)")),
        CheckState::Advice,
        &facts.system,
        HostProgram::Tesseract,
    ));
    checks.extend(check_memory(facts));
    checks.push(check_processors(facts));
    checks.extend(check_rooms(&facts.rooms, facts.needs.as_ref()));
    checks.extend(
        facts
            .proxies
            .iter()
            .map(|proxy| create_good(CheckTopic::Proxy, format!("proxy for {proxy}"))),
    );
    checks.extend(facts.broken_proxies.iter().map(|fact| HostCheck {
        cure: Some("set it to a URL such as http://proxy.example.com:3128".into()),
        ..check(CheckTopic::Proxy, CheckState::Missing, fact.clone())
    }));
    checks.push(check_clock(&facts.clock, &facts.system));
    checks
}

fn check(about: CheckTopic, state: CheckState, found: String) -> HostCheck {
    HostCheck {
        about,
        state,
        found,
        remarks: Vec::new(),
        cure: None,
    }
}

fn create_good(about: CheckTopic, found: String) -> HostCheck {
    check(about, CheckState::Good, found)
}

fn check_program(
    found: Option<String>,
    unless: CheckState,
    system: &OperatingSystem,
    program: HostProgram,
) -> HostCheck {
    let (about, lacking) = match program {
        HostProgram::Tesseract => (
            CheckTopic::Tesseract,
            "tesseract is not in PATH: errors cannot quote the screen of a VM that hangs",
        ),
        _ => (CheckTopic::QemuImg, "qemu-img is not in PATH"),
    };
    match found {
        Some(found) => create_good(about, found),
        None => HostCheck {
            cure: Some(system.install(program)),
            ..check(about, unless, lacking.into())
        },
    }
}

fn check_machines(facts: &DoctorFacts) -> Vec<HostCheck> {
    let (system, needs) = (&facts.system, facts.needs.as_ref());
    match &facts.machines {
        HostHypervisor::NoQemu(trouble) => vec![report_missing(
            CheckTopic::Qemu,
            "QEMU",
            trouble,
            system,
            Some(HostProgram::Qemu),
        )],
        HostHypervisor::NoHyperV(trouble) => {
            vec![report_missing(
                CheckTopic::HyperV,
                "Hyper-V",
                trouble,
                system,
                None,
            )]
        }
        HostHypervisor::HyperV {
            host,
            has,
            lacks,
            remarks,
        } => check_hyperv(host, has, lacks, remarks),
        HostHypervisor::Qemu {
            firmware,
            kvm,
            secure_boot,
            swtpm,
        } => {
            let mut checks: Vec<HostCheck> = firmware
                .iter()
                .map(|(name, found)| check_started(name, found, system))
                .collect();
            checks.extend(check_acceleration(*kvm, system));
            checks.push(check_extra(
                CheckTopic::SecureBoot,
                "Secure Boot",
                secure_boot,
                choose_state(needs.is_some_and(|n| n.secure_boot)),
                system.install(HostProgram::Ovmf),
            ));
            checks.push(check_extra(
                CheckTopic::Tpm,
                "TPM",
                swtpm,
                choose_state(needs.is_some_and(|n| n.tpm)),
                system.install(HostProgram::Swtpm),
            ));
            checks
        }
    }
}

fn choose_state(is_needed: bool) -> CheckState {
    if is_needed {
        CheckState::Missing
    } else {
        CheckState::Advice
    }
}

fn check_hyperv(
    host: &str,
    has: &[String],
    lacks: &[(String, String)],
    remarks: &[String],
) -> Vec<HostCheck> {
    let mut checks = vec![HostCheck {
        remarks: remarks.to_vec(),
        ..create_good(CheckTopic::HyperV, host.into())
    }];
    checks.extend(
        has.iter()
            .map(|has| create_good(CheckTopic::HyperV, has.clone())),
    );
    checks.extend(lacks.iter().map(|(what, cure)| HostCheck {
        cure: Some(cure.clone()),
        ..check(CheckTopic::HyperV, CheckState::Missing, what.clone())
    }));
    checks
}

/// Returns a failed check with the problem's details and further lines as remarks.
fn fail_check(
    about: CheckTopic,
    state: CheckState,
    name: &str,
    trouble: &HostProblem,
) -> HostCheck {
    let problem = &trouble.problem;
    HostCheck {
        remarks: problem
            .list_details()
            .into_iter()
            .map(|(name, value)| format!("{name}: {value}"))
            .chain(problem.lines.iter().cloned())
            .collect(),
        ..check(about, state, format!("{name}: {}", problem.fact))
    }
}

/// Returns a missing requirement. An absent program is fixed by installing its package, anything
/// else by the error's own cure.
fn report_missing(
    about: CheckTopic,
    name: &str,
    trouble: &HostProblem,
    system: &OperatingSystem,
    program: Option<HostProgram>,
) -> HostCheck {
    let package = program
        .filter(|_| trouble.is_absent)
        .map(|program| system.install(program));
    HostCheck {
        cure: package.or_else(|| trouble.problem.cures.first().cloned()),
        ..fail_check(about, CheckState::Missing, name, trouble)
    }
}

fn check_started(
    name: &str,
    found: &Result<StartedVm, HostProblem>,
    system: &OperatingSystem,
) -> HostCheck {
    match found {
        Ok(started) => HostCheck {
            remarks: started.remarks.clone(),
            ..create_good(
                CheckTopic::Qemu,
                format!("{name}: {} with {}", started.version, started.accel),
            )
        },
        Err(trouble) => report_missing(
            CheckTopic::Qemu,
            name,
            trouble,
            system,
            Some(HostProgram::Ovmf),
        ),
    }
}

fn check_acceleration(kvm: KvmAccess, system: &OperatingSystem) -> Option<HostCheck> {
    let (found, cure) = match kvm {
        KvmAccess::Usable => {
            return Some(create_good(
                CheckTopic::Kvm,
                "KVM: /dev/kvm can be opened".into(),
            ));
        }
        KvmAccess::Elsewhere => return None,
        KvmAccess::Denied => (
            "KVM: this user may not open /dev/kvm, so builds are many times slower",
            "sudo usermod -aG kvm $USER, and log in again",
        ),
        KvmAccess::Absent if system.is_windows() => return None,
        KvmAccess::Absent => (
            "KVM: there is no /dev/kvm, so builds are many times slower",
            "enable virtualization in the firmware (in a VM: nested virtualization), \
             then sudo modprobe -a kvm_intel kvm_amd",
        ),
    };
    Some(HostCheck {
        cure: Some(cure.into()),
        ..check(CheckTopic::Kvm, CheckState::Advice, found.into())
    })
}

/// Checks a feature that only some recipes need.
fn check_extra(
    about: CheckTopic,
    name: &str,
    found: &Result<String, HostProblem>,
    unless: CheckState,
    cure: String,
) -> HostCheck {
    match found {
        Ok(found) => create_good(about, format!("{name}: {found}")),
        Err(trouble) => HostCheck {
            cure: Some(cure),
            ..fail_check(about, unless, name, trouble)
        },
    }
}

fn format_gib(bytes: u64) -> String {
    format!("{:.1} GiB", bytes as f64 / (1u64 << 30) as f64)
}

fn check_memory(facts: &DoctorFacts) -> Option<HostCheck> {
    let memory = facts.memory?;
    let asked = facts.needs.as_ref().map(|needs| needs.memory);
    let whole = format!("memory: {}", format_gib(memory));
    let machine = asked.unwrap_or(MACHINE);
    Some(if memory >= machine + HOST {
        create_good(CheckTopic::Memory, whole)
    } else {
        let state = match asked {
            Some(_) => CheckState::Missing,
            None => CheckState::Advice,
        };
        let found = format!(
            "{whole}; the VM uses {} of it, and the host needs {}",
            format_gib(machine),
            format_gib(HOST)
        );
        HostCheck {
            cure: Some("set a smaller `memory` under [machine], or build on a larger host".into()),
            ..check(CheckTopic::Memory, state, found)
        }
    })
}

fn check_processors(facts: &DoctorFacts) -> HostCheck {
    let found = format!("processors: {}", facts.processors);
    match facts.needs.as_ref().map(|needs| needs.processors) {
        Some(asked) if asked > facts.processors => HostCheck {
            cure: Some(format!("set `cpus = {}` under [machine]", facts.processors)),
            ..check(
                CheckTopic::Processors,
                CheckState::Advice,
                format!("{found}; the recipe's VM has {asked}"),
            )
        },
        _ => create_good(CheckTopic::Processors, found),
    }
}

/// Checks free disk space; folders on the same volume share it.
fn check_rooms(rooms: &[FolderSpace], needs: Option<&RecipeNeeds>) -> Vec<HostCheck> {
    let mut volumes: Vec<u64> = Vec::new();
    for room in rooms {
        if !volumes.contains(&room.volume) {
            volumes.push(room.volume);
        }
    }
    volumes
        .into_iter()
        .map(|volume| {
            let own: Vec<&FolderSpace> =
                rooms.iter().filter(|room| room.volume == volume).collect();
            check_volume(&own, needs)
        })
        .collect()
}

/// Checks the free disk space of one volume.
fn check_volume(rooms: &[&FolderSpace], needs: Option<&RecipeNeeds>) -> HostCheck {
    let wanted: u64 = rooms
        .iter()
        .map(|room| estimate_need(room.what, needs))
        .sum();
    let free = rooms.iter().map(|room| room.free).min().unwrap_or(0);
    let names: Vec<String> = rooms
        .iter()
        .map(|room| {
            let name = match room.what {
                BuildFolder::Cache => "cache",
                BuildFolder::Output => "output",
                BuildFolder::Temporary => "temporary files",
            };
            format!("{name} {}", room.folder)
        })
        .collect();
    let found = format!(
        "disk space: {} free for {}",
        format_gib(free),
        names.join(", ")
    );
    if free >= wanted {
        return create_good(CheckTopic::Room, found);
    }
    let whose = match needs {
        Some(_) => "this recipe",
        None => "a first build",
    };
    HostCheck {
        cure: Some(
            "winimg cache prune, or another folder: `dir` under [cache], --output, TMPDIR".into(),
        ),
        ..check(
            CheckTopic::Room,
            CheckState::Advice,
            format!("{found}; {whose} may need {}", format_gib(wanted)),
        )
    }
}

/// Returns the bytes that a build may need in a folder.
fn estimate_need(place: BuildFolder, needs: Option<&RecipeNeeds>) -> u64 {
    match (place, needs) {
        (BuildFolder::Cache, Some(needs)) => needs.cache,
        (BuildFolder::Output, Some(needs)) => needs.output,
        (BuildFolder::Cache, None) => CACHE,
        (BuildFolder::Output, None) => OUTPUT,
        (BuildFolder::Temporary, _) => TEMPORARY,
    }
}

fn check_clock(clock: &HostClock, system: &OperatingSystem) -> HostCheck {
    let cure = if system.is_windows() {
        "w32tm /resync"
    } else {
        "sudo timedatectl set-ntp true"
    };
    let date = jiff::Timestamp::from_second(clock.now)
        .map(|now| now.strftime("%Y-%m-%d %H:%M UTC").to_string())
        .unwrap_or_default();
    let behind = clock.newest_file - clock.now;
    let (state, found) = match clock.is_kept {
        _ if behind > SKEW => (
            CheckState::Missing,
            format!(
                "clock: {date} is {} min before the time of this program's files: \
                 certificates and signatures may appear to be from the future",
                behind / 60
            ),
        ),
        Some(false) => (
            CheckState::Advice,
            format!(
                "clock: {date}, not synchronized since boot: \
                 a wrong clock breaks certificates and signatures"
            ),
        ),
        _ => return create_good(CheckTopic::Clock, format!("clock: {date}")),
    };
    HostCheck {
        cure: Some(cure.into()),
        ..check(CheckTopic::Clock, state, found)
    }
}
