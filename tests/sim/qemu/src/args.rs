//! QEMU's command line, refused where QEMU 7.2 refuses it.
//!
//! Knows the options, devices and properties of a machine for Windows, not all of QEMU's: what is not here is "invalid", so an option
//! that is new to winimg has to be looked up and added.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use crate::script::Script;

/// A machine as the command line describes it.
#[derive(Debug, Default)]
pub struct Config {
    pub accel: String,
    pub cpu: String,
    pub drives: Vec<Drive>,
    pub devices: Vec<Device>,
    pub chardevs: BTreeMap<String, Chardev>,
    /// Emulators of a TPM, and the chardev of each.
    pub tpms: BTreeMap<String, String>,
    /// The monitor's chardev.
    pub monitor: Option<String>,
    pub stopped: bool,
}

#[derive(Clone, Debug)]
pub struct Drive {
    /// As given, for messages.
    pub given: String,
    pub id: String,
    pub format: String,
    pub file: Option<PathBuf>,
    pub readonly: bool,
    pub cdrom: bool,
    pub pflash: Option<u32>,
    pub snapshot: bool,
}

#[derive(Clone, Debug)]
pub struct Device {
    pub model: String,
    pub properties: BTreeMap<String, String>,
}

impl Device {
    pub fn get(&self, property: &str) -> Option<&str> {
        self.properties.get(property).map(String::as_str)
    }
}

#[derive(Clone, Debug)]
pub enum Chardev {
    File {
        path: PathBuf,
        append: bool,
    },
    Socket {
        path: PathBuf,
    },
    /// Somebody else listens there.
    Client {
        path: PathBuf,
    },
    Null,
}

impl Config {
    pub fn device(&self, model: &str) -> Option<&Device> {
        self.devices.iter().find(|d| d.model == model)
    }

    /// The drive of a device with this id.
    pub fn drive_of(&self, device: &str) -> Option<&Drive> {
        let device = self.devices.iter().find(|d| d.get("id") == Some(device))?;
        let drive = device.get("drive")?;
        self.drives.iter().find(|d| d.id == drive)
    }
}

/// Models, and the properties of each beside `id`.
const MODELS: &[(&str, &[&str])] = &[
    (
        "nvme",
        &[
            "serial",
            "drive",
            "bootindex",
            "discard_granularity",
            "logical_block_size",
            "physical_block_size",
            "bus",
            "addr",
        ],
    ),
    (
        "virtio-blk-pci",
        &[
            "serial",
            "drive",
            "bootindex",
            "discard_granularity",
            "bus",
            "addr",
            "iothread",
        ],
    ),
    ("virtio-scsi-pci", &["bus", "addr", "iothread"]),
    (
        "scsi-hd",
        &["serial", "drive", "bootindex", "discard_granularity", "bus"],
    ),
    (
        "ide-hd",
        &["serial", "drive", "bootindex", "discard_granularity", "bus"],
    ),
    ("ide-cd", &["drive", "bootindex", "bus"]),
    ("piix4-ide", &["bus", "addr"]),
    ("mptsas1068", &["bus", "addr"]),
    ("pvscsi", &["bus", "addr"]),
    ("isa-debugcon", &["iobase", "chardev"]),
    ("isa-debug-exit", &["iobase", "iosize"]),
    ("isa-serial", &["chardev"]),
    ("tpm-crb", &["tpmdev"]),
    ("tpm-tis", &["tpmdev"]),
    ("virtio-serial-pci", &["bus", "addr"]),
    ("virtserialport", &["bus", "chardev", "name", "nr"]),
    ("e1000e", &["netdev", "mac", "bus", "addr"]),
    ("virtio-net-pci", &["netdev", "mac", "bus", "addr"]),
    ("vmxnet3", &["netdev", "mac", "bus", "addr"]),
    ("pvpanic", &["ioport", "events"]),
    ("pvpanic-pci", &["bus", "addr", "events"]),
    ("i6300esb", &["bus", "addr"]),
    ("virtio-rng-pci", &["bus", "addr", "rng"]),
];

const GLOBALS: &[(&str, &str)] = &[
    ("kvm-pit", "lost_tick_policy"),
    ("ICH9-LPC", "disable_s3"),
    ("ICH9-LPC", "disable_s4"),
    ("cfi.pflash01", "secure"),
];

type Options = Vec<(String, String)>;

