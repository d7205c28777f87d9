//! The agent's commands, by name.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};

use super::{Agent, Fields, Refusal, Reply, decode, exec, file, refuse};
use crate::windows::{NT, Power, account, service};

/// The newest QEMU release line whose answers are modelled.
const VERSION: &str = "9.2.0";
const UNSUPPORTED: &str = "this feature or command is not currently supported";

/// All commands, and whether a success is answered.
const COMMANDS: [(&str, bool); 25] = [
    ("guest-exec", true),
    ("guest-exec-status", true),
    ("guest-file-close", true),
    ("guest-file-flush", true),
    ("guest-file-open", true),
    ("guest-file-read", true),
    ("guest-file-seek", true),
    ("guest-file-write", true),
    ("guest-fsfreeze-freeze", true),
    ("guest-fsfreeze-freeze-list", true),
    ("guest-fsfreeze-status", true),
    ("guest-fsfreeze-thaw", true),
    ("guest-get-host-name", true),
    ("guest-get-osinfo", true),
    ("guest-get-time", true),
    ("guest-get-timezone", true),
    ("guest-info", true),
    ("guest-ping", true),
    ("guest-set-time", true),
    ("guest-set-user-password", true),
    ("guest-shutdown", false),
    ("guest-suspend-disk", false),
    ("guest-suspend-ram", false),
    ("guest-sync", true),
    ("guest-sync-delimited", true),
];

/// What the agent still does while file systems are frozen.
const WHILE_FROZEN: [&str; 6] = [
    "guest-ping",
    "guest-info",
    "guest-sync",
    "guest-sync-delimited",
    "guest-fsfreeze-status",
    "guest-fsfreeze-thaw",
];

pub fn run(agent: &mut Agent, name: &str, fields: Fields) -> Result<Reply, Refusal> {
    if !COMMANDS.iter().any(|(known, _)| *known == name) {
        return Err(Refusal {
            class: "CommandNotFound",
            desc: format!("The command {name} has not been found"),
        });
    }
    if agent.frozen && !WHILE_FROZEN.contains(&name) {
        let desc = format!("Command {name} has been disabled: the agent is in frozen state");
        return Err(Refusal {
            class: "CommandNotFound",
            desc,
        });
    }
    match name {
        "guest-sync" => sync(fields).map(Reply::Value),
        "guest-sync-delimited" => sync(fields).map(Reply::Delimited),
        "guest-shutdown" => shutdown(agent, fields),
        "guest-exec" => exec::start(agent, fields).map(Reply::Value),
        "guest-exec-status" => exec::status(agent, fields).map(Reply::Value),
        "guest-set-user-password" => set_password(agent, fields).map(Reply::Value),
        "guest-set-time" => set_time(fields).map(Reply::Value),
        "guest-suspend-disk" | "guest-suspend-ram" => refuse(UNSUPPORTED),
        "guest-fsfreeze-freeze-list" => {
            let mut fields = fields;
            fields.texts("mountpoints")?;
            fields.end()?;
            freeze(agent).map(Reply::Value)
        }
        _ if name.starts_with("guest-file-") => file::run(agent, name, fields).map(Reply::Value),
        _ => {
            fields.end()?;
            plain(agent, name).map(Reply::Value)
        }
    }
}

