//! The monitor (QEMU: QMP reference): greeting, negotiation, replies in order, errors as QEMU 7.2 words them.
//!
//! Knows the commands that a machine for Windows is driven with; any other "has not been found".

use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::{Map, Value, json};

use crate::disk::Image;
use crate::machine::{Machine, Order};
use crate::script::{Deed, Moment};

/// Class and description.
type Refusal = (&'static str, String);
type Answer = Result<Value, Refusal>;

pub fn serve(machine: &Arc<Machine>, listener: &UnixListener) {
    for stream in listener.incoming().flatten() {
        // One client at a time, as QEMU's socket has it.
        let _ = client(machine, stream);
        machine.set_client(None);
    }
}

fn client(machine: &Machine, mut stream: UnixStream) -> std::io::Result<()> {
    let greeting = json!({"QMP": {
        "version": {"qemu": {"micro": 22, "minor": 2, "major": 7}, "package": "stand-in"}, "capabilities": ["oob"],
    }});
    stream.write_all(format!("{greeting}\r\n").as_bytes())?;
    machine.set_client(Some(stream.try_clone()?));
    let mut negotiated = false;
    for line in BufReader::new(stream).split(b'\n') {
        let line = line?;
        if line.iter().all(u8::is_ascii_whitespace) {
            continue;
        }
        let (reply, ends) = answer(machine, &line, &mut negotiated);
        machine.say(&reply.to_string());
        if ends {
            std::process::exit(0);
        }
    }
    Ok(())
}

/// The reply to one line, and whether QEMU ends after it.
fn answer(machine: &Machine, line: &[u8], negotiated: &mut bool) -> (Value, bool) {
    let generic = |desc: &str| json!({"error": {"class": "GenericError", "desc": desc}});
    let Ok(Value::Object(request)) = serde_json::from_slice::<Value>(line) else {
        return (generic("JSON parse error, invalid input"), false);
    };
    let Some(command) = request.get("execute").and_then(Value::as_str) else {
        return (generic("QMP input lacks member 'execute'"), false);
    };
    if let Some(key) = request
        .keys()
        .find(|k| !["execute", "arguments", "id"].contains(&k.as_str()))
    {
        return (
            generic(&format!("QMP input member '{key}' is unexpected")),
            false,
        );
    }
    let empty = Map::new();
    let given = match request.get("arguments") {
        None => Some(&empty),
        Some(arguments) => arguments.as_object(),
    };
    let done = match given {
        None => Err((
            "GenericError",
            "QMP input member 'arguments' must be an object".into(),
        )),
        Some(given) => negotiated_command(machine, command, &Arguments { given }, negotiated),
    };
    let mut reply = Map::new();
    if let Some(id) = request.get("id") {
        reply.insert("id".into(), id.clone());
    }
    let ends = command == "quit" && done.is_ok();
    match done {
        Ok(value) => reply.insert("return".into(), value),
        Err((class, desc)) => reply.insert("error".into(), json!({"class": class, "desc": desc})),
    };
    (Value::Object(reply), ends)
}

fn negotiated_command(
    machine: &Machine,
    command: &str,
    arguments: &Arguments<'_>,
    negotiated: &mut bool,
) -> Answer {
    let not_found = |desc: String| Err(("CommandNotFound", desc));
    if command == "qmp_capabilities" {
        arguments.only(&["enable"])?;
        return if std::mem::replace(negotiated, true) {
            not_found("Capabilities negotiation is already complete, command ignored".into())
        } else {
            Ok(json!({}))
        };
    }
    if !*negotiated {
        return not_found("Expecting capabilities negotiation with 'qmp_capabilities'".into());
    }
    let mut ignored = false;
    let moments = [
        (Moment::Qmp, true),
        (
            Moment::Disc,
            matches!(command, "eject" | "blockdev-change-medium"),
        ),
    ];
    for (moment, here) in moments {
        let faults = if here {
            machine.moment(moment, command)
        } else {
            Vec::new()
        };
        for fault in faults {
            ignored |= fault.deed == Deed::Ignores;
            machine.suffer(&fault);
        }
    }
    if ignored {
        Ok(json!({}))
    } else {
        run(machine, command, arguments)
    }
}

fn run(machine: &Machine, command: &str, arguments: &Arguments<'_>) -> Answer {
    match command {
        "query-status" => {
            arguments.only(&[])?;
            let status = machine.lock().status;
            Ok(json!({"status": status, "singlestep": false, "running": status == "running"}))
        }
        "query-version" => {
            arguments.only(&[])?;
            Ok(json!({"qemu": {"micro": 22, "minor": 2, "major": 7}, "package": "stand-in"}))
        }
        "query-kvm" => Ok(json!({"enabled": machine.config.accel == "kvm", "present": true})),
        "query-blockstats" => {
            arguments.only(&["query-nodes"])?;
            Ok(block_stats(machine))
        }
        "cont" => {
            arguments.only(&[])?;
            machine.change(|s| s.status = "running");
            machine.event("RESUME", Value::Null);
            Ok(json!({}))
        }
        "stop" => {
            arguments.only(&[])?;
            if machine.runs() {
                machine.stop_with("paused");
            }
            Ok(json!({}))
        }
        "system_reset" => {
            arguments.only(&[])?;
            machine.close_port();
            machine.event(
                "RESET",
                json!({"guest": false, "reason": "host-qmp-system-reset"}),
            );
            machine.change(|s| s.order = Order::Reset);
            Ok(json!({}))
        }
        "system_powerdown" => {
            arguments.only(&[])?;
            machine.event("POWERDOWN", Value::Null);
            Ok(json!({}))
        }
        "quit" => {
            arguments.only(&[])?;
            machine.event(
                "SHUTDOWN",
                json!({"guest": false, "reason": "host-qmp-quit"}),
            );
            Ok(json!({}))
        }
        "screendump" => screendump(machine, arguments),
        "send-key" => send_key(machine, arguments),
        "eject" => eject(machine, arguments),
        "blockdev-change-medium" => change_medium(machine, arguments),
        "set-action" => {
            arguments.only(&["reboot", "shutdown", "panic", "watchdog"])?;
            Ok(json!({}))
        }
        other => Err((
            "CommandNotFound",
            format!("The command {other} has not been found"),
        )),
    }
}

/// A command's arguments, judged as QEMU judges them.
struct Arguments<'a> {
    given: &'a Map<String, Value>,
}