/// Reads the whole line; the error is what QEMU writes after its name.
pub fn parse(arguments: &[String], script: &Script) -> Result<Config, String> {
    let mut config = Config::default();
    let mut arguments = arguments.iter();
    while let Some(option) = arguments.next() {
        let plain = option.strip_prefix("--").map(|o| format!("-{o}"));
        let plain = plain.as_deref().unwrap_or(option);
        match plain {
            "-nodefaults" | "-no-user-config" => continue,
            "-S" => {
                config.stopped = true;
                continue;
            }
            "-no-reboot" | "-no-shutdown" | "-snapshot" | "-daemonize" => {
                return Err(format!(
                    "{plain}: no installation of Windows survives this option"
                ));
            }
            _ => {}
        }
        if !OPTIONS.contains(&plain) {
            return Err(format!("{option}: invalid option"));
        }
        let value = arguments
            .next()
            .ok_or_else(|| format!("{option}: requires an argument"))?;
        take(&mut config, plain, value, script).map_err(|why| match why.strip_prefix('!') {
            Some(bare) => bare.to_string(),
            None => format!("{plain} {value}: {why}"),
        })?;
    }
    wire(&config)?;
    Ok(config)
}

const OPTIONS: &[&str] = &[
    "-name", "-machine", "-M", "-accel", "-cpu", "-smp", "-m", "-rtc", "-global", "-boot",
    "-display", "-vga", "-drive", "-device", "-chardev", "-mon", "-nic", "-netdev", "-action",
    "-uuid", "-object", "-tpmdev",
];

/// An error that starts with `!` stands without the option, as some of QEMU's do.
fn take(config: &mut Config, option: &str, value: &str, script: &Script) -> Result<(), String> {
    match option {
        "-name" => known(
            &options(value, "guest"),
            &["guest", "process", "debug-threads"],
        ),
        "-machine" | "-M" => machine(&options(value, "type")),
        "-accel" => {
            config.accel = accel(&options(value, "accel"), script)?;
            Ok(())
        }
        "-cpu" => {
            config.cpu = value.to_string();
            cpu(value, &config.accel)
        }
        "-smp" => smp(&options(value, "cpus")),
        "-m" => memory(value),
        "-rtc" => known(&options(value, "base"), &["base", "clock", "driftfix"]),
        "-global" => global(value),
        "-boot" => known(
            &options(value, "order"),
            &[
                "order",
                "once",
                "menu",
                "strict",
                "splash",
                "splash-time",
                "reboot-timeout",
            ],
        ),
        "-display" | "-vga" | "-nic" | "-uuid" | "-object" => Ok(()),
        "-netdev" => netdev(&options(value, "type")),
        "-action" => action(&options(value, "")),
        "-drive" => drive(config, value),
        "-device" => device(config, value),
        "-chardev" => chardev(config, value),
        "-tpmdev" => tpmdev(config, value),
        _ => {
            let options = options(value, "chardev");
            known(&options, &["chardev", "mode", "pretty"])?;
            if find(&options, "mode") != Some("control") {
                return Err("this stand-in has no monitor but QMP".into());
            }
            config.monitor = find(&options, "chardev").map(String::from);
            Ok(())
        }
    }
}

/// `a,b=c,d=e,,f`: the first one may go without its name.
fn options(value: &str, implied: &str) -> Options {
    let mut parts = vec![String::new()];
    let mut chars = value.chars().peekable();
    while let Some(c) = chars.next() {
        let doubled = c == ',' && chars.next_if_eq(&',').is_some();
        match (c, parts.last_mut()) {
            (',', _) if !doubled => parts.push(String::new()),
            (c, Some(last)) => last.push(c),
            (_, None) => {}
        }
    }
    let named = |(n, part): (usize, String)| match part.split_once('=') {
        Some((key, value)) => (key.to_string(), value.to_string()),
        None if n == 0 => (implied.to_string(), part),
        None => (part, "on".to_string()),
    };
    parts.into_iter().enumerate().map(named).collect()
}

fn find<'a>(options: &'a Options, key: &str) -> Option<&'a str> {
    let found = options.iter().find(|(k, _)| k == key);
    found.map(|(_, value)| value.as_str())
}

fn known(options: &Options, keys: &[&str]) -> Result<(), String> {
    match options.iter().find(|(k, _)| !keys.contains(&k.as_str())) {
        Some((key, _)) => Err(format!("Invalid parameter '{key}'")),
        None => Ok(()),
    }
}

