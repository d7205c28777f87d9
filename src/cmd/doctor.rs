//! `winimg doctor`: inspects this host. [`crate::doctor`] evaluates the result.

use std::path::Path;
use std::time::UNIX_EPOCH;

use crate::cli::{self, LockFileArgs, RecipeArgs};
use crate::doctor::{
    BuildFolder, DoctorConfiguration, DoctorFacts, DoctorReport, DoctorSetting, FolderSpace,
    HostClock, OperatingSystem, RecipeNeeds, check_host,
};
use crate::export::estimate;
use winimg_base::error::{Error, Kind, Result};
use winimg_machine::vm::{Accel, HostInspection, HostRequirements, HypervisorKind, screen::ocr};
use winimg_supply::fetch::find_unusable_proxies;

use super::recipe::{self, RecipePurpose};
use super::{CommandContext, host, hypervisor, inputs, print, print_json};

pub fn run(args: &cli::DoctorArgs, context: &CommandContext) -> Result<()> {
    let platform = hypervisor::choose_platform(&args.hypervisor, context)?;
    let accel = hypervisor::choose_accel(args.accel, context);
    let needs = args
        .recipe
        .as_deref()
        .map(|path| collect_needs(path, context))
        .transpose()?;
    let system = detect_system();
    let report = DoctorReport {
        schema: 1,
        winimg: env!("CARGO_PKG_VERSION").into(),
        system: system.name.clone(),
        configuration: collect_configuration(&context.host),
        checks: check_host(&collect_facts(
            system, platform, accel, needs, args, context,
        )),
    };
    if args.json {
        print_json(&serde_json::json!(report))?;
    } else {
        print(&report.render())?;
    }
    match report.count_missing() {
        0 => Ok(()),
        1 => Err(Error::new(
            Kind::Host,
            "1 requirement is missing on this host",
        )),
        n => Err(Error::new(
            Kind::Host,
            format!("{n} requirements are missing on this host"),
        )),
    }
}

fn collect_configuration(host: &host::HostConfiguration) -> DoctorConfiguration {
    DoctorConfiguration {
        files: host
            .files
            .iter()
            .map(|file| file.display().to_string())
            .collect(),
        settings: host
            .config
            .settings
            .iter()
            .map(|setting| DoctorSetting {
                key: setting.path.clone(),
                value: setting.value.clone(),
                from: setting.origin.clone(),
            })
            .collect(),
    }
}

fn collect_facts(
    system: OperatingSystem,
    platform: HypervisorKind,
    accel: Accel,
    needs: Option<(RecipeNeeds, HostRequirements)>,
    args: &cli::DoctorArgs,
    context: &CommandContext,
) -> DoctorFacts {
    let variable = |name: &str| std::env::var(name).ok();
    let (used, except) = context.host.proxies.list_used(&variable);
    let except = match except.as_str() {
        "" => String::new(),
        except => format!(", except for {except}"),
    };
    let proxies = used
        .into_iter()
        .map(|used| {
            let by = used.variable.unwrap_or("the configuration");
            format!(
                "{}: {} ({by}){except}",
                used.used_for,
                hide_user(&used.address)
            )
        })
        .collect();
    let unread = context.host.proxies.find_invalid_exceptions(&variable);
    let broken = find_unusable_proxies(&variable).into_iter().chain(unread);
    DoctorFacts {
        machines: (platform.spec().inspect_host)(&HostInspection {
            system: &system,
            accel,
            needs: needs.as_ref().map(|(_, machine)| *machine),
            cancel: &context.cancel,
        }),
        tesseract: ocr::read_version(),
        memory: read_memory(),
        processors: std::thread::available_parallelism().map_or(1, |n| n.get()),
        rooms: measure_folders(args, context),
        needs: needs.map(|(needs, _)| needs),
        proxies,
        broken_proxies: broken
            .map(|text| text.lines().next().unwrap_or_default().into())
            .collect(),
        clock: read_clock(context),
        system,
    }
}

fn detect_system() -> OperatingSystem {
    ["/etc/os-release", "/usr/lib/os-release"]
        .into_iter()
        .find_map(|path| std::fs::read_to_string(path).ok())
        .map_or_else(OperatingSystem::from_target, |text| {
            OperatingSystem::from_os_release(&text)
        })
}

