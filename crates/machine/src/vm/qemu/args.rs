//! QEMU's argument list, made from values alone.
//!
//! Pure: the same plan gives the same text on every host. Sources: QEMU's manual (system/invocation, system/i386/hyperv); why each piece is
//! as it is stands beside it. Never `-no-reboot`: Windows Setup restarts by itself.

use std::path::Path;

use super::events::AGENT_PORT;
use super::firmware::Pair;
use super::rundir::RunDir;
use serde::{Deserialize, Serialize};

use crate::vm::{Controller, Forward, MachinePlan, Network, Nic, OwnNetwork, Start};
use winimg_base::error::{Error, Kind, Result};
use winimg_recipe::recipe::Firmware;

/// The drives, as QMP names them.
pub const DISK_DRIVE: &str = "disk0";
pub const INSTALL_DRIVE: &str = "cd0";
/// The CD devices, as `eject` and `blockdev-change-medium` name them.
pub const INSTALL_CD: &str = "install";
pub const ANSWER_CD: &str = "answer";

/// How the processor is run: decided by the canary.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Acceleration {
    /// `kvm`, `tcg`, `hvf`
    pub accel: String,
    /// The value of `-cpu`.
    pub cpu: String,
}

impl Acceleration {
    /// The value of `-accel`.
    pub fn argument(&self) -> String {
        match self.accel.as_str() {
            "tcg" => "tcg,thread=multi".to_string(),
            other => other.to_string(),
        }
    }
}

/// Everything after the program's name.
pub fn arguments(
    plan: &MachinePlan,
    how: &Acceleration,
    uefi: Option<&Pair>,
    dir: &RunDir,
) -> Vec<String> {
    let mut args = Arguments::default();
    args.add(
        "-name",
        format!("guest={},debug-threads=on", escape(&plan.name)),
    );
    machine(&mut args, plan, how, uefi);
    args.add_nothing_else();
    args.add("-vga", "std");
    firmware(&mut args, plan, uefi, dir);
    disk(&mut args, plan);
    cds(&mut args, &plan.start);
    channels(&mut args, dir);
    if plan.tpm {
        tpm(&mut args, dir);
    }
    match &plan.start {
        Start::Clone { uuid, .. } => args.add("-uuid", uuid),
        Start::Install { .. } | Start::Boot => agent(&mut args, dir),
    }
    args.add_monitor(dir);
    network(&mut args, &plan.network);
    // A guest that reports its crash is paused for a picture, instead of being gone with its screen.
    args.add("-action", "panic=pause");
    // Started stopped, so that QMP sees every event from the first instruction on.
    args.flag("-S");
    args.0
}

/// A command line, option by option.
#[derive(Default)]
pub struct Arguments(pub Vec<String>);

impl Arguments {
    pub fn flag(&mut self, option: &str) {
        self.0.push(option.into());
    }

    pub fn add(&mut self, option: &str, value: impl Into<String>) {
        self.flag(option);
        self.0.push(value.into());
    }

    /// Nothing that was not asked for, and no screen on the host: what the guest shows is fetched with screendump.
    pub fn add_nothing_else(&mut self) {
        self.flag("-nodefaults");
        self.flag("-no-user-config");
        self.add("-display", "none");
    }

    /// The UEFI firmware and the variables in `dir`.
    pub fn add_flash(&mut self, pair: &Pair, dir: &RunDir) {
        let format = pair.format.name();
        let (code, vars) = (path(&pair.code), path(&dir.vars()));
        let chip = format!("if=pflash,unit=0,format={format},readonly=on,file={code}");
        self.add("-drive", chip);
        let chip = format!("if=pflash,unit=1,format={format},file={vars}");
        self.add("-drive", chip);
        if pair.smm {
            self.add("-global", "driver=cfi.pflash01,property=secure,value=on");
        }
    }

    pub fn add_monitor(&mut self, dir: &RunDir) {
        let socket = path(&dir.qmp());
        self.add(
            "-chardev",
            format!("socket,id=qmp,server=on,wait=off,path={socket}"),
        );
        self.add("-mon", "chardev=qmp,mode=control");
    }
}

