//! `winimg doctor`: looks at this host. What is made of it: [`crate::doctor`].

use std::path::Path;
use std::time::UNIX_EPOCH;

use crate::cli::{self, LockArgs, RecipeArgs};
use crate::doctor::{
    Clock, Configuration, Facts, Machines, Needs, Place, Report, Room, Setting, System, Trouble,
    judge,
};
use crate::export::estimate;
use winimg_base::error::{Error, Kind, Result};
use winimg_base::io::without_secrets;
use winimg_machine::vm::hyperv::{HyperV, Need};
use winimg_machine::vm::{Accel, Platform, screen::ocr};
use winimg_supply::fetch::broken_proxies;

use super::{Context, host, hypervisor, inputs, print, print_json, recipe};

pub fn run(args: &cli::Doctor, context: &Context) -> Result<()> {
    let platform = hypervisor::platform(&args.hypervisor, context)?;
    let accel = hypervisor::accel(args.accel, context);
    let needs = args
        .recipe
        .as_deref()
        .map(|path| needs(path, context))
        .transpose()?;
    let system = system();
    let report = Report {
        schema: 1,
        winimg: env!("CARGO_PKG_VERSION").into(),
        system: system.name.clone(),
        configuration: configuration(&context.host),
        checks: judge(&facts(system, platform, accel, needs, args, context)),
    };
    match args.json {
        true => print_json(&serde_json::json!(report))?,
        false => print(&report.text())?,
    }
    match report.missing() {
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

fn configuration(host: &host::Configured) -> Configuration {
    let files = host.files.iter().map(|file| file.display().to_string());
    let settings = host.said.settings.iter().map(|setting| Setting {
        key: setting.path.clone(),
        value: setting.value.clone(),
        from: setting.origin.clone(),
    });
    Configuration {
        files: files.collect(),
        settings: settings.collect(),
    }
}

fn facts(
    system: System,
    platform: Platform,
    accel: Accel,
    needs: Option<Needs>,
    args: &cli::Doctor,
    context: &Context,
) -> Facts {
    let variable = |name: &str| std::env::var(name).ok();
    let (used, except) = context.host.proxies.used(&variable);
    let except = match except.as_str() {
        "" => String::new(),
        except => format!(", but not for {except}"),
    };
    let proxy = |used: winimg_supply::fetch::Used| {
        let by = used.variable.unwrap_or("the configuration");
        format!(
            "{}: {} ({by}){except}",
            used.used_for,
            without_user(&used.address)
        )
    };
    let unread = context.host.proxies.unread(&variable);
    let broken = broken_proxies(&variable).into_iter().chain(unread);
    Facts {
        machines: match platform {
            Platform::Qemu => qemu(accel, context),
            Platform::HyperV => hyperv(accel, context),
        },
        qemu_img: qemu_img(),
        tesseract: ocr::version(),
        memory: memory(),
        processors: std::thread::available_parallelism().map_or(1, |n| n.get()),
        rooms: rooms(args, context),
        needs,
        proxies: used.into_iter().map(proxy).collect(),
        broken_proxies: broken
            .map(|text| text.lines().next().unwrap_or_default().into())
            .collect(),
        clock: clock(context),
        system,
    }
}

fn system() -> System {
    let mut places = ["/etc/os-release", "/usr/lib/os-release"].into_iter();
    let text = places.find_map(|path| std::fs::read_to_string(path).ok());
    text.map_or_else(System::without_os_release, |text| {
        System::of_os_release(&text)
    })
}

/// `http://…@proxy.example.com:3128`
fn without_user(address: &str) -> String {
    let Some((user, host)) = address.rsplit_once('@') else {
        return address.into();
    };
    let scheme = user
        .split_once("://")
        .map(|(scheme, _)| format!("{scheme}://"));
    format!("{}…@{host}", scheme.unwrap_or_default())
}

fn qemu_img() -> Option<String> {
    let mut tool = std::process::Command::new("qemu-img");
    without_secrets(&mut tool);
    let output = tool.arg("--version").output().ok()?;
    let text = String::from_utf8_lossy(&output.stdout);
    text.lines().next().map(str::to_owned)
}

fn hyperv(accel: Accel, context: &Context) -> Machines {
    let found = match HyperV::find().and_then(|found| found.examine(accel, &context.cancel)) {
        Ok(found) => found,
        Err(error) => return Machines::NoHyperV(Trouble::from(&error)),
    };
    let (mut has, mut lacks) = (Vec::new(), Vec::new());
    for need in found.needs {
        match need {
            Need::Has(what) => has.push(what),
            Need::Lacks { what, cure } => lacks.push((what.to_owned(), cure.to_owned())),
        }
    }
    Machines::HyperV {
        host: found.host,
        has,
        lacks,
        remarks: found.remarks,
    }
}

#[cfg(not(unix))]
fn qemu(_: Accel, _: &Context) -> Machines {
    let problem = winimg_base::problem::Problem::new("winimg does not start it on a Windows host");
    Machines::NoQemu(Trouble {
        problem: Box::new(problem.cure("leave --hypervisor away for Hyper-V")),
        is_absent: false,
    })
}

/// What starts here, with each firmware, and what machines have that ask for it.
#[cfg(unix)]
fn qemu(accel: Accel, context: &Context) -> Machines {
    use crate::doctor::Started;
    use winimg_machine::vm::Hypervisor as _;
    use winimg_machine::vm::qemu::{Qemu, firmware, tpm};
    use winimg_recipe::recipe::Firmware;

    let qemu = match Qemu::find() {
        Ok(qemu) => qemu,
        Err(error) => return Machines::NoQemu(Trouble::from(&error)),
    };
    let started = |firmware| match qemu.probe(accel, firmware, &context.cancel) {
        Ok(probe) => Ok(Started {
            version: probe.version,
            accel: probe.accel,
            remarks: probe.remarks,
        }),
        Err(error) => Err(Trouble::from(&error)),
    };
    let secure_boot = firmware::find(&firmware::Places::system(), true);
    Machines::Qemu {
        firmware: vec![
            ("UEFI", started(Firmware::Uefi)),
            ("BIOS", started(Firmware::Bios)),
        ],
        kvm: kvm(accel),
        secure_boot: secure_boot
            .map(|pair| pair.code.display().to_string())
            .map_err(|error| Trouble::from(&error)),
        swtpm: tpm::find()
            .map(|program| format!("swtpm {}", program.version))
            .map_err(|error| Trouble::from(&error)),
    }
}

#[cfg(unix)]
fn kvm(accel: Accel) -> crate::doctor::Kvm {
    use crate::doctor::Kvm;

    if !cfg!(target_os = "linux") || !matches!(accel, Accel::Auto | Accel::Kvm) {
        return Kvm::Elsewhere;
    }
    let opened = std::fs::OpenOptions::new()
        .read(true)
        .write(true)
        .open("/dev/kvm");
    match opened.map_err(|e| e.kind()) {
        Ok(_) => Kvm::Usable,
        Err(std::io::ErrorKind::PermissionDenied) => Kvm::Denied,
        Err(_) => Kvm::Absent,
    }
}

/// Bytes, where the system says it in a file (proc_meminfo(5)).
pub fn memory() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix("MemTotal:"))?;
    let kib: u64 = line.trim().strip_suffix(" kB")?.trim().parse().ok()?;
    Some(kib << 10)
}

