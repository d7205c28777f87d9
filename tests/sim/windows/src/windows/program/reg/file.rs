//! `.reg` files: `reg import` and `reg export`.
//!
//! Accepted are "Windows Registry Editor Version 5.00" in UTF-16LE with a mark or in plain ASCII. A line that makes no
//! sense fails the import (Windows passes over it in silence).

use super::{Done, FINISHED, KINDS, NOT_FOUND, Options, check, long};
use crate::windows::process::Process;
use crate::windows::regf::*;
use crate::windows::registry::{dword_value, sz, text};

const HEADER: &str = "Windows Registry Editor Version 5.00";

pub fn import(p: &Process, options: &Options) -> Done {
    let [path] = options.only()?;
    import_file(p, path)?;
    p.print(FINISHED);
    Ok(())
}

fn import_file(p: &Process, path: &str) -> Done {
    let found = p
        .locate(path)
        .and_then(|found| found.existing())
        .map_err(|error| format!("ERROR: {}", error.text()))?;
    let bytes = std::fs::read(&found.host).map_err(|e| format!("ERROR: {e}"))?;
    let content = match bytes.strip_prefix(&[0xff, 0xfe]) {
        Some(wide) => {
            let units: Vec<u16> = wide
                .chunks_exact(2)
                .map(|b| u16::from_le_bytes([b[0], b[1]]))
                .collect();
            String::from_utf16(&units).map_err(|e| format!("ERROR: {path}: {e}"))?
        }
        None if bytes.is_ascii() => String::from_utf8_lossy(&bytes).into_owned(),
        None => {
            return Err(format!(
                "ERROR: {path} is not UTF-16LE with a byte order mark: its non-ASCII text would be mangled"
            ));
        }
    };
    let logical = content.replace("\\\r\n", "\\\n").replace("\\\n", "\u{1}");
    let mut lines = logical.lines().enumerate();
    if lines.next().is_none_or(|(_, first)| first.trim() != HEADER) {
        return Err("ERROR: The specified file is not a registry script. You can only import binary registry files from within the registry editor.".into());
    }
    let mut current: Option<String> = None;
    let mut registry = p.machine.registry();
    for (at, line) in lines {
        let line = line.trim();
        let fault = |why: &str| format!("ERROR: {path}, line {}: {why}: {line}", at + 1);
        if line.is_empty() || line.starts_with(';') {
            continue;
        }
        if let Some(key) = line
            .strip_prefix('[')
            .and_then(|rest| rest.strip_suffix(']'))
        {
            if let Some(gone) = key.strip_prefix('-') {
                check(&registry, gone)?;
                registry.remove(gone);
                current = None;
            } else {
                check(&registry, key)?;
                registry.make(key).map_err(|_| NOT_FOUND)?;
                current = Some(key.to_owned());
            }
            continue;
        }
        let Some(key) = &current else {
            return Err(fault("a value outside of a key"));
        };
        let (name, data) = entry(line).map_err(|why| fault(&why))?;
        let Ok(key) = registry.make(key) else {
            return Err(NOT_FOUND.into());
        };
        match data {
            Some((kind, data)) => key.set(&name, kind, data),
            None => {
                key.unset(&name);
            }
        }
    }
    Ok(())
}

type Entry = (String, Option<(u32, Vec<u8>)>);