/// Commands without arguments.
fn plain(agent: &mut Agent, name: &str) -> Result<Value, Refusal> {
    let windows = &agent.windows;
    Ok(match name {
        "guest-ping" => json!({}),
        "guest-info" => {
            let one = |(name, reply): &(&str, bool)| json!({"name": name, "enabled": !agent.frozen || WHILE_FROZEN.contains(name), "success-response": reply});
            json!({"version": VERSION, "supported_commands": COMMANDS.iter().map(one).collect::<Vec<_>>()})
        }
        "guest-get-host-name" => json!({"host-name": windows.computer_name()}),
        "guest-get-osinfo" => osinfo(agent),
        "guest-get-time" => {
            json!(
                SystemTime::now()
                    .duration_since(UNIX_EPOCH)
                    .map_or(0, |now| now.as_nanos() as i64)
            )
        }
        "guest-get-timezone" => {
            let key = r"HKLM\SYSTEM\CurrentControlSet\Control\TimeZoneInformation";
            let registry = windows.machine.registry();
            let bias = registry.dword(key, "Bias").unwrap_or(0) as i32;
            json!({"zone": registry.text(key, "TimeZoneKeyName").unwrap_or_default(), "offset": -bias * 60})
        }
        "guest-fsfreeze-status" => json!(if agent.frozen { "frozen" } else { "thawed" }),
        "guest-fsfreeze-freeze" => return freeze(agent),
        "guest-fsfreeze-thaw" => json!(i32::from(std::mem::take(&mut agent.frozen))),
        _ => return refuse(UNSUPPORTED),
    })
}

fn sync(mut fields: Fields) -> Result<Value, Refusal> {
    let id = fields.number("id")?;
    let id = fields.required("id", id)?;
    fields.end()?;
    Ok(json!(id))
}

fn osinfo(agent: &Agent) -> Value {
    let registry = agent.windows.machine.registry();
    let product = registry.text(NT, "ProductName").unwrap_or_default();
    let build = registry.text(NT, "CurrentBuildNumber").unwrap_or_default();
    let year = product
        .split_whitespace()
        .find(|word| word.len() == 4 && word.parse::<u32>().is_ok())
        .unwrap_or("N/A");
    json!({
        "id": "mswindows",
        "name": "Microsoft Windows",
        "pretty-name": product,
        "version": format!("Microsoft Windows Server {year}"),
        "version-id": year,
        "variant": "server",
        "variant-id": "server",
        "kernel-release": build,
        "kernel-version": "10.0",
        "machine": "x86_64",
    })
}

/// VSS: needs the agent's own provider, which the agent's installer registers.
fn freeze(agent: &mut Agent) -> Result<Value, Refusal> {
    let provider = "QEMU Guest Agent VSS Provider";
    if service::config(&agent.windows.machine.registry(), provider).is_none() {
        return refuse(UNSUPPORTED);
    }
    if let Err(e) = agent.windows.flush() {
        return refuse(format!("failed to add C:\\ to snapshot set: {e}"));
    }
    agent.frozen = true;
    Ok(json!(1))
}

fn shutdown(agent: &Agent, mut fields: Fields) -> Result<Reply, Refusal> {
    let mode = fields.text("mode")?;
    fields.end()?;
    let power = match mode.as_deref() {
        None | Some("powerdown" | "halt") => Power::Shutdown,
        Some("reboot") => Power::Reboot,
        Some(_) => {
            return refuse("Invalid parameter value for 'mode': 'halt', 'powerdown', or 'reboot'");
        }
    };
    agent.windows.machine.ask_power(power, Duration::ZERO);
    Ok(Reply::Nothing)
}

fn set_password(agent: &Agent, mut fields: Fields) -> Result<Value, Refusal> {
    let (user, password, crypted) = (
        fields.text("username")?,
        fields.text("password")?,
        fields.boolean("crypted")?,
    );
    let user = fields.required("username", user)?;
    let password = fields.required("password", password)?;
    let crypted = fields.required("crypted", crypted)?;
    fields.end()?;
    if crypted {
        return refuse(UNSUPPORTED);
    }
    let password = decode(&password)?;
    let Ok(password) = String::from_utf8(password) else {
        return refuse("can't convert 'password': Invalid byte sequence in conversion input");
    };
    if !account::set_password(&mut agent.windows.machine.registry(), &user, &password) {
        return refuse("failed to set password: The user name could not be found.");
    }
    Ok(json!({}))
}

/// The time is taken and judged; the stand-in's clock is the host's.
fn set_time(mut fields: Fields) -> Result<Value, Refusal> {
    let time = fields.number("time")?;
    fields.end()?;
    match time {
        Some(time) if time < 0 => refuse(format!("Invalid parameter '{time}'")),
        _ => Ok(json!({})),
    }
}