/// Of folders that are not there yet those above them count.
fn rooms(args: &cli::Doctor, context: &Context) -> Vec<Room> {
    let output = args.output.clone().unwrap_or_else(|| "out".into());
    let all = [
        (Place::Cache, context.cache_folder().ok()),
        (Place::Output, std::path::absolute(output).ok()),
        (Place::Temporary, Some(std::env::temp_dir())),
    ];
    let room = |(what, folder): (Place, Option<std::path::PathBuf>)| {
        let folder = folder?;
        let there = folder.ancestors().find(|folder| folder.is_dir())?;
        Some(Room {
            what,
            free: fs4::available_space(there).ok()?,
            volume: volume(there),
            folder: folder.display().to_string(),
        })
    };
    all.into_iter().filter_map(room).collect()
}

#[cfg(unix)]
fn volume(folder: &Path) -> u64 {
    use std::os::unix::fs::MetadataExt as _;
    std::fs::metadata(folder).map_or(0, |found| found.dev())
}

/// By the letter of the drive.
#[cfg(not(unix))]
fn volume(folder: &Path) -> u64 {
    let first = folder.to_string_lossy().chars().next();
    first.map_or(0, |letter| u64::from(letter.to_ascii_uppercase() as u32))
}

fn clock(context: &Context) -> Clock {
    let written = |path: &Path| {
        let time = std::fs::metadata(path)
            .and_then(|found| found.modified())
            .ok()?;
        let since = time.duration_since(UNIX_EPOCH).ok()?;
        i64::try_from(since.as_secs()).ok()
    };
    let files = [std::env::current_exe().ok(), context.cache_folder().ok()];
    let newest = files
        .iter()
        .flatten()
        .filter_map(|path| written(path))
        .max();
    let kept = Path::new("/run/systemd/timesync");
    Clock {
        now: jiff::Timestamp::now().as_second(),
        newest_file: newest.unwrap_or(0),
        // systemd-timesyncd.service(8): the file is there once the clock was set.
        is_kept: kept.is_dir().then(|| kept.join("synchronized").exists()),
    }
}

/// Bytes that an installed Windows Server takes on its disk, servicing included: an estimate, the disk may grow to its whole size.
const WINDOWS: u64 = 16 << 30;

/// What the recipe asks of this host, with its lock if there is one.
fn needs(path: &Path, context: &Context) -> Result<Needs> {
    let asked = RecipeArgs {
        recipe: path.to_path_buf(),
        ..RecipeArgs::default()
    };
    let opened = recipe::open(&asked, &LockArgs::default(), recipe::Look::Explain, context)?;
    let recipe = &opened.recipe;
    let machine = &recipe.machine;
    let holds = inputs::held(context);
    let locked = recipe
        .inputs()
        .filter_map(|input| input.origin()?.locked.as_ref());
    let lacking: u64 = locked
        .filter(|locked| !holds(&locked.digest))
        .map(|locked| locked.size)
        .sum();
    let data = machine.disk_size.min(WINDOWS);
    Ok(Needs {
        memory: machine.memory,
        processors: usize::try_from(machine.cpus).unwrap_or(1),
        secure_boot: machine.secure_boot,
        tpm: machine.tpm,
        // The sealed disk grows beside its layers.
        cache: lacking + data,
        output: data + estimate(data, &recipe.outputs).most,
    })
}
