//! From the facts of a host to what is lacking.

use super::{
    About, Check, Clock, Facts, Kvm, Machines, Needs, Place, Program, Room, Started, State, System,
    Trouble,
};

/// What a machine takes unless a recipe asks for other memory (docs/recipe.md). Bytes.
const MACHINE: u64 = 4 << 30;
/// What machines leave to the host. Bytes.
pub const HOST: u64 = 1 << 30;
/// Free bytes below which a first build is likely to end on a full disk: an installed Windows, its layers and one output.
const CACHE: u64 = 32 << 30;
const OUTPUT: u64 = 24 << 30;
const TEMPORARY: u64 = 1 << 30;
/// All of it.
pub const FIRST_BUILD: u64 = CACHE + OUTPUT + TEMPORARY;
/// Seconds by which files may be newer than the clock: copied from a machine whose clock differs a little.
const SKEW: i64 = 300;

/// Every check, in the order in which they are shown.
pub fn judge(facts: &Facts) -> Vec<Check> {
    let mut checks = machines(facts);
    if !matches!(
        facts.machines,
        Machines::HyperV { .. } | Machines::NoHyperV(_)
    ) {
        checks.push(program(
            facts.qemu_img.clone(),
            State::Missing,
            &facts.system,
            Program::QemuImg,
        ));
    }
    let reads = facts.tesseract.as_ref();
    let reads = reads.map(|version| format!("{version}: reads the screen of a VM that stops"));
    checks.push(program(
        reads,
        State::Advice,
        &facts.system,
        Program::Tesseract,
    ));
    checks.extend(memory(facts));
    checks.push(processors(facts));
    checks.extend(rooms(&facts.rooms, facts.needs.as_ref()));
    let proxies = facts
        .proxies
        .iter()
        .map(|proxy| good(About::Proxy, format!("proxy for {proxy}")));
    checks.extend(proxies);
    checks.extend(facts.broken_proxies.iter().map(|fact| Check {
        cure: Some("set it to such as http://proxy.example.com:3128".into()),
        ..check(About::Proxy, State::Missing, fact.clone())
    }));
    checks.push(clock(&facts.clock, &facts.system));
    checks
}

fn check(about: About, state: State, found: String) -> Check {
    Check {
        about,
        state,
        found,
        remarks: Vec::new(),
        cure: None,
    }
}

fn good(about: About, found: String) -> Check {
    check(about, State::Good, found)
}

fn program(found: Option<String>, unless: State, system: &System, program: Program) -> Check {
    let (about, lacking) = match program {
        Program::Tesseract => (
            About::Tesseract,
            "tesseract is not in PATH: errors do not quote the screen of a VM that stops",
        ),
        _ => (About::QemuImg, "qemu-img is not in PATH"),
    };
    match found {
        Some(found) => good(about, found),
        None => Check {
            cure: Some(system.install(program)),
            ..check(about, unless, lacking.into())
        },
    }
}

fn machines(facts: &Facts) -> Vec<Check> {
    let (system, needs) = (&facts.system, facts.needs.as_ref());
    match &facts.machines {
        Machines::NoQemu(trouble) => vec![lacking(
            About::Qemu,
            "QEMU",
            trouble,
            system,
            Some(Program::Qemu),
        )],
        Machines::NoHyperV(trouble) => {
            vec![lacking(About::HyperV, "Hyper-V", trouble, system, None)]
        }
        Machines::HyperV {
            host,
            has,
            lacks,
            remarks,
        } => hyperv(host, has, lacks, remarks),
        Machines::Qemu {
            firmware,
            kvm,
            secure_boot,
            swtpm,
        } => {
            let mut checks: Vec<Check> = firmware
                .iter()
                .map(|(name, found)| started(name, found, system))
                .collect();
            checks.extend(acceleration(*kvm, system));
            let wanted = |is_needed: Option<bool>| match is_needed {
                Some(true) => State::Missing,
                _ => State::Advice,
            };
            let state = wanted(needs.map(|n| n.secure_boot));
            checks.push(extra(
                About::SecureBoot,
                "Secure Boot",
                secure_boot,
                state,
                system.install(Program::Ovmf),
            ));
            let state = wanted(needs.map(|n| n.tpm));
            checks.push(extra(
                About::Tpm,
                "TPM",
                swtpm,
                state,
                system.install(Program::Swtpm),
            ));
            checks
        }
    }
}

