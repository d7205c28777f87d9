//! The programs of `C:\Windows`: which there are, where their files lie, and what runs for each.

pub mod answers;
pub mod dism;
mod ec2launch;
pub mod icacls;
mod msiexec;
mod net;
mod netsh;
mod pnputil;
mod powershell;
mod processes;
pub mod real;
mod reg;
mod robocopy;
mod sc;
pub mod schtasks;
mod secedit;
mod settings;
mod small;
mod sysprep;
mod text;
mod wevtutil;
mod xcopy;

use super::process::Process;
pub use small::timestamp;

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
    ("attrib.exe", "attrib", text::attrib),
    ("bcdedit.exe", "bcdedit", settings::bcdedit),
    ("cmd.exe", "cmd", |p, args| super::cmd::run(p, &args.line)),
    ("dism.exe", "dism", dism::run),
    ("find.exe", "find", text::find),
    ("findstr.exe", "findstr", text::findstr),
    ("hostname.exe", "hostname", small::hostname),
    ("icacls.exe", "icacls", icacls::run),
    ("msiexec.exe", "msiexec", msiexec::run),
    ("net.exe", "net", net::run),
    ("netsh.exe", "netsh", netsh::run),
    ("ping.exe", "ping", text::ping),
    ("pnputil.exe", "pnputil", pnputil::run),
    ("powercfg.exe", "powercfg", settings::powercfg),
    ("reg.exe", "reg", reg::run),
    ("robocopy.exe", "robocopy", robocopy::robocopy),
    ("sc.exe", "sc", sc::run),
    ("schtasks.exe", "schtasks", schtasks::run),
    ("secedit.exe", "secedit", secedit::run),
    ("shutdown.exe", "shutdown", small::shutdown),
    ("takeown.exe", "takeown", icacls::takeown),
    ("taskkill.exe", "taskkill", processes::taskkill),
    ("tasklist.exe", "tasklist", processes::tasklist),
    ("timeout.exe", "timeout", text::timeout),
    ("wevtutil.exe", "wevtutil", wevtutil::run),
    ("where.exe", "where", text::whereis),
    ("wusa.exe", "wusa", dism::wusa),
    ("xcopy.exe", "xcopy", xcopy::xcopy),
    (
        "Windows/System32/Sysprep/sysprep.exe",
        "sysprep",
        sysprep::run,
    ),
    (
        "Windows/System32/WindowsPowerShell/v1.0/powershell.exe",
        "powershell",
        powershell::run,
    ),
    ("lsass.exe", "service", small::service),
    (
        "Program Files/Windows Defender/MsMpEng.exe",
        "service",
        small::service,
    ),
    ("svchost.exe", "service", small::service),
    ("vssvc.exe", "service", small::service),
    (
        "Windows/servicing/TrustedInstaller.exe",
        "service",
        small::service,
    ),
];

/// Programs that components bring: name in the marker, code.
const COMPONENTS: [(&str, Program); 2] = [
    ("cloudbase-init", super::cloudbase::run),
    ("ec2launch", ec2launch::run),
];

/// Drivers that the image brings: they have to be there for their services to run.
const DRIVERS: [&str; 10] = [
    "atapi.sys",
    "disk.sys",
    "intelide.sys",
    "lsi_sas.sys",
    "storahci.sys",
    "stornvme.sys",
    "storvsc.sys",
    "tcpip.sys",
    "vmbus.sys",
    "vpci.sys",
];

pub fn named(name: &str) -> Option<Program> {
    let brought = COMPONENTS.iter().find(|(known, _)| *known == name);
    PROGRAMS
        .iter()
        .find(|(_, known, _)| *known == name)
        .map(|(_, _, run)| *run)
        .or(brought.map(|(_, run)| *run))
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
