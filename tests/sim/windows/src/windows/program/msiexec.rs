//! msiexec.exe on real packages: Directory, Component, Feature, File with its cabinets, Registry, Environment,
//! ServiceInstall, ServiceControl, LaunchCondition, Upgrade, and the custom actions that only set properties or run a
//! program of the stand-in. A package that needs anything else fails with 1603 and says what in its log.
//!
//! What an installed product owns is remembered below `HKLM\SOFTWARE\winimg-standin\Msi`, so `/x` needs no package.
//! Source: Microsoft, "Command-Line Options" and "Error Codes" of Windows Installer, and its database tables.

mod apply;
mod condition;
mod database;
mod install;
mod plan;
mod remove;

use super::Arguments;
use crate::windows::Power;
use crate::windows::process::Process;
use crate::windows::regf::utf16;
use database::{Database, Properties};
pub use plan::cabinet;

pub const SUCCESS: u32 = 0;
pub const FAILURE: u32 = 1603;
pub const UNKNOWN_PRODUCT: u32 = 1605;
const BUSY: u32 = 1618;
const NO_PACKAGE: u32 = 1619;
const BAD_PACKAGE: u32 = 1620;
const LOG_FAILURE: u32 = 1622;
const BAD_COMMAND: u32 = 1639;
const REBOOT_STARTED: u32 = 1641;
const REBOOT_WANTED: u32 = 3010;
const USER_CANCEL: u32 = 1602;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Action {
    Install,
    Remove,
    Administrative,
}

#[derive(Default)]
struct Command {
    action: Option<(Action, String)>,
    quiet: bool,
    no_restart: bool,
    force_restart: bool,
    log: Option<String>,
    properties: Vec<(String, String)>,
}

/// Lines of a verbose log.
#[derive(Default)]
pub struct Log(String);

impl Log {
    pub fn line(&mut self, text: impl AsRef<str>) {
        self.0.push_str(text.as_ref());
        self.0.push_str("\r\n");
    }
}

pub fn run(p: &mut Process, args: &Arguments) -> u32 {
    let command = match parse(&args.tail) {
        Ok(command) => command,
        Err(odd) => {
            p.complain(&format!("Invalid command line argument. Consult the Windows Installer SDK for detailed command line help: {odd}\n"));
            return BAD_COMMAND;
        }
    };
    let Some((action, target)) = command.action.clone() else {
        return BAD_COMMAND;
    };
    if !command.quiet {
        p.complain("msiexec shows a window here, and nobody is there to click: give /qn\n");
        return USER_CANCEL;
    }
    let log_file = match &command.log {
        None => None,
        Some(path) => match p.locate(path).and_then(|found| found.writable()) {
            Ok(found) => Some(found.host),
            Err(_) => return LOG_FAILURE,
        },
    };
    let machine = p.machine.clone();
    let Ok(_turn) = machine.installer.try_lock() else {
        return BUSY;
    };
    let mut log = Log::default();
    log.line("=== Verbose logging started ===");
    log.line(format!("Command Line: {}", args.tail.trim()));
    let code = act(p, &command, action, &target, &mut log);
    log.line(format!("MainEngineThread is returning {code}"));
    log.line("=== Verbose logging stopped ===");
    if let Some(file) = log_file {
        let mut bytes = vec![0xff, 0xfe];
        bytes.extend(utf16(&log.0));
        if std::fs::write(file, bytes).is_err() {
            return LOG_FAILURE;
        }
    }
    code
}

fn act(p: &mut Process, command: &Command, action: Action, target: &str, log: &mut Log) -> u32 {
    let by_code = target.starts_with('{');
    let database = if by_code {
        None
    } else {
        match open(p, target) {
            Ok(database) => Some(database),
            Err(code) => {
                log.line(format!("Note: 1: {code} 2: {target}"));
                return code;
            }
        }
    };
    let done = match (action, &database) {
        (Action::Remove, Some(database)) => remove::product(p, &database.product_code(), log),
        (Action::Remove, None) => remove::product(p, target, log),
        (Action::Install, Some(database)) => {
            install::product(p, database, properties(p, command), log)
        }
        (Action::Administrative, Some(database)) => {
            install::unpack(p, database, properties(p, command), log)
        }
        (_, None) => Err(UNKNOWN_PRODUCT),
    };
    match done {
        Err(code) => code,
        Ok(false) if command.force_restart => restart(p),
        Ok(false) => SUCCESS,
        Ok(true) if command.no_restart => REBOOT_WANTED,
        Ok(true) => restart(p),
    }
}