fn is_switch(value: &str) -> bool {
    matches!(value, "on" | "off")
}

fn machine(options: &Options) -> Result<(), String> {
    for (key, value) in options {
        match key.as_str() {
            "type" if matches!(value.as_str(), "q35" | "pc") => {}
            "type" => {
                return Err(
                    "unsupported machine type\nUse -machine help to list supported machines".into(),
                );
            }
            "smm" | "vmport" if is_switch(value) || value == "auto" => {}
            "hpet" | "graphics" if is_switch(value) => {}
            "smm" | "vmport" | "hpet" | "graphics" => {
                return Err(format!("Parameter '{key}' does not accept value '{value}'"));
            }
            _ => return Err(format!("!Property 'pc-q35-7.2-machine.{key}' not found")),
        }
    }
    Ok(())
}

fn accel(options: &Options, script: &Script) -> Result<String, String> {
    let name = find(options, "accel").unwrap_or_default();
    let offered = script.accelerators.iter().any(|a| a == name);
    if !offered && (name != "tcg" || !script.accelerators.is_empty()) {
        return Err(format!("!invalid accelerator {name}"));
    }
    known(options, &["accel", "thread", "tb-size"])?;
    if name != "tcg" && find(options, "thread").is_some() {
        return Err(format!("!Property '{name}-accel.thread' not found"));
    }
    Ok(name.to_string())
}

fn cpu(value: &str, accel: &str) -> Result<(), String> {
    let mut words = value.split(',');
    match words.next().unwrap_or_default() {
        "host" if accel == "tcg" => Err("!CPU model 'host' requires KVM or HVF".into()),
        "host" | "max" | "qemu64" => Ok(()),
        other => Err(format!("!unable to find CPU model '{other}'")),
    }?;
    for word in words {
        let key = word
            .trim_start_matches(['-', '+'])
            .split('=')
            .next()
            .unwrap_or_default();
        if key.starts_with("hv-") && accel != "kvm" {
            return Err(format!("!Hyper-V enlightenment {key} needs KVM"));
        }
        if !key.starts_with("hv-") && !["vmx", "svm", "hypervisor"].contains(&key) {
            return Err(format!("!Property 'host-x86_64-cpu.{key}' not found"));
        }
    }
    Ok(())
}

fn smp(options: &Options) -> Result<(), String> {
    known(
        options,
        &["cpus", "maxcpus", "sockets", "dies", "cores", "threads"],
    )?;
    let number = |key| match find(options, key) {
        None => Ok(1),
        Some(text) => text
            .parse::<u32>()
            .map_err(|_| format!("Parameter '{key}' expects a number")),
    };
    let (cpus, product) = (
        number("cpus")?,
        number("sockets")? * number("cores")? * number("threads")?,
    );
    if cpus == 0 || product != cpus {
        return Err(format!(
            "!Invalid CPU topology: product of the hierarchy must match maxcpus: {product} != maxcpus ({cpus})"
        ));
    }
    Ok(())
}

fn memory(value: &str) -> Result<(), String> {
    let digits = value.strip_suffix(['M', 'G']).unwrap_or(value);
    match digits.parse::<u64>() {
        Ok(n) if n > 0 => Ok(()),
        _ => Err("Parameter 'size' expects a non-negative number below 2^64".into()),
    }
}

fn global(value: &str) -> Result<(), String> {
    let options = options(value, "");
    let pair = match (find(&options, "driver"), find(&options, "property")) {
        (Some(driver), Some(property)) => Some((driver.to_string(), property.to_string())),
        _ => value
            .split_once('=')
            .and_then(|(name, _)| name.rsplit_once('.'))
            .map(|(d, p)| (d.to_string(), p.to_string())),
    };
    let (driver, property) = pair.ok_or("Invalid parameter")?;
    if GLOBALS.iter().any(|(d, p)| *d == driver && *p == property) {
        Ok(())
    } else {
        // QEMU itself only warns and goes on: a global that does nothing is a mistake of ours.
        Err(format!(
            "!warning: global {driver}.{property} has invalid class name"
        ))
    }
}

