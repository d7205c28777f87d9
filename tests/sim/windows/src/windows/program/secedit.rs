//! secedit.exe: `/configure` with a template of the password policy.
//!
//! Of a template's sections `[Unicode]`, `[Version]` and `[System Access]` are known, of the last the passwords'
//! complexity. Source: Microsoft, secedit /configure; MS-GPSB 2.2.1.1.

use super::Arguments;
use super::small::unknown;
use crate::windows::account;
use crate::windows::process::Process;

pub fn run(p: &mut Process, args: &Arguments) -> u32 {
    let list: Vec<&str> = args.list.iter().map(String::as_str).collect();
    let [
        "/configure",
        "/db",
        database,
        "/cfg",
        template,
        "/areas",
        "SECURITYPOLICY",
        "/quiet",
    ] = list[..]
    else {
        return unknown(p, "secedit", &list.join(" "), 1);
    };
    match configure(p, database, template) {
        Ok(()) => {
            p.print("The task has completed successfully.\nSee log %windir%\\security\\logs\\scesrv.log for detail info.\n");
            0
        }
        Err(why) => {
            p.complain(&format!("{why}\n"));
            1
        }
    }
}

fn configure(p: &Process, database: &str, template: &str) -> Result<(), String> {
    let text = read(p, template)?;
    let mut section = "";
    let mut version = false;
    let mut complex = None;
    for line in text.lines().map(str::trim).filter(|line| !line.is_empty()) {
        if let Some(name) = line.strip_prefix('[') {
            section = name.trim_end_matches(']');
            continue;
        }
        let (name, value) = line.split_once('=').unwrap_or((line, ""));
        match (section, name.trim(), value.trim().trim_matches('"')) {
            ("Unicode", "Unicode", "yes") | ("Version", "Revision", "1") => {}
            ("Version", "signature", value) => version = value == "$CHICAGO$",
            ("System Access", "PasswordComplexity", value @ ("0" | "1")) => {
                complex = Some(value == "1");
            }
            _ => {
                return Err(format!(
                    "{template}: the stand-in does not know: [{section}] {line}"
                ));
            }
        }
    }
    if !version {
        return Err(format!("{template}: it has no signature"));
    }
    let database = p.locate(database).and_then(|file| file.writable());
    let database = database.map_err(|error| error.text())?;
    std::fs::write(database.host, b"winimg stand-in security database")
        .map_err(|e| e.to_string())?;
    match complex {
        Some(wanted) => account::set_complexity(&mut p.machine.registry(), wanted),
        None => Ok(()),
    }
}

/// A template is UTF-16 with a mark, as its `[Unicode]` says.
fn read(p: &Process, template: &str) -> Result<String, String> {
    let found = p.locate(template).and_then(|file| file.existing());
    let found = found.map_err(|error| format!("{template}: {}", error.text()))?;
    let bytes = std::fs::read(found.host).map_err(|e| e.to_string())?;
    let wide = bytes.strip_prefix(&[0xff, 0xfe]);
    let wide = wide.ok_or_else(|| format!("{template}: no UTF-16 with a byte order mark"))?;
    let units: Vec<u16> = wide
        .chunks_exact(2)
        .map(|pair| u16::from_le_bytes([pair[0], pair[1]]))
        .collect();
    String::from_utf16(&units).map_err(|e| format!("{template}: {e}"))
}
