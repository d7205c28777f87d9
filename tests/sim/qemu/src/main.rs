//! A QEMU without a processor: it takes QEMU's command line, speaks QMP, and has a guest that follows a script.
//!
//! Strict where QEMU is: unknown options, commands and arguments, missing files and images that another process writes are refused. It emulates nothing;
//! what it can't show is what a real guest would do. `docs/faults.md` describes the script.

mod agent;
mod args;
mod disk;
mod life;
mod lock;
mod machine;
mod qmp;
mod screen;
mod script;

use std::fs::OpenOptions;
use std::io::{Read as _, Write as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use args::{Chardev, Config};
use disk::Image;
use machine::{DISK, Machine};
use script::{Canary, Moment, Script};

/// What the boot canary's sector does: `mov al, 31h; out 0F4h, al`.
const CANARY: [u8; 4] = [0xb0, 0x31, 0xe6, 0xf4];

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let Err(why) = run(&arguments) {
        let mut lines = why.lines();
        eprintln!("qemu-system-x86_64: {}", lines.next().unwrap_or_default());
        lines.for_each(|line| eprintln!("{line}"));
        std::process::exit(1);
    }
}

fn run(arguments: &[String]) -> Result<(), String> {
    let script = Script::of_environment()?;
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["--version" | "-version"] => {
            let version = script.version.as_deref().unwrap_or("7.2.22 (stand-in)");
            print(&format!("QEMU emulator version {version}\n"))
        }
        ["-accel", "help"] => {
            let offered = if script.accelerators.is_empty() {
                vec!["tcg".to_string()]
            } else {
                script.accelerators
            };
            print(&format!(
                "Accelerators supported in QEMU binary:\n{}\n",
                offered.join("\n")
            ))
        }
        _ => {
            let config = args::parse(arguments, &script)?;
            if Machine::is_whole(&config) {
                whole(config, script)
            } else {
                canary(config, script)
            }
        }
    }
}

fn print(text: &str) -> Result<(), String> {
    std::io::stdout()
        .write_all(text.as_bytes())
        .map_err(|e| e.to_string())
}

/// The boot canary, or a firmware without a guest.
fn canary(config: Config, script: Script) -> Result<(), String> {
    let fate = script
        .canary
        .get(&config.accel)
        .copied()
        .unwrap_or(Canary::Works);
    if config.device("isa-debug-exit").is_some() {
        match fate {
            Canary::Refused => {
                return Err(format!(
                    "failed to initialize {}: Permission denied",
                    config.accel
                ));
            }
            Canary::Crashes => std::process::abort(),
            Canary::Crawls => loop {
                std::thread::sleep(Duration::from_secs(3600));
            },
            Canary::Works | Canary::FirmwareStops => {}
        }
        let drive = config
            .drives
            .first()
            .and_then(|d| d.file.clone())
            .ok_or("no bootable device")?;
        let mut head = [0; 4];
        let mut file =
            std::fs::File::open(&drive).map_err(|e| format!("{}: {e}", drive.display()))?;
        file.read_exact(&mut head).map_err(|e| e.to_string())?;
        if head != CANARY {
            return Err("this stand-in runs no sector but the canary".into());
        }
        std::process::exit(2 * 0x31 + 1);
    }
    let machine = Arc::new(made(config, script, 0)?);
    let monitor = listen(&machine, machine.config.monitor.as_deref())?;
    if fate == Canary::FirmwareStops {
        let stopping = Arc::clone(&machine);
        std::thread::spawn(move || {
            if stopping.pass(50).is_ok() {
                stopping.stop_with("internal-error");
            }
        });
    }
    qmp::serve(&machine, &monitor);
    Ok(())
}

