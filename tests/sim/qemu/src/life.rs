//! The guest's life: firmware, Setup, Windows; what it says on the serial line and what it does to the disk.
//!
//! The lines are those of OVMF (EDK II: BdsDxe) and of SeaBIOS (boot.c).

use std::fs::OpenOptions;
use std::io::{Read as _, Seek as _, SeekFrom, Write as _};

use crate::disk::{self, Bytes, Image, Windows};
use crate::machine::{DISK, Interrupted, Machine, Order};
use crate::screen::Screen;
use crate::script::{Deed, Moment};

/// How the firmware names the two options, and where each is.
const DISC: &str =
    "Boot0001 \"UEFI QEMU DVD-ROM QM00003 \" from PciRoot(0x0)/Pci(0x1F,0x2)/Sata(0x1,0xFFFF,0x0)";
const PLAIN_DISK: &str = "Boot0002 \"UEFI QEMU NVMe Ctrl winimg0 1\" from PciRoot(0x0)/Pci(0x2,0x0)/NVMe(0x1,00-00-00-00-00-00-00-00)";
const MANAGER: &str = "Boot0004 \"Windows Boot Manager\" from HD(1,GPT,A,0x800,0x82000)/\\EFI\\Microsoft\\Boot\\bootmgfw.efi";
const SHELL: &str = "Boot0003 \"EFI Internal Shell\" from Fv(7CB8BDC9-F8EB-4F34-AAEA-3EE4AF6516A1)/FvFile(7C04A583-9E3E-4F1C-AD65-E05268D0B4D1)";
/// What Windows leaves in the firmware's variables, at their end; only this stand-in reads it.
const ENTRY: &[u8] = b"fake-qemu: Windows Boot Manager";

/// Lives until the process ends.
pub fn live(machine: &Machine) {
    for fault in machine.moment(Moment::PowerOn, "") {
        machine.suffer(&fault);
    }
    loop {
        let Interrupted = boot(machine);
        match machine.change(|s| std::mem::replace(&mut s.order, Order::Nothing)) {
            Order::Off => {
                machine.power_off();
            }
            Order::Reset | Order::Nothing => machine.close_port(),
        }
    }
}

/// One time from the firmware to the next restart.
fn boot(machine: &Machine) -> Interrupted {
    match try_boot(machine) {
        Ok(()) => machine.stand(),
        Err(interrupted) => interrupted,
    }
}

fn try_boot(machine: &Machine) -> Result<(), Interrupted> {
    machine.change(|s| {
        s.screen = Screen::of("TianoCore");
        s.keys = 0;
    });
    machine.pass(20)?;
    for fault in machine.moment(Moment::Boot, "") {
        match fault.deed {
            Deed::Shell => return dead_end(machine, true),
            Deed::NothingBoots => return dead_end(machine, false),
            _ => machine.suffer(&fault),
        };
        machine.pass(0)?;
    }
    let turn = machine.lock().reset_loop;
    if let Some(ms) = turn {
        machine.pass(ms)?;
        machine.reset();
        return Err(Interrupted);
    }
    let has_windows = machine.lock().windows.is_some();
    match (has_windows, disc(machine)) {
        (true, _) => windows(machine),
        (false, Some(asks)) => from_disc(machine, asks),
        (false, None) => {
            machine.note("nothing boots");
            dead_end(machine, is_uefi(machine))
        }
    }
}

fn is_uefi(machine: &Machine) -> bool {
    machine.config.drives.iter().any(|d| d.pflash == Some(0))
}

fn say(machine: &Machine, line: &str) {
    if is_uefi(machine) {
        machine.log("isa-serial", &format!("{line}\r\n"))
    } else {
        machine.log("isa-debugcon", &format!("{line}\n"))
    }
}

fn dead_end(machine: &Machine, shell: bool) -> Result<(), Interrupted> {
    match (is_uefi(machine), shell) {
        (true, true) => say(machine, &format!("BdsDxe: starting {SHELL}")),
        (true, false) => say(machine, "BdsDxe: No bootable option or device was found."),
        (false, _) => say(machine, "No bootable device."),
    }
    machine.change(|s| s.screen = Screen::of("no bootable device"));
    machine.pass(0)
}

/// Whether a disc to boot from is there, and whether it asks for a key: one that does not is an overlay over the medium.
fn disc(machine: &Machine) -> Option<bool> {
    let device = machine
        .config
        .devices
        .iter()
        .find(|d| d.model == "ide-cd" && d.get("bootindex").is_some())?;
    let drive = machine
        .config
        .drives
        .iter()
        .find(|d| Some(d.id.as_str()) == device.get("drive"))?;
    let lies = machine.lock().images.contains_key(&drive.id);
    lies.then(|| is_uefi(machine) && drive.format == "raw")
}

fn moved(machine: &Machine, drive: &str, read: u64, written: u64) {
    machine.change(|s| {
        let sum = s.moved.entry(drive.to_string()).or_default();
        *sum = (sum.0 + read, sum.1 + written);
    });
}