fn netdev(options: &Options) -> Result<(), String> {
    known(
        options,
        &[
            "type", "id", "restrict", "ipv6", "hostfwd", "guestfwd", "net",
        ],
    )?;
    for (_, rule) in options.iter().filter(|(key, _)| key == "guestfwd") {
        let address = rule
            .strip_prefix("tcp:")
            .and_then(|rest| rest.split_once("-cmd:"))
            .filter(|(address, command)| {
                address.parse::<std::net::SocketAddrV4>().is_ok() && !command.is_empty()
            });
        if address.is_none() {
            return Err(format!("Invalid guest forwarding rule '{rule}'"));
        }
    }
    Ok(())
}

fn action(options: &Options) -> Result<(), String> {
    let values: &[(&str, &[&str])] = &[
        ("reboot", &["reset", "shutdown"]),
        ("shutdown", &["poweroff", "pause"]),
        ("panic", &["pause", "shutdown", "exit-failure", "none"]),
        (
            "watchdog",
            &[
                "reset",
                "shutdown",
                "poweroff",
                "pause",
                "debug",
                "none",
                "inject-nmi",
            ],
        ),
    ];
    for (key, value) in options {
        match values.iter().find(|(k, _)| k == key) {
            Some((_, allowed)) if allowed.contains(&value.as_str()) => {}
            Some(_) => return Err(format!("Parameter '{key}' does not accept value '{value}'")),
            None => return Err(format!("Invalid parameter '{key}'")),
        }
    }
    Ok(())
}

fn drive(config: &mut Config, value: &str) -> Result<(), String> {
    let options = options(value, "file");
    known(
        &options,
        &[
            "if",
            "id",
            "format",
            "file",
            "cache",
            "aio",
            "discard",
            "detect-zeroes",
            "media",
            "readonly",
            "unit",
            "snapshot",
            "werror",
            "rerror",
        ],
    )?;
    for (key, allowed) in [
        ("if", &["none", "pflash"][..]),
        (
            "cache",
            &["none", "writeback", "unsafe", "directsync", "writethrough"],
        ),
        ("aio", &["threads", "native", "io_uring"]),
        ("discard", &["ignore", "unmap", "on", "off"]),
        ("detect-zeroes", &["on", "off", "unmap"]),
        ("media", &["disk", "cdrom"]),
        ("readonly", &["on", "off"]),
        ("snapshot", &["on", "off"]),
        ("werror", &["enospc", "stop", "report", "ignore"]),
        ("rerror", &["stop", "report", "ignore"]),
    ] {
        if let Some(given) = find(&options, key).filter(|given| !allowed.contains(given)) {
            return Err(format!("Parameter '{key}' does not accept value '{given}'"));
        }
    }
    let is_pflash = find(&options, "if") == Some("pflash");
    let unit = find(&options, "unit").unwrap_or("0");
    let drive = Drive {
        given: value.to_string(),
        id: find(&options, "id").unwrap_or_default().to_string(),
        format: find(&options, "format").unwrap_or("raw").to_string(),
        file: find(&options, "file").map(PathBuf::from),
        readonly: find(&options, "readonly") == Some("on"),
        cdrom: find(&options, "media") == Some("cdrom"),
        pflash: is_pflash.then(|| unit.parse().unwrap_or(0)),
        snapshot: find(&options, "snapshot") == Some("on"),
    };
    if !["raw", "qcow2"].contains(&drive.format.as_str()) {
        return Err(format!("Unknown driver '{}'", drive.format));
    }
    let twin = |d: &Drive| {
        (!drive.id.is_empty() && d.id == drive.id) || (is_pflash && d.pflash == drive.pflash)
    };
    if config.drives.iter().any(twin) {
        return Err(format!("Duplicate ID '{}' for drive", drive.id));
    }
    config.drives.push(drive);
    Ok(())
}

fn device(config: &mut Config, value: &str) -> Result<(), String> {
    let options = options(value, "driver");
    let model = find(&options, "driver").unwrap_or_default().to_string();
    let (_, allowed) = MODELS
        .iter()
        .find(|(m, _)| *m == model)
        .ok_or_else(|| format!("'{model}' is not a valid device model name"))?;
    let mut properties = BTreeMap::new();
    for (key, value) in options.into_iter().filter(|(key, _)| key != "driver") {
        if key != "id" && !allowed.contains(&key.as_str()) {
            return Err(format!("Property '{model}.{key}' not found"));
        }
        properties.insert(key, value);
    }
    let device = Device { model, properties };
    if device.model == "nvme" && device.get("serial").is_none() {
        return Err("serial property not set".into());
    }
    config.devices.push(device);
    Ok(())
}

