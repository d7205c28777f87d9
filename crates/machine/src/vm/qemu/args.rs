//! Builds QEMU's argument list from values.
//!
//! Pure: the same plan gives the same text on every host. Sources: QEMU's manual
//! (system/invocation, system/i386/hyperv); comments give the reason for each option. Never uses
//! `-no-reboot`, because Windows Setup restarts by itself.

use std::path::Path;

use super::events::AGENT_PORT;
use super::firmware::FirmwarePair;
use super::rundir::RunDir;
use serde::{Deserialize, Serialize};

use crate::vm::{
    GuestForward, MachinePlan, NetworkAccess, NicModel, PrivateNetwork, StartMode,
    StorageController,
};
use winimg_base::error::{Error, Kind, Result};
use winimg_recipe::Firmware;

/// Names of the drives in QMP.
pub const DISK_DRIVE: &str = "disk0";
pub const INSTALL_DRIVE: &str = "cd0";
/// Names of the CD devices in `eject` and `blockdev-change-medium`.
pub const INSTALL_CD: &str = "install";
pub const ANSWER_CD: &str = "answer";

/// Accelerator and processor model, decided with the canary.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Acceleration {
    /// `kvm`, `tcg`, `hvf`
    pub accel: String,
    /// Value of `-cpu`.
    pub cpu: String,
}

impl Acceleration {
    /// Returns the value of `-accel`.
    pub fn to_argument(&self) -> String {
        match self.accel.as_str() {
            "tcg" => "tcg,thread=multi".to_string(),
            other => other.to_string(),
        }
    }
}

/// Returns all arguments after the program's name.
pub fn build_arguments(
    plan: &MachinePlan,
    how: &Acceleration,
    uefi: Option<&FirmwarePair>,
    dir: &RunDir,
) -> Vec<String> {
    let mut args = QemuArguments::default();
    args.add(
        "-name",
        format!("guest={},debug-threads=on", escape(&plan.name)),
    );
    add_machine(&mut args, plan, how, uefi);
    args.add_nothing_else();
    args.add("-vga", "std");
    add_firmware(&mut args, plan, uefi, dir);
    add_disk(&mut args, plan);
    add_cds(&mut args, &plan.start);
    add_ports(&mut args, dir);
    if plan.tpm {
        add_tpm(&mut args, dir);
    }
    match &plan.start {
        StartMode::Clone { uuid, .. } => args.add("-uuid", uuid),
        StartMode::Install { .. } | StartMode::Boot => add_agent(&mut args, dir),
    }
    args.add_monitor(dir);
    add_network(&mut args, &plan.network);
    // Keep a crashed guest paused, so that its screen can be saved.
    args.add("-action", "panic=pause");
    // Start paused, so that QMP sees every event from the first instruction on.
    args.flag("-S");
    args.0
}

/// A command line, option by option.
#[derive(Default)]
pub struct QemuArguments(pub Vec<String>);

impl QemuArguments {
    pub fn flag(&mut self, option: &str) {
        self.0.push(option.into());
    }

    pub fn add(&mut self, option: &str, value: impl Into<String>) {
        self.flag(option);
        self.0.push(value.into());
    }

    /// Disables default devices, user configuration and the display. The screen is read with
    /// screendump.
    pub fn add_nothing_else(&mut self) {
        self.flag("-nodefaults");
        self.flag("-no-user-config");
        self.add("-display", "none");
    }

    /// Adds the UEFI firmware and the variables in `dir`.
    pub fn add_flash(&mut self, pair: &FirmwarePair, dir: &RunDir) {
        let format = pair.format.name();
        let (code, vars) = (escape_path(&pair.code), escape_path(&dir.variables_file()));
        let chip = format!("if=pflash,unit=0,format={format},readonly=on,file={code}");
        self.add("-drive", chip);
        let chip = format!("if=pflash,unit=1,format={format},file={vars}");
        self.add("-drive", chip);
        if pair.smm {
            self.add("-global", "driver=cfi.pflash01,property=secure,value=on");
        }
    }

    pub fn add_monitor(&mut self, dir: &RunDir) {
        let socket = escape_path(&dir.qmp_socket());
        self.add(
            "-chardev",
            format!("socket,id=qmp,server=on,wait=off,path={socket}"),
        );
        self.add("-mon", "chardev=qmp,mode=control");
    }
}