impl Arguments<'_> {
    fn only(&self, known: &[&str]) -> Result<(), Refusal> {
        match self.given.keys().find(|key| !known.contains(&key.as_str())) {
            Some(key) => Err(generic(format!("Parameter '{key}' is unexpected"))),
            None => Ok(()),
        }
    }

    fn text(&self, key: &str) -> Result<Option<&str>, Refusal> {
        match self.given.get(key) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text)),
            Some(_) => Err(generic(format!(
                "Invalid parameter type for '{key}', expected: string"
            ))),
        }
    }

    fn needed(&self, key: &str) -> Result<&str, Refusal> {
        self.text(key)?
            .ok_or_else(|| generic(format!("Parameter '{key}' is missing")))
    }

    fn one_of(&self, key: &str, allowed: &[&'static str]) -> Result<Option<&'static str>, Refusal> {
        let Some(text) = self.text(key)? else {
            return Ok(None);
        };
        match allowed.iter().find(|a| **a == text) {
            Some(found) => Ok(Some(found)),
            None => Err(generic(format!(
                "Parameter '{key}' does not accept value '{text}'"
            ))),
        }
    }

    fn switch(&self, key: &str) -> Result<bool, Refusal> {
        match self.given.get(key) {
            None => Ok(false),
            Some(Value::Bool(on)) => Ok(*on),
            Some(_) => Err(generic(format!(
                "Invalid parameter type for '{key}', expected: boolean"
            ))),
        }
    }
}

fn generic(desc: impl Into<String>) -> Refusal {
    ("GenericError", desc.into())
}

fn block_stats(machine: &Machine) -> Value {
    let state = machine.lock();
    let drives = machine.config.drives.iter().filter(|d| d.pflash.is_none());
    let each = drives.map(|drive| {
        let (read, written) = state.moved.get(&drive.id).copied().unwrap_or_default();
        json!({
            "device": drive.id,
            "stats": {
                "rd_bytes": read, "wr_bytes": written, "rd_operations": read >> 16, "wr_operations": written >> 16,
                "flush_operations": 0, "failed_rd_operations": 0, "failed_wr_operations": 0, "wr_highest_offset": written,
            },
        })
    });
    each.collect()
}

fn screendump(machine: &Machine, arguments: &Arguments<'_>) -> Answer {
    arguments.only(&["filename", "device", "head", "format"])?;
    let file = PathBuf::from(arguments.needed("filename")?);
    let format = arguments
        .one_of("format", &["ppm", "png"])?
        .unwrap_or("ppm");
    let screen = machine.lock().screen.clone();
    let bytes = if format == "png" {
        screen.png()
    } else {
        screen.ppm()
    };
    let shown = file.display();
    std::fs::write(&file, bytes).map_err(|e| {
        let text = e.to_string();
        generic(format!(
            "failed to open file '{shown}': {}",
            text.split(" (os").next().unwrap_or(&text)
        ))
    })?;
    Ok(json!({}))
}

/// QKeyCode, as far as keys of one name go (QEMU: qapi/ui.json).
const KEYS: &[&str] = &[
    "up",
    "down",
    "left",
    "right",
    "ret",
    "esc",
    "spc",
    "tab",
    "backspace",
    "delete",
    "home",
    "end",
    "pgup",
    "pgdn",
    "shift",
    "shift_r",
    "ctrl",
    "ctrl_r",
    "alt",
    "alt_r",
    "meta_l",
    "minus",
    "equal",
    "comma",
    "dot",
    "slash",
    "backslash",
    "semicolon",
    "f1",
    "f2",
    "f3",
    "f4",
    "f5",
    "f6",
    "f7",
    "f8",
    "f9",
    "f10",
    "f11",
    "f12",
];

fn send_key(machine: &Machine, arguments: &Arguments<'_>) -> Answer {
    arguments.only(&["keys", "hold-time"])?;
    let keys = arguments
        .given
        .get("keys")
        .ok_or_else(|| generic("Parameter 'keys' is missing"))?;
    let keys = keys
        .as_array()
        .ok_or_else(|| generic("Invalid parameter type for 'keys', expected: array"))?;
    for key in keys {
        let name = key["data"].as_str().unwrap_or_default();
        let plain = name.len() == 1
            && name
                .bytes()
                .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit());
        match key["type"].as_str() {
            Some("qcode") if plain || KEYS.contains(&name) => {}
            Some("qcode") => {
                return Err(generic(format!(
                    "Parameter 'data' does not accept value '{name}'"
                )));
            }
            Some("number") if key["data"].is_u64() => {}
            _ => return Err(generic("Parameter 'type' is missing")),
        }
    }
    machine.note(&format!("keys {}", keys.len()));
    machine.change(|s| s.keys += 1);
    Ok(json!({}))
}

