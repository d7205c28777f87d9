//! The programs of `C:\Windows`: which there are, where their files lie, and what runs for each.

pub mod dism;
mod reg;
mod sc;
mod small;

use super::process::Process;

/// What a program gets of its command line.
pub struct Arguments {
    /// The whole line, its first word as typed.
    pub line: String,
    /// What follows the program's name.
    pub tail: String,
    /// The same, cut by the C runtime's rules.
    pub list: Vec<String>,
}

pub type Program = fn(&mut Process, &Arguments) -> u32;

const SYSTEM32: &str = "Windows/System32";

/// File, name in the marker, code. The first is below `C:\`; a bare file name is in System32.
const PROGRAMS: &[(&str, &str, Program)] = &[
    ("cmd.exe", "cmd", |p, args| super::cmd::run(p, &args.line)),
    ("dism.exe", "dism", dism::run),
    ("hostname.exe", "hostname", small::hostname),
    ("reg.exe", "reg", reg::run),
    ("sc.exe", "sc", sc::run),
    ("shutdown.exe", "shutdown", small::shutdown),
    ("whoami.exe", "whoami", small::whoami),
    ("powershell.exe", "powershell", small::powershell),
    (
        "Windows/System32/WindowsPowerShell/v1.0/powershell.exe",
        "powershell",
        small::powershell,
    ),
    ("svchost.exe", "service", small::service),
    ("vssvc.exe", "service", small::service),
    ("lsass.exe", "service", small::service),
    (
        "Windows/servicing/TrustedInstaller.exe",
        "service",
        small::service,
    ),
];

/// Drivers that the image brings: they have to be there for their services to run.
const DRIVERS: [&str; 4] = ["disk.sys", "storahci.sys", "stornvme.sys", "tcpip.sys"];

pub fn named(name: &str) -> Option<Program> {
    PROGRAMS
        .iter()
        .find(|(_, known, _)| *known == name)
        .map(|(_, _, run)| *run)
}

/// Paths below C: and marker names of every program file.
pub fn files() -> impl Iterator<Item = (String, &'static str)> {
    let path = |file: &str| {
        if file.contains('/') {
            file.to_owned()
        } else {
            format!("{SYSTEM32}/{file}")
        }
    };
    let programs = PROGRAMS
        .iter()
        .map(move |(file, name, _)| (path(file), *name));
    programs.chain(
        DRIVERS
            .iter()
            .map(|driver| (format!("{SYSTEM32}/drivers/{driver}"), "service")),
    )
}