fn add_machine(
    args: &mut QemuArguments,
    plan: &MachinePlan,
    how: &Acceleration,
    uefi: Option<&FirmwarePair>,
) {
    let smm = if uefi.is_some_and(|p| p.smm) {
        "on"
    } else {
        "off"
    };
    args.add("-machine", format!("q35,smm={smm},hpet=off,vmport=off"));
    args.add("-accel", how.to_argument());
    args.add("-cpu", &how.cpu);
    args.add(
        "-smp",
        format!("cpus={0},sockets=1,cores={0},threads=1", plan.cpus),
    );
    args.add("-m", format!("{}M", plan.memory >> 20));
    // Images are built for UTC; the host's time zone must not affect the guest. Windows expects
    // lost ticks to be caught up slowly.
    args.add("-rtc", "base=utc,clock=host,driftfix=slew");
    if how.accel == "kvm" {
        args.add("-global", "kvm-pit.lost_tick_policy=discard");
    }
    // A sleeping guest would look like a stuck one.
    args.add("-global", "ICH9-LPC.disable_s3=1");
    args.add("-global", "ICH9-LPC.disable_s4=1");
    // Boot only devices with a bootindex, without a menu.
    args.add("-boot", "menu=off,strict=on");
}

fn add_firmware(
    args: &mut QemuArguments,
    plan: &MachinePlan,
    uefi: Option<&FirmwarePair>,
    dir: &RunDir,
) {
    match (plan.firmware, uefi) {
        (Firmware::Uefi, Some(pair)) => args.add_flash(pair, dir),
        // SeaBIOS writes to its debug port what OVMF writes to COM1.
        _ => {
            args.add(
                "-chardev",
                format!(
                    "file,id=bios,append=on,path={}",
                    escape_path(&dir.bios_log())
                ),
            );
            args.add("-device", "isa-debugcon,iobase=0x402,chardev=bios");
        }
    }
}

fn add_disk(args: &mut QemuArguments, plan: &MachinePlan) {
    // cache=unsafe: a build can be repeated, and the file is only read after QEMU has closed it.
    // Trimmed and zeroed blocks are removed from the file.
    args.add(
        "-drive",
        format!(
            "if=none,id={DISK_DRIVE},format=qcow2,cache=unsafe,aio=threads,\
             discard=unmap,detect-zeroes=unmap,file={}",
            escape_path(&plan.disk)
        ),
    );
    // Windows' defrag /L fails on virtio with a discard granularity below 8 KiB (virtio-win issue
    // 1574).
    let (controller, device) = match plan.controller {
        StorageController::Nvme => (None, "nvme,serial=winimg0,discard_granularity=512"),
        StorageController::VirtioBlk => (None, "virtio-blk-pci,discard_granularity=8192"),
        StorageController::Ahci => (None, "ide-hd,bus=ide.0"),
        // In addition to q35's own controller, which has the CDs. Windows has drivers for both, and
        // both firmwares boot from it.
        StorageController::Ide => (Some("piix4-ide"), "ide-hd,bus=hba.0"),
        StorageController::VirtioScsi => (Some("virtio-scsi-pci"), "scsi-hd,bus=hba.0"),
        StorageController::LsiSas => (Some("mptsas1068"), "scsi-hd,bus=hba.0"),
        StorageController::Pvscsi => (Some("pvscsi"), "scsi-hd,bus=hba.0"),
    };
    if let Some(controller) = controller {
        args.add("-device", format!("{controller},id=hba"));
    }
    // The disk before the CD: the firmware falls through to the CD only while the disk is empty.
    args.add(
        "-device",
        format!("{device},id=disk,drive={DISK_DRIVE},bootindex=1"),
    );
}

/// Adds the CD drives. Both contain a disc during an installation; a clone has only the second.
fn add_cds(args: &mut QemuArguments, start: &StartMode) {
    let (install, second) = match start {
        StartMode::Install {
            install_disc,
            answer_disc,
        } => {
            let install = (install_disc.format, install_disc.file.as_path());
            (Some(Some(install)), Some(answer_disc))
        }
        StartMode::Boot => (Some(None), None),
        StartMode::Clone { disc, .. } => (None, disc.as_ref()),
    };
    if let Some(disc) = install {
        add_cd(args, INSTALL_CD, INSTALL_DRIVE, "ide.1", disc, Some(2));
    }
    let second = second.map(|disc| ("raw", disc.as_path()));
    add_cd(args, ANSWER_CD, "cd1", "ide.2", second, None);
}

/// Adds a CD drive on AHCI, which every Windows supports. `disc` is its format and file.
fn add_cd(
    args: &mut QemuArguments,
    id: &str,
    drive: &str,
    bus: &str,
    disc: Option<(&str, &Path)>,
    bootindex: Option<u32>,
) {
    let mut value = format!("if=none,id={drive},media=cdrom,readonly=on");
    if let Some((format, file)) = disc {
        value += &format!(",format={format},file={}", escape_path(file));
    }
    args.add("-drive", value);
    let bootindex = bootindex
        .map(|n| format!(",bootindex={n}"))
        .unwrap_or_default();
    args.add(
        "-device",
        format!("ide-cd,id={id},bus={bus},drive={drive}{bootindex}"),
    );
}