fn machine(args: &mut Arguments, plan: &MachinePlan, how: &Acceleration, uefi: Option<&Pair>) {
    let smm = match uefi.is_some_and(|p| p.smm) {
        true => "on",
        false => "off",
    };
    args.add("-machine", format!("q35,smm={smm},hpet=off,vmport=off"));
    args.add("-accel", how.argument());
    args.add("-cpu", &how.cpu);
    args.add(
        "-smp",
        format!("cpus={0},sockets=1,cores={0},threads=1", plan.cpus),
    );
    args.add("-m", format!("{}M", plan.memory >> 20));
    // Images are made for UTC; the host's own zone must not reach the guest. Lost ticks are caught up slowly, as Windows expects.
    args.add("-rtc", "base=utc,clock=host,driftfix=slew");
    if how.accel == "kvm" {
        args.add("-global", "kvm-pit.lost_tick_policy=discard");
    }
    // A guest that sleeps would look like one that stands still.
    args.add("-global", "ICH9-LPC.disable_s3=1");
    args.add("-global", "ICH9-LPC.disable_s4=1");
    // Only what has a bootindex is booted; no menu to wait for.
    args.add("-boot", "menu=off,strict=on");
}

fn firmware(args: &mut Arguments, plan: &MachinePlan, uefi: Option<&Pair>, dir: &RunDir) {
    match (plan.firmware, uefi) {
        (Firmware::Uefi, Some(pair)) => args.add_flash(pair, dir),
        // SeaBIOS writes to its debug port what OVMF writes to COM1.
        _ => {
            args.add(
                "-chardev",
                format!("file,id=bios,append=on,path={}", path(&dir.bios_log())),
            );
            args.add("-device", "isa-debugcon,iobase=0x402,chardev=bios");
        }
    }
}

fn disk(args: &mut Arguments, plan: &MachinePlan) {
    // cache=unsafe: a build can be made again, and the file is read only after QEMU closed it. Trimmed and zeroed blocks leave the file.
    args.add(
        "-drive",
        format!(
            "if=none,id={DISK_DRIVE},format=qcow2,cache=unsafe,aio=threads,discard=unmap,detect-zeroes=unmap,file={}",
            path(&plan.disk)
        ),
    );
    let on = |controller: &'static str, disk| (Some(controller), disk);
    // Windows' defrag /L fails on virtio with a discard granularity below 8 KiB (virtio-win issue 1574).
    let (controller, device) = match plan.controller {
        Controller::Nvme => (None, "nvme,serial=winimg0,discard_granularity=512"),
        Controller::VirtioBlk => (None, "virtio-blk-pci,discard_granularity=8192"),
        Controller::Ahci => (None, "ide-hd,bus=ide.0"),
        // Beside q35's own controller, which has the CDs: Windows has drivers for both, and both firmwares start from it.
        Controller::Ide => on("piix4-ide", "ide-hd,bus=hba.0"),
        Controller::VirtioScsi => on("virtio-scsi-pci", "scsi-hd,bus=hba.0"),
        Controller::LsiSas => on("mptsas1068", "scsi-hd,bus=hba.0"),
        Controller::Pvscsi => on("pvscsi", "scsi-hd,bus=hba.0"),
    };
    if let Some(controller) = controller {
        args.add("-device", format!("{controller},id=hba"));
    }
    // The disk before the CD: while it is empty the firmware goes on to the CD, and afterwards never returns there.
    args.add(
        "-device",
        format!("{device},id=disk,drive={DISK_DRIVE},bootindex=1"),
    );
}

/// Where Windows is installed, both hold a disc. A clone has the second alone.
fn cds(args: &mut Arguments, start: &Start) {
    let (install, second) = match start {
        Start::Install {
            install_disc,
            answer_disc,
        } => {
            let install = (install_disc.format, install_disc.file.as_path());
            (Some(Some(install)), Some(answer_disc))
        }
        Start::Boot => (Some(None), None),
        Start::Clone { disc, .. } => (None, disc.as_ref()),
    };
    if let Some(disc) = install {
        cd(args, INSTALL_CD, INSTALL_DRIVE, "ide.1", disc, Some(2));
    }
    let second = second.map(|disc| ("raw", disc.as_path()));
    cd(args, ANSWER_CD, "cd1", "ide.2", second, None);
}