/// `"name"=data`; no data means the value is to be deleted.
fn entry(line: &str) -> Result<Entry, String> {
    let (name, rest) = match line.strip_prefix('@') {
        Some(rest) => (String::new(), rest),
        None => quoted(line).ok_or("not a value")?,
    };
    let data = rest
        .trim_start()
        .strip_prefix('=')
        .ok_or("no equal sign")?
        .trim_start();
    let lower = data.to_ascii_lowercase();
    if data == "-" {
        return Ok((name, None));
    }
    if data.starts_with('"') {
        let (text, after) = quoted(data).ok_or("a string without its end")?;
        return if after.trim().is_empty() {
            Ok((name, Some(sz(&text))))
        } else {
            Err("text after a string".into())
        };
    }
    if let Some(number) = lower.strip_prefix("dword:") {
        let number = u32::from_str_radix(number.trim(), 16).map_err(|_| "not a dword")?;
        return Ok((name, Some(dword_value(number))));
    }
    let hex = lower.strip_prefix("hex").ok_or("unknown data")?;
    let (kind, bytes) = match hex.strip_prefix('(') {
        Some(rest) => {
            let (kind, bytes) = rest.split_once("):").ok_or("unknown data")?;
            (
                u32::from_str_radix(kind, 16).map_err(|_| "not a type")?,
                bytes,
            )
        }
        None => (REG_BINARY, hex.strip_prefix(':').ok_or("unknown data")?),
    };
    if !KINDS.iter().any(|(_, known)| *known == kind) {
        return Err("not a type".into());
    }
    let parts = bytes
        .split([',', '\u{1}', ' '])
        .filter(|part| !part.is_empty());
    let bytes: Option<Vec<u8>> = parts
        .map(|part| u8::from_str_radix(part, 16).ok())
        .collect();
    Ok((name, Some((kind, bytes.ok_or("not hexadecimal bytes")?))))
}

/// A quoted string with its escapes undone, and what follows.
fn quoted(line: &str) -> Option<(String, &str)> {
    let mut out = String::new();
    let mut chars = line.strip_prefix('"')?.char_indices();
    while let Some((at, c)) = chars.next() {
        match c {
            '"' => return Some((out, &line[at + 2..])),
            '\\' => out.push(chars.next()?.1),
            c => out.push(c),
        }
    }
    None
}

pub fn export(p: &Process, options: &Options) -> Done {
    let [path, file] = options.only()?;
    let path = options.key(path);
    let registry = p.machine.registry();
    check(&registry, &path)?;
    let key = registry.key(&path).ok_or(NOT_FOUND)?.clone();
    drop(registry);
    let target = p
        .locate(file)
        .and_then(|found| found.writable())
        .map_err(|error| format!("ERROR: {}", error.text()))?;
    if target.meta.is_some() && !options.flag("y") {
        return Err(format!(
            "File {file} already exists. Overwrite (Yes/No)? (nobody is there to answer: give /y)"
        ));
    }
    let mut out = format!("{HEADER}\r\n\r\n");
    write(&key, &long(&path), &mut out);
    let mut bytes = vec![0xff, 0xfe];
    bytes.extend(utf16(&out));
    std::fs::write(&target.host, bytes).map_err(|e| format!("ERROR: {e}"))?;
    p.print(FINISHED);
    Ok(())
}

fn write(key: &Key, path: &str, out: &mut String) {
    let escape = |text: &str| text.replace('\\', r"\\").replace('"', "\\\"");
    out.push_str(&format!("[{path}]\r\n"));
    for value in &key.values {
        let name = if value.name.is_empty() {
            "@".into()
        } else {
            format!("\"{}\"", escape(&value.name))
        };
        let bytes = value
            .data
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect::<Vec<_>>()
            .join(",");
        let data = match value.kind {
            REG_SZ if value.data == sz(&text(&value.data)).1 => {
                format!("\"{}\"", escape(&text(&value.data)))
            }
            REG_DWORD if value.data.len() == 4 => {
                format!(
                    "dword:{:08x}",
                    u32::from_le_bytes([
                        value.data[0],
                        value.data[1],
                        value.data[2],
                        value.data[3]
                    ])
                )
            }
            REG_BINARY => format!("hex:{bytes}"),
            kind => format!("hex({kind:x}):{bytes}"),
        };
        out.push_str(&format!("{name}={data}\r\n"));
    }
    out.push_str("\r\n");
    key.subkeys
        .values()
        .for_each(|child| write(child, &format!("{path}\\{}", child.name), out));
}