fn whole(config: Config, script: Script) -> Result<(), String> {
    let number = count()?;
    let machine = made(config, script, number)?;
    machine.note(&format!("machine {number} in {}", machine.dir.display()));
    for fault in machine.moment(Moment::Start, "") {
        machine.suffer(&fault);
    }
    open_images(&machine)?;
    let machine = Arc::new(machine);
    let monitor = listen(&machine, machine.config.monitor.as_deref())?;
    let port = machine
        .config
        .device("virtserialport")
        .map(|d| listen(&machine, d.get("chardev")));
    // A clone has none.
    let port = port.transpose()?;
    if !machine.config.stopped {
        machine.change(|s| s.status = "running");
    }
    let (living, talking) = (Arc::clone(&machine), Arc::clone(&machine));
    std::thread::spawn(move || {
        if living.pass(0).is_ok() {
            life::live(&living);
        }
    });
    if let Some(port) = port {
        std::thread::spawn(move || agent::serve(&talking, &port));
    }
    qmp::serve(&machine, &monitor);
    Ok(())
}

/// Which machine of the script this is, from 1: a file beside the script grows by a byte for each.
fn count() -> Result<u32, String> {
    let Some(script) = std::env::var_os(script::VARIABLE).filter(|v| !v.is_empty()) else {
        return Ok(1);
    };
    let mut name = script;
    name.push(".machines");
    let path = PathBuf::from(name);
    let failed = |e: std::io::Error| format!("{}: {e}", path.display());
    let mut file = OpenOptions::new()
        .create(true)
        .append(true)
        .open(&path)
        .map_err(failed)?;
    file.write_all(b".").map_err(failed)?;
    u32::try_from(file.metadata().map_err(failed)?.len()).map_err(|e| e.to_string())
}

/// Makes the files that the character devices write.
fn made(config: Config, script: Script, number: u32) -> Result<Machine, String> {
    for (id, chardev) in &config.chardevs {
        if let Chardev::Client { path } = chardev {
            let connected = UnixStream::connect(path).map_err(|e| {
                let path = path.display();
                format!("-chardev socket,id={id},path={path}: Failed to connect to '{path}': {e}")
            })?;
            // Open until this process ends.
            std::mem::forget(connected);
        }
        if let Chardev::File { path, append } = chardev {
            let opened = OpenOptions::new()
                .create(true)
                .write(true)
                .truncate(!append)
                .append(*append)
                .open(path);
            opened.map_err(|e| {
                format!(
                    "-chardev file,id={id}: could not open {}: {e}",
                    path.display()
                )
            })?;
        }
    }
    let socket = config
        .monitor
        .as_ref()
        .and_then(|name| config.chardevs.get(name));
    let dir = match socket {
        Some(Chardev::Socket { path }) => path.parent().unwrap_or(Path::new("/")).to_path_buf(),
        _ => std::env::temp_dir(),
    };
    Machine::new(config, script, dir, number).map_err(|e| format!("the transcript: {e}"))
}

fn listen(machine: &Machine, chardev: Option<&str>) -> Result<UnixListener, String> {
    let found = chardev.and_then(|name| machine.config.chardevs.get(name));
    let Some(Chardev::Socket { path }) = found else {
        return Err("this stand-in can only be spoken to over sockets".into());
    };
    UnixListener::bind(path)
        .map_err(|e| format!("Failed to bind socket to {}: {e}", path.display()))
}

/// Opens what lies in the drives, and looks for a Windows on the disk.
fn open_images(machine: &Machine) -> Result<(), String> {
    for drive in &machine.config.drives {
        let Some(file) = &drive.file else { continue };
        let wrong = |why: String| format!("-drive {}: {why}", drive.given);
        if drive.id == DISK {
            let found = disk::load(file, &machine.dir);
            // What can't be read is reported by the opening below, in QEMU's words; a state that is cut is an empty disk.
            let found = found.unwrap_or_else(|why| {
                machine.note(&format!("no Windows: {why}"));
                None
            });
            machine.change(|s| s.windows = found);
        }
        let image =
            Image::open(file, &drive.format, drive.readonly || drive.snapshot).map_err(wrong)?;
        if drive.pflash.is_some() {
            let length = std::fs::metadata(file).map(|m| m.len()).unwrap_or(0);
            if drive.format == "raw" && (length == 0 || !length.is_multiple_of(4096)) {
                return Err("system firmware block device  has invalid size: its size must be a non-zero multiple of 0x1000".into());
            }
        }
        let name = match drive.pflash {
            Some(unit) => format!("pflash{unit}"),
            None => drive.id.clone(),
        };
        machine.change(|s| s.images.insert(name, (file.clone(), image)));
    }
    Ok(())
}