/// The drive that a command is about: only a CD's can change.
fn drive(machine: &Machine, arguments: &Arguments<'_>) -> Result<String, Refusal> {
    let by_id = match (arguments.text("device")?, arguments.text("id")?) {
        (Some(drive), None) => machine
            .config
            .drives
            .iter()
            .find(|d| d.id == drive)
            .ok_or(drive),
        (None, Some(id)) => {
            let device = machine
                .config
                .devices
                .iter()
                .any(|d| d.get("id") == Some(id));
            match (device, machine.config.drive_of(id)) {
                (true, None) => return Err(generic("Device does not have a block device backend")),
                (_, found) => found.ok_or(id),
            }
        }
        _ => return Err(generic("Need exactly one of 'device' and 'id'")),
    };
    let drive = by_id.map_err(|name| ("DeviceNotFound", format!("Device '{name}' not found")))?;
    if drive.cdrom {
        Ok(drive.id.clone())
    } else {
        Err(generic(format!("Device '{}' is not removable", drive.id)))
    }
}

/// A running Windows locks the trays of discs that it uses.
fn unlocked(machine: &Machine, drive: &str, force: bool) -> Result<(), Refusal> {
    let state = machine.lock();
    if !force && state.port_open && state.images.contains_key(drive) {
        Err(generic(format!(
            "Device '{drive}' is locked and force was not specified, wait for tray to open and try again"
        )))
    } else {
        Ok(())
    }
}

fn eject(machine: &Machine, arguments: &Arguments<'_>) -> Answer {
    arguments.only(&["device", "id", "force"])?;
    let drive = drive(machine, arguments)?;
    unlocked(machine, &drive, arguments.switch("force")?)?;
    machine.note(&format!("disc {drive} none"));
    machine.change(|s| s.images.remove(&drive));
    Ok(json!({}))
}

fn change_medium(machine: &Machine, arguments: &Arguments<'_>) -> Answer {
    arguments.only(&[
        "device",
        "id",
        "filename",
        "format",
        "force",
        "read-only-mode",
    ])?;
    let file = Path::new(arguments.needed("filename")?).to_path_buf();
    let format = arguments.text("format")?.unwrap_or("raw").to_string();
    arguments.one_of("read-only-mode", &["retain", "read-only", "read-write"])?;
    if !["raw", "qcow2"].contains(&format.as_str()) {
        return Err(generic(format!("Unknown driver '{format}'")));
    }
    let drive = drive(machine, arguments)?;
    // The new medium is opened first; then the tray is moved.
    let image = Image::open(&file, &format, true).map_err(generic)?;
    unlocked(machine, &drive, arguments.switch("force")?)?;
    let name = file
        .file_name()
        .unwrap_or_default()
        .to_string_lossy()
        .into_owned();
    machine.note(&format!("disc {drive} {name}"));
    machine.change(|s| s.images.insert(drive, (file, image)));
    Ok(json!({}))
}