fn hyperv(
    host: &str,
    has: &[String],
    lacks: &[(String, String)],
    remarks: &[String],
) -> Vec<Check> {
    let mut checks = vec![Check {
        remarks: remarks.to_vec(),
        ..good(About::HyperV, host.into())
    }];
    checks.extend(has.iter().map(|has| good(About::HyperV, has.clone())));
    checks.extend(lacks.iter().map(|(what, cure)| Check {
        cure: Some(cure.clone()),
        ..check(About::HyperV, State::Missing, what.clone())
    }));
    checks
}

/// What cannot be used, with its place and further lines as remarks.
fn refused(about: About, state: State, name: &str, trouble: &Trouble) -> Check {
    let problem = &trouble.problem;
    let details = problem.details().into_iter();
    let details = details.map(|(name, value)| format!("{name}: {value}"));
    Check {
        remarks: details.chain(problem.lines.iter().cloned()).collect(),
        ..check(about, state, format!("{name}: {}", problem.fact))
    }
}

/// An error; a program that is not there is installed by its package, everything else by the error's own cure.
fn lacking(
    about: About,
    name: &str,
    trouble: &Trouble,
    system: &System,
    program: Option<Program>,
) -> Check {
    let package = program
        .filter(|_| trouble.is_absent)
        .map(|program| system.install(program));
    Check {
        cure: package.or_else(|| trouble.problem.cures.first().cloned()),
        ..refused(about, State::Missing, name, trouble)
    }
}

fn started(name: &str, found: &Result<Started, Trouble>, system: &System) -> Check {
    match found {
        Ok(started) => Check {
            remarks: started.remarks.clone(),
            ..good(
                About::Qemu,
                format!("{name}: {} with {}", started.version, started.accel),
            )
        },
        Err(trouble) => lacking(About::Qemu, name, trouble, system, Some(Program::Ovmf)),
    }
}

fn acceleration(kvm: Kvm, system: &System) -> Option<Check> {
    let advice = |found: &str, cure: &str| {
        Some(Check {
            cure: Some(cure.into()),
            ..check(About::Kvm, State::Advice, found.into())
        })
    };
    match kvm {
        Kvm::Usable => Some(good(About::Kvm, "KVM: /dev/kvm can be opened".into())),
        Kvm::Elsewhere => None,
        Kvm::Denied => advice(
            "KVM: this user may not open /dev/kvm, so builds are many times slower",
            "sudo usermod -aG kvm $USER, and log in again",
        ),
        Kvm::Absent if system.is_windows() => None,
        Kvm::Absent => advice(
            "KVM: there is no /dev/kvm, so builds are many times slower",
            "switch virtualization on in the firmware (in a VM: nested virtualization), then sudo modprobe -a kvm_intel kvm_amd",
        ),
    }
}

/// What a recipe may ask for.
fn extra(
    about: About,
    name: &str,
    found: &Result<String, Trouble>,
    unless: State,
    cure: String,
) -> Check {
    match found {
        Ok(found) => good(about, format!("{name}: {found}")),
        Err(trouble) => Check {
            cure: Some(cure),
            ..refused(about, unless, name, trouble)
        },
    }
}

fn gib(bytes: u64) -> String {
    format!("{:.1} GiB", bytes as f64 / (1u64 << 30) as f64)
}