fn chardev(config: &mut Config, value: &str) -> Result<(), String> {
    let options = options(value, "backend");
    let id = find(&options, "id")
        .ok_or("Parameter 'id' is missing")?
        .to_string();
    let path = || {
        find(&options, "path")
            .map(PathBuf::from)
            .ok_or("chardev: no filename given")
    };
    let made = match find(&options, "backend") {
        Some("file") => {
            known(&options, &["backend", "id", "path", "append", "logfile"])?;
            Chardev::File {
                path: path()?,
                append: find(&options, "append") == Some("on"),
            }
        }
        Some("socket") => {
            known(
                &options,
                &["backend", "id", "path", "server", "wait", "logfile"],
            )?;
            match (find(&options, "server"), find(&options, "wait")) {
                (Some("on"), Some("off")) => Chardev::Socket { path: path()? },
                (None, None) => Chardev::Client { path: path()? },
                _ => return Err("this stand-in waits for nobody".into()),
            }
        }
        Some("null") => Chardev::Null,
        other => {
            return Err(format!(
                "'{}' is not a valid char driver name",
                other.unwrap_or_default()
            ));
        }
    };
    match config.chardevs.insert(id.clone(), made) {
        None => Ok(()),
        Some(_) => Err(format!("Duplicate ID '{id}' for chardev")),
    }
}

fn tpmdev(config: &mut Config, value: &str) -> Result<(), String> {
    let options = options(value, "type");
    known(&options, &["type", "id", "chardev"])?;
    if find(&options, "type") != Some("emulator") {
        return Err("this stand-in has no TPM but an emulator".into());
    }
    let named = |key| find(&options, key).map(String::from);
    let id = named("id").ok_or("Parameter 'id' is missing")?;
    let chardev = named("chardev").ok_or("tpm-emulator: parameter 'chardev' is missing")?;
    if !config.chardevs.contains_key(&chardev) {
        return Err(format!("tpm-emulator: tpm chardev '{chardev}' not found"));
    }
    config.tpms.insert(id, chardev);
    Ok(())
}

/// What is named has to be there, and only one may have it.
fn wire(config: &Config) -> Result<(), String> {
    let (mut ids, mut boots, mut used) = (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
    for device in &config.devices {
        let model = &device.model;
        if device.get("id").is_some_and(|id| !ids.insert(id)) {
            return Err(format!(
                "-device {model}: Duplicate ID '{}' for device",
                device.get("id").unwrap_or_default()
            ));
        }
        if let Some(index) = device
            .get("bootindex")
            .filter(|index| !boots.insert(index.to_string()))
        {
            return Err(format!(
                "-device {model}: The bootindex {index} has already been used"
            ));
        }
        // q35's own are there without a device.
        let bus = device.get("bus").and_then(|bus| bus.split_once('.'));
        if let Some((of, _)) = bus
            && !["ide", "pcie"].contains(&of)
            && !config.devices.iter().any(|d| d.get("id") == Some(of))
        {
            return Err(format!(
                "-device {model}: Bus '{}' not found",
                device.get("bus").unwrap_or_default()
            ));
        }
        if let Some(tpm) = device.get("tpmdev")
            && !config.tpms.contains_key(tpm)
        {
            return Err(format!(
                "-device {model}: Property '{model}.tpmdev' can't find value '{tpm}'"
            ));
        }
        for property in ["drive", "chardev"] {
            let Some(name) = device.get(property) else {
                continue;
            };
            let there = match property {
                "drive" => config.drives.iter().any(|d| d.id == name),
                _ => config.chardevs.contains_key(name),
            };
            if !there {
                return Err(format!(
                    "-device {model}: Property '{model}.{property}' can't find value '{name}'"
                ));
            }
            if !used.insert((property, name.to_string())) {
                return Err(format!(
                    "-device {model}: Property '{model}.{property}' can't take value '{name}', it's in use"
                ));
            }
        }
        let drive = device
            .get("drive")
            .and_then(|name| config.drives.iter().find(|d| d.id == name));
        if drive.is_some_and(|d| d.file.is_none()) && model != "ide-cd" {
            return Err(format!(
                "-device {model}: Device needs media, but drive is empty"
            ));
        }
    }
    match &config.monitor {
        Some(name) if !config.chardevs.contains_key(name) => {
            Err(format!("-mon: chardev \"{name}\" not found"))
        }
        _ => Ok(()),
    }
}