fn restart(p: &Process) -> u32 {
    p.machine
        .ask_power(Power::Reboot, std::time::Duration::from_secs(2));
    REBOOT_STARTED
}

fn open(p: &Process, path: &str) -> Result<Database, u32> {
    let found = p
        .locate(path)
        .and_then(|found| found.existing())
        .map_err(|_| NO_PACKAGE)?;
    let dir = found
        .name
        .rsplit_once('\\')
        .map_or("", |(dir, _)| dir)
        .to_owned();
    let bytes = std::fs::read(&found.host).map_err(|_| NO_PACKAGE)?;
    Database::open(bytes, dir).map_err(|_| BAD_PACKAGE)
}

fn properties(p: &Process, command: &Command) -> Properties {
    let mut properties = database::standard(&p.machine.registry());
    if command.no_restart {
        properties.set("REBOOT", "ReallySuppress");
    }
    command
        .properties
        .iter()
        .for_each(|(name, value)| properties.set(name, value));
    properties
}

/// Its own rules: blanks part words, quotes may stand anywhere and `""` inside them is a quote; `PROP="a b"`.
fn words(tail: &str) -> Vec<(String, bool)> {
    let mut found = Vec::new();
    let mut chars = tail.chars().peekable();
    loop {
        while chars.next_if(|c| c.is_whitespace()).is_some() {}
        let Some(&first) = chars.peek() else {
            return found;
        };
        let (mut word, mut quoted) = (String::new(), false);
        while let Some(c) = chars.next_if(|c| quoted || !c.is_whitespace()) {
            match c {
                '"' if quoted && chars.peek() == Some(&'"') => {
                    word.push('"');
                    chars.next();
                }
                '"' => quoted = !quoted,
                c => word.push(c),
            }
        }
        found.push((word, first == '"'));
    }
}

fn parse(tail: &str) -> Result<Command, String> {
    let mut command = Command::default();
    let list = words(tail);
    let mut words = list.iter();
    while let Some((word, quoted)) = words.next() {
        if let Some((name, value)) = word.split_once('=').filter(|_| !word.starts_with('/')) {
            // A property may not begin with a quote, and only public (upper-case) ones may be set.
            let public = !name.is_empty()
                && name
                    .chars()
                    .all(|c| c.is_ascii_uppercase() || c.is_ascii_digit() || "_.".contains(c));
            if *quoted || !public {
                return Err(word.clone());
            }
            command.properties.push((name.to_owned(), value.to_owned()));
            continue;
        }
        let switch =
            word.to_ascii_lowercase()
                .replacen('-', "/", usize::from(word.starts_with('-')));
        let mut operand = || {
            words
                .next()
                .map(|(word, _)| word.clone())
                .ok_or_else(|| word.clone())
        };
        let action = match switch.as_str() {
            "/i" | "/package" => Some(Action::Install),
            "/x" | "/uninstall" => Some(Action::Remove),
            "/a" => Some(Action::Administrative),
            _ => None,
        };
        if let Some(action) = action {
            if command.action.is_some() {
                return Err(word.clone());
            }
            command.action = Some((action, operand()?));
            continue;
        }
        match switch.as_str() {
            "/q" | "/qn" | "/quiet" | "/qn+" | "/qb" | "/qb!" | "/qb-" | "/qr" | "/passive" => {
                command.quiet = true
            }
            "/norestart" => command.no_restart = true,
            "/forcerestart" => command.force_restart = true,
            "/log" => command.log = Some(operand()?),
            level
                if level.starts_with("/l")
                    && level[2..].chars().all(|c| "iwearucmopvx+!*".contains(c)) =>
            {
                command.log = Some(operand()?);
            }
            _ => return Err(word.clone()),
        }
    }
    if command.action.is_none() {
        Err(tail.trim().to_owned())
    } else {
        Ok(command)
    }
}