fn add_ports(args: &mut QemuArguments, dir: &RunDir) {
    args.add(
        "-chardev",
        format!(
            "file,id=com1,append=on,path={}",
            escape_path(&dir.serial_log())
        ),
    );
    args.add("-device", "isa-serial,chardev=com1");
    // Reports a crash of a Windows with its driver (virtio-win: pvpanic); others ignore it.
    args.add("-device", "pvpanic");
}

/// Adds a TPM with CRB, the interface of TPM 2.0; TIS is that of 1.2 (TCG: PC Client Platform TPM
/// Profile). Windows has drivers for both.
fn add_tpm(args: &mut QemuArguments, dir: &RunDir) {
    let socket = escape_path(&dir.tpm_socket());
    args.add("-chardev", format!("socket,id=swtpm,path={socket}"));
    args.add("-tpmdev", "emulator,id=tpm0,chardev=swtpm");
    args.add("-device", "tpm-crb,tpmdev=tpm0");
}

fn add_agent(args: &mut QemuArguments, dir: &RunDir) {
    args.add("-device", "virtio-serial-pci,id=channels");
    args.add(
        "-chardev",
        format!(
            "socket,id=agent,server=on,wait=off,path={}",
            escape_path(&dir.agent_socket())
        ),
    );
    // VSERPORT_CHANGE contains the id; the guest agent opens the port by its name.
    args.add(
        "-device",
        format!(
            "virtserialport,bus=channels.0,chardev=agent,id={AGENT_PORT},\
             name=org.qemu.guest_agent.0"
        ),
    );
}

/// Adds the network card, or none: without one Setup neither waits for updates nor shows its
/// network pages. e1000e needs no driver.
fn add_network(args: &mut QemuArguments, network: &NetworkAccess) {
    let (nic, mac) = match network {
        NetworkAccess::None => return args.add("-nic", "none"),
        NetworkAccess::Open => {
            args.add("-netdev", "user,id=net0");
            (NicModel::E1000e, String::new())
        }
        NetworkAccess::Own(own) => {
            args.add("-netdev", own_network(own));
            (own.nic, format!(",mac={}", escape(&own.mac)))
        }
    };
    let model = match nic {
        NicModel::E1000e => "e1000e",
        NicModel::Virtio => "virtio-net-pci",
        NicModel::Vmxnet3 => "vmxnet3",
    };
    args.add("-device", format!("{model},netdev=net0{mac}"));
}

/// Returns the value of `-netdev`. `restrict` blocks the host and its networks, except the
/// forwards. IPv6 is off because QEMU's router would give the guest an address.
fn own_network(own: &PrivateNetwork) -> String {
    let subnet = escape(&own.subnet);
    let restrict = if own.has_way_out { "off" } else { "on" };
    let mut value = format!("user,id=net0,restrict={restrict},ipv6=off,net={subnet}");
    for forward in &own.forwards {
        value += &format!(",guestfwd={}", escape(&render_guest_forward(forward)));
    }
    value
}

/// Maximum bytes of a forward. QEMU silently truncates longer ones (QEMU: net/slirp.c,
/// `slirp_config_str`; observed with 7.2).
const MAX_FORWARD: usize = 1023;

/// Refuses forwards that QEMU would truncate.
pub fn check_forwards(network: &NetworkAccess) -> Result<()> {
    let NetworkAccess::Own(own) = network else {
        return Ok(());
    };
    for forward in &own.forwards {
        let found = render_guest_forward(forward).len();
        if found > MAX_FORWARD {
            let fact = "the command for an address of the clone's network is too long for QEMU";
            return Err(Error::new(Kind::Host, fact)
                .at(forward.to)
                .expected(format!("{MAX_FORWARD} bytes at most"))
                .found(format!("{found} bytes"))
                .cure("use shorter paths for winimg and for its folder of temporary files"));
        }
    }
    Ok(())
}

/// Renders a forward. libslirp splits the command like a shell without starting one
/// (`g_shell_parse_argv` in its `fork_exec`).
fn render_guest_forward(forward: &GuestForward) -> String {
    let command: Vec<String> = forward
        .command
        .iter()
        .map(|word| format!("'{}'", word.replace('\'', r"'\''")))
        .collect();
    format!("tcp:{}-cmd:{}", forward.to, command.join(" "))
}

/// Escapes a value for QEMU's option parser, which ends it at a comma unless the comma is doubled.
fn escape(text: &str) -> String {
    text.replace(',', ",,")
}

/// Escapes a path inside an option's value.
pub fn escape_path(path: &Path) -> String {
    escape(&path.to_string_lossy())
}