/// `http://…@proxy.example.com:3128`
fn hide_user(address: &str) -> String {
    let Some((user, host)) = address.rsplit_once('@') else {
        return address.into();
    };
    let scheme = user
        .split_once("://")
        .map(|(scheme, _)| format!("{scheme}://"));
    format!("{}…@{host}", scheme.unwrap_or_default())
}

/// Returns the host's memory in bytes, if it has /proc/meminfo (proc_meminfo(5)).
pub fn read_memory() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix("MemTotal:"))?;
    let kib: u64 = line.trim().strip_suffix(" kB")?.trim().parse().ok()?;
    Some(kib << 10)
}

/// Measures free disk space. For a folder that does not exist yet, uses its closest existing
/// parent.
fn measure_folders(args: &cli::DoctorArgs, context: &CommandContext) -> Vec<FolderSpace> {
    let output = args.output.clone().unwrap_or_else(|| "out".into());
    [
        (BuildFolder::Cache, context.cache_folder().ok()),
        (BuildFolder::Output, std::path::absolute(output).ok()),
        (BuildFolder::Temporary, Some(std::env::temp_dir())),
    ]
    .into_iter()
    .filter_map(|(what, folder)| {
        let folder = folder?;
        let there = folder.ancestors().find(|folder| folder.is_dir())?;
        Some(FolderSpace {
            what,
            free: fs4::available_space(there).ok()?,
            volume: identify_volume(there),
            folder: folder.display().to_string(),
        })
    })
    .collect()
}

#[cfg(unix)]
fn identify_volume(folder: &Path) -> u64 {
    use std::os::unix::fs::MetadataExt as _;
    std::fs::metadata(folder).map_or(0, |found| found.dev())
}

/// Identifies a volume by its drive letter.
#[cfg(not(unix))]
fn identify_volume(folder: &Path) -> u64 {
    let first = folder.to_string_lossy().chars().next();
    first.map_or(0, |letter| u64::from(letter.to_ascii_uppercase() as u32))
}

fn read_clock(context: &CommandContext) -> HostClock {
    let newest = [std::env::current_exe().ok(), context.cache_folder().ok()]
        .iter()
        .flatten()
        .filter_map(|path| read_modified(path))
        .max();
    let kept = Path::new("/run/systemd/timesync");
    HostClock {
        now: jiff::Timestamp::now().as_second(),
        newest_file: newest.unwrap_or(0),
        // systemd-timesyncd.service(8): the file exists once the clock was set.
        is_kept: kept.is_dir().then(|| kept.join("synchronized").exists()),
    }
}

/// Returns the modification time of a file, in seconds since 1970.
fn read_modified(path: &Path) -> Option<i64> {
    let time = std::fs::metadata(path)
        .and_then(|found| found.modified())
        .ok()?;
    let since = time.duration_since(UNIX_EPOCH).ok()?;
    i64::try_from(since.as_secs()).ok()
}

/// Estimated bytes of an installed Windows Server with updates; the disk may grow to its full size.
const WINDOWS: u64 = 16 << 30;

/// Returns the requirements of the recipe, with its lock if it exists, and of its VM.
fn collect_needs(path: &Path, context: &CommandContext) -> Result<(RecipeNeeds, HostRequirements)> {
    let asked = RecipeArgs {
        recipe: path.to_path_buf(),
        ..RecipeArgs::default()
    };
    let opened = recipe::open(
        &asked,
        &LockFileArgs::default(),
        RecipePurpose::Explain,
        context,
    )?;
    let recipe = &opened.recipe;
    let machine = &recipe.machine;
    let holds = inputs::open_lookup(context);
    let missing: u64 = recipe
        .inputs()
        .filter_map(|input| input.origin()?.locked.as_ref())
        .filter(|locked| !holds(&locked.digest))
        .map(|locked| locked.size)
        .sum();
    let data = machine.disk_size.min(WINDOWS);
    let needs = RecipeNeeds {
        memory: machine.memory,
        processors: usize::try_from(machine.cpus).unwrap_or(1),
        // The sealed disk grows beside its layers.
        cache: missing + data,
        output: data + estimate(data, &recipe.outputs).most,
    };
    Ok((needs, machine.into()))
}