/// All CDs on AHCI, which every Windows reads without a driver. `disc`: its format and its file.
fn cd(
    args: &mut Arguments,
    id: &str,
    drive: &str,
    bus: &str,
    disc: Option<(&str, &Path)>,
    bootindex: Option<u32>,
) {
    let mut value = format!("if=none,id={drive},media=cdrom,readonly=on");
    if let Some((format, file)) = disc {
        value += &format!(",format={format},file={}", path(file));
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

fn channels(args: &mut Arguments, dir: &RunDir) {
    args.add(
        "-chardev",
        format!("file,id=com1,append=on,path={}", path(&dir.serial())),
    );
    args.add("-device", "isa-serial,chardev=com1");
    // Tells a crash of a Windows that has its driver (virtio-win: pvpanic); any other ignores it.
    args.add("-device", "pvpanic");
}

/// CRB is the interface that came with TPM 2.0; TIS is that of 1.2 (TCG: PC Client Platform TPM Profile). Windows has drivers for both.
fn tpm(args: &mut Arguments, dir: &RunDir) {
    let socket = path(&dir.tpm());
    args.add("-chardev", format!("socket,id=swtpm,path={socket}"));
    args.add("-tpmdev", "emulator,id=tpm0,chardev=swtpm");
    args.add("-device", "tpm-crb,tpmdev=tpm0");
}

fn agent(args: &mut Arguments, dir: &RunDir) {
    args.add("-device", "virtio-serial-pci,id=channels");
    args.add(
        "-chardev",
        format!(
            "socket,id=agent,server=on,wait=off,path={}",
            path(&dir.agent())
        ),
    );
    // The id is what VSERPORT_CHANGE names; the name is what the guest agent opens.
    args.add(
        "-device",
        format!("virtserialport,bus=channels.0,chardev=agent,id={AGENT_PORT},name=org.qemu.guest_agent.0"),
    );
}

/// No network unless asked: Setup then neither waits for updates nor shows its network pages. e1000e needs no driver.
fn network(args: &mut Arguments, network: &Network) {
    let (nic, mac) = match network {
        Network::None => return args.add("-nic", "none"),
        Network::Open => {
            args.add("-netdev", "user,id=net0");
            (Nic::E1000e, String::new())
        }
        Network::Own(own) => {
            args.add("-netdev", own_network(own));
            (own.nic, format!(",mac={}", escape(&own.mac)))
        }
    };
    let model = match nic {
        Nic::E1000e => "e1000e",
        Nic::Virtio => "virtio-net-pci",
        Nic::Vmxnet3 => "vmxnet3",
    };
    args.add("-device", format!("{model},netdev=net0{mac}"));
}

/// `restrict`: nothing of the host's and nothing behind it, but for the forwards. Without IPv6: its router would give the guest an address.
fn own_network(own: &OwnNetwork) -> String {
    let subnet = escape(&own.subnet);
    let restrict = if own.has_way_out { "off" } else { "on" };
    let mut value = format!("user,id=net0,restrict={restrict},ipv6=off,net={subnet}");
    for forward in &own.forwards {
        value += &format!(",guestfwd={}", escape(&guestfwd(forward)));
    }
    value
}

/// Bytes of a forward that QEMU takes; what is longer it cuts off without a word (QEMU: net/slirp.c, `slirp_config_str`; seen with 7.2).
const LONGEST_FORWARD: usize = 1023;

/// Refuses forwards that QEMU would cut short.
pub fn check_forwards(network: &Network) -> Result<()> {
    let Network::Own(own) = network else {
        return Ok(());
    };
    for forward in &own.forwards {
        let found = guestfwd(forward).len();
        if found > LONGEST_FORWARD {
            let fact = "the command behind an address of the clone's network is too long for QEMU";
            return Err(Error::new(Kind::Host, fact)
                .at(forward.to)
                .expected(format!("{LONGEST_FORWARD} bytes at most"))
                .found(format!("{found} bytes"))
                .cure(
                    "take shorter paths: for winimg itself, and for its folder of temporary files",
                ));
        }
    }
    Ok(())
}

/// libslirp splits the command into words as a shell does, and starts no shell (`g_shell_parse_argv` in its `fork_exec`).
fn guestfwd(forward: &Forward) -> String {
    let quote = |word: &String| format!("'{}'", word.replace('\'', r"'\''"));
    let command: Vec<String> = forward.command.iter().map(quote).collect();
    format!("tcp:{}-cmd:{}", forward.to, command.join(" "))
}

/// QEMU's option parser ends a value at a comma; a doubled one stands for itself.
fn escape(text: &str) -> String {
    text.replace(',', ",,")
}

/// A path inside an option's value.
pub fn path(path: &Path) -> String {
    escape(&path.to_string_lossy())
}
