//! Evaluates the facts about a host.

use super::{
    BuildFolder, CheckState, CheckTopic, DoctorFacts, FolderSpace, HostCheck, HostClock,
    OperatingSystem, RecipeNeeds,
};
use winimg_machine::host::HostProgram;

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
    let mut checks = facts.machines.clone();
    checks.push(check_tesseract(facts));
    checks.extend(check_memory(facts));
    checks.push(check_processors(facts));
    checks.extend(check_rooms(&facts.rooms, facts.needs.as_ref()));
    checks.extend(
        facts
            .proxies
            .iter()
            .map(|proxy| HostCheck::good(CheckTopic::Proxy, format!("proxy for {proxy}"))),
    );
    checks.extend(facts.broken_proxies.iter().map(|fact| {
        HostCheck::new(CheckTopic::Proxy, CheckState::Missing, fact)
            .with_cure("set it to a URL such as http://proxy.example.com:3128")
    }));
    checks.push(check_clock(&facts.clock, &facts.system));
    checks
}

fn check_tesseract(facts: &DoctorFacts) -> HostCheck {
    let topic = CheckTopic::Tesseract;
    match &facts.tesseract {
        Some(version) => HostCheck::good(
            topic,
            format!("{version} (reads text from the screen when a VM hangs)"),
        ),
        None => HostCheck::new(
            topic,
            CheckState::Advice,
            "tesseract is not in PATH: errors cannot quote the screen of a VM that hangs",
        )
        .with_cure(facts.system.install(HostProgram::Tesseract)),
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
        HostCheck::good(CheckTopic::Memory, whole)
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
        HostCheck::new(CheckTopic::Memory, state, found)
            .with_cure("set a smaller `memory` under [machine], or build on a larger host")
    })
}

fn check_processors(facts: &DoctorFacts) -> HostCheck {
    let found = format!("processors: {}", facts.processors);
    match facts.needs.as_ref().map(|needs| needs.processors) {
        Some(asked) if asked > facts.processors => HostCheck::new(
            CheckTopic::Processors,
            CheckState::Advice,
            format!("{found}; the recipe's VM has {asked}"),
        )
        .with_cure(format!("set `cpus = {}` under [machine]", facts.processors)),
        _ => HostCheck::good(CheckTopic::Processors, found),
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
        return HostCheck::good(CheckTopic::Room, found);
    }
    let whose = match needs {
        Some(_) => "this recipe",
        None => "a first build",
    };
    HostCheck::new(
        CheckTopic::Room,
        CheckState::Advice,
        format!("{found}; {whose} may need {}", format_gib(wanted)),
    )
    .with_cure("winimg cache prune, or another folder: `dir` under [cache], --output, TMPDIR")
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
        _ => return HostCheck::good(CheckTopic::Clock, format!("clock: {date}")),
    };
    HostCheck::new(CheckTopic::Clock, state, found).with_cure(cure)
}