fn memory(facts: &Facts) -> Option<Check> {
    let memory = facts.memory?;
    let asked = facts.needs.as_ref().map(|needs| needs.memory);
    let whole = format!("memory: {}", gib(memory));
    let machine = asked.unwrap_or(MACHINE);
    Some(if memory >= machine + HOST {
        good(About::Memory, whole)
    } else {
        let state = match asked {
            Some(_) => State::Missing,
            None => State::Advice,
        };
        let found = format!(
            "{whole}; the VM takes {} of it, and the host needs {}",
            gib(machine),
            gib(HOST)
        );
        Check {
            cure: Some(
                "write a smaller `memory` under [machine], or build on a larger host".into(),
            ),
            ..check(About::Memory, state, found)
        }
    })
}

fn processors(facts: &Facts) -> Check {
    let found = format!("processors: {}", facts.processors);
    match facts.needs.as_ref().map(|needs| needs.processors) {
        Some(asked) if asked > facts.processors => Check {
            cure: Some(format!(
                "write `cpus = {}` under [machine]",
                facts.processors
            )),
            ..check(
                About::Processors,
                State::Advice,
                format!("{found}; the recipe's machine has {asked}"),
            )
        },
        _ => good(About::Processors, found),
    }
}

/// Folders of one volume share what is free, and need their sum.
fn rooms(rooms: &[Room], needs: Option<&Needs>) -> Vec<Check> {
    let needed = |place: Place| match (place, needs) {
        (Place::Cache, Some(needs)) => needs.cache,
        (Place::Output, Some(needs)) => needs.output,
        (Place::Cache, None) => CACHE,
        (Place::Output, None) => OUTPUT,
        (Place::Temporary, _) => TEMPORARY,
    };
    let mut volumes: Vec<u64> = Vec::new();
    for room in rooms {
        if !volumes.contains(&room.volume) {
            volumes.push(room.volume);
        }
    }
    let judged = volumes.into_iter().map(|volume| {
        let own: Vec<&Room> = rooms.iter().filter(|room| room.volume == volume).collect();
        let wanted: u64 = own.iter().map(|room| needed(room.what)).sum();
        let free = own.iter().map(|room| room.free).min().unwrap_or(0);
        let names = own.iter().map(|room| {
            let name = match room.what {
                Place::Cache => "cache",
                Place::Output => "output",
                Place::Temporary => "temporary files",
            };
            format!("{name} {}", room.folder)
        });
        let names: Vec<String> = names.collect();
        let found = format!("room: {} free for {}", gib(free), names.join(", "));
        if free >= wanted {
            return good(About::Room, found);
        }
        let whose = match needs {
            Some(_) => "this recipe",
            None => "a first build",
        };
        Check {
            cure: Some(
                "winimg cache prune, or another folder: `dir` under [cache], --output, TMPDIR"
                    .into(),
            ),
            ..check(
                About::Room,
                State::Advice,
                format!("{found}; {whose} may take {}", gib(wanted)),
            )
        }
    });
    judged.collect()
}

fn clock(clock: &Clock, system: &System) -> Check {
    let cure = match system.is_windows() {
        true => "w32tm /resync",
        false => "sudo timedatectl set-ntp true",
    };
    let lacking = |state, found: String| Check {
        cure: Some(cure.into()),
        ..check(About::Clock, state, found)
    };
    let date = jiff::Timestamp::from_second(clock.now)
        .map(|now| now.strftime("%Y-%m-%d %H:%M UTC").to_string());
    let date = date.unwrap_or_default();
    let behind = clock.newest_file - clock.now;
    match clock.is_kept {
        _ if behind > SKEW => lacking(
            State::Missing,
            format!(
                "clock: it says {date}, and files of this program are {} min newer: certificates and signatures seem to be of the future",
                behind / 60
            ),
        ),
        Some(false) => lacking(
            State::Advice,
            format!(
                "clock: {date}, and nothing has set it right since the start: a wrong clock breaks certificates and signatures"
            ),
        ),
        _ => good(About::Clock, format!("clock: {date}")),
    }
}