fn from_disc(machine: &Machine, asks: bool) -> Result<(), Interrupted> {
    if is_uefi(machine) {
        say(
            machine,
            &format!("BdsDxe: failed to load {PLAIN_DISK}: Not Found"),
        );
        say(machine, &format!("BdsDxe: loading {DISC}"));
        say(machine, &format!("BdsDxe: starting {DISC}"));
    } else {
        say(
            machine,
            "Booting from Hard Disk...\nBoot failed: not a bootable disk\n",
        );
        say(machine, "Booting from DVD/CD...");
    }
    moved(machine, "cd0", 200 << 10, 0);
    if asks && !key_pressed(machine)? {
        say(
            machine,
            &format!("\r\nBdsDxe: failed to start {DISC}: Time out"),
        );
        return dead_end(machine, true);
    }
    machine.change(|s| s.screen = Screen::of("Windows Setup"));
    moved(machine, "cd0", 6 << 20, 0);
    setup(machine)
}

fn key_pressed(machine: &Machine) -> Result<bool, Interrupted> {
    machine.log("isa-serial", "Press any key to boot from CD or DVD..");
    machine.change(|s| s.keys = 0);
    let pieces = machine.script.install.prompt_ms.div_ceil(50);
    for _ in 0..pieces {
        machine.pass(50)?;
        if machine.lock().keys > 0 {
            machine.log("isa-serial", "\r\n");
            return Ok(true);
        }
        machine.log("isa-serial", ".");
    }
    Ok(false)
}

fn setup(machine: &Machine) -> Result<(), Interrupted> {
    machine.note("setup");
    for fault in machine.moment(Moment::Setup, "") {
        machine.suffer(&fault);
    }
    machine.pass(machine.script.install.stretch_ms)?;
    if let (Some(from), Some(disk)) = (&machine.script.disk, machine.disk()) {
        // The lock is given back while another program writes for us.
        machine.change(|s| s.images.remove(DISK));
        while let Err(why) = disk::apply(from, disk) {
            machine.write_failed(&why);
            machine.pass(50)?;
        }
        match Image::open(disk, "qcow2", false) {
            Ok(image) => {
                machine.change(|s| s.images.insert(DISK.into(), (disk.to_path_buf(), image)))
            }
            Err(why) => {
                machine.write_failed(&why);
                return machine.pass(0);
            }
        };
    }
    moved(machine, "cd0", 300 << 20, 0);
    moved(machine, DISK, 0, 600 << 20);
    for fault in machine.moment(Moment::Applied, "") {
        machine.suffer(&fault);
        machine.pass(0)?;
    }
    let files = machine.script.files.iter();
    let files = files
        .map(|(path, text)| (path.to_lowercase(), Bytes(text.clone().into_bytes())))
        .collect();
    machine.change(|s| {
        s.windows = Some(Windows {
            number: installation(),
            boots: 0,
            files,
        });
        s.fresh = true;
        s.restarts_left = machine.script.install.restarts.max(1);
    });
    restart(machine)
}

/// No two installations are the same.
fn installation() -> u64 {
    let mut bytes = [0; 8];
    let random = std::fs::File::open("/dev/urandom").and_then(|mut f| f.read_exact(&mut bytes));
    random.map_or(u64::from(std::process::id()), |()| {
        u64::from_le_bytes(bytes)
    })
}

fn restart(machine: &Machine) -> Result<(), Interrupted> {
    machine.change(|s| s.restarts_left = s.restarts_left.saturating_sub(1));
    machine.reset();
    Err(Interrupted)
}

fn windows(machine: &Machine) -> Result<(), Interrupted> {
    let from = boot_entry(machine);
    let (boots, left, away) = machine.change(|s| {
        let boots = s.windows.as_mut().map_or(0, |w| {
            w.boots += 1;
            w.boots
        });
        (boots, s.restarts_left, s.stays_away)
    });
    machine.note(&format!("windows {boots} {from}"));
    moved(machine, DISK, 90 << 20, 4 << 20);
    for fault in machine.moment(Moment::Loaded, "") {
        machine.suffer(&fault);
        machine.pass(0)?;
    }
    machine.change(|s| s.screen = Screen::of(&format!("Windows, start {boots}")));
    machine.pass(machine.script.install.stretch_ms)?;
    if left > 0 {
        return restart(machine);
    }
    if away {
        return Ok(());
    }
    for fault in machine.moment(Moment::Port, "") {
        machine.suffer(&fault);
        machine.pass(0)?;
    }
    machine.open_port();
    Ok(())
}

/// Says what the firmware starts, and has Windows enter itself there where it is missing.
fn boot_entry(machine: &Machine) -> &'static str {
    if !is_uefi(machine) {
        say(machine, "Booting from Hard Disk...");
        return "by its boot sector";
    }
    let known = knows_windows(machine).unwrap_or(false);
    let option = if known { MANAGER } else { PLAIN_DISK };
    say(machine, &format!("BdsDxe: loading {option}"));
    say(machine, &format!("BdsDxe: starting {option}"));
    if known {
        "by its boot entry"
    } else {
        "by the fallback path"
    }
}

/// Enters Windows into the variables; whether it was there.
fn knows_windows(machine: &Machine) -> std::io::Result<bool> {
    let drive = machine.config.drives.iter().find(|d| d.pflash == Some(1));
    let Some(path) = drive.and_then(|d| d.file.as_ref()) else {
        return Ok(false);
    };
    let mut file = OpenOptions::new().read(true).write(true).open(path)?;
    let end = file.metadata()?.len().saturating_sub(ENTRY.len() as u64);
    let mut found = vec![0; ENTRY.len()];
    file.seek(SeekFrom::Start(end))?;
    file.read_exact(&mut found)?;
    if found == ENTRY {
        return Ok(true);
    }
    file.seek(SeekFrom::Start(end))?;
    file.write_all(ENTRY)?;
    Ok(false)
}
