//! Registry data as arguments of `reg.exe`, and the text of `.reg` files for what cannot travel so.
//!
//! A file is UTF-16LE with a byte order mark and `Windows Registry Editor Version 5.00` (Microsoft: Distribute
//! registry changes by using a .reg file); in that form a deletion of what is not there is no error.

use crate::recipe::{RegistryData, RegistryKey};

/// `/t` and `/d` of `reg.exe add`; `None` when the data cannot travel as an argument.
pub(super) fn arguments(data: &RegistryData) -> Option<(&'static str, String)> {
    let (kind, text) = match data {
        RegistryData::Sz(text) => ("REG_SZ", text.clone()),
        RegistryData::ExpandSz(text) => ("REG_EXPAND_SZ", text.clone()),
        // `reg.exe` parts the strings at the two characters `\0`.
        RegistryData::MultiSz(list) if list.iter().any(|s| s.contains('\\')) => return None,
        RegistryData::MultiSz(list) => ("REG_MULTI_SZ", list.join("\\0")),
        RegistryData::Dword(n) => ("REG_DWORD", n.to_string()),
        RegistryData::Qword(n) => ("REG_QWORD", n.to_string()),
        RegistryData::Binary(bytes) => ("REG_BINARY", hex::encode(bytes)),
        RegistryData::Absent => return None,
    };
    Some((kind, text))
}

/// What no registry value of this kind can hold.
pub(super) fn check(data: &RegistryData) -> Result<(), String> {
    let nul = |text: &String| text.contains('\0');
    match data {
        RegistryData::Sz(text) | RegistryData::ExpandSz(text) if nul(text) => {
            Err("the string holds a NUL, which ends it".to_owned())
        }
        RegistryData::MultiSz(list) if list.iter().any(nul) => {
            Err("one of the strings holds a NUL, which ends it".to_owned())
        }
        RegistryData::MultiSz(list) if list.iter().any(String::is_empty) => {
            Err("one of the strings is empty, which ends the list".to_owned())
        }
        _ => Ok(()),
    }
}

/// The text of a `.reg` file that sets or deletes one value, or deletes the key when `name` is `None` and the data is
/// `Absent`. Lines end with CRLF.
pub(super) fn file(key: &RegistryKey, name: Option<&str>, data: &RegistryData) -> String {
    let head = "Windows Registry Editor Version 5.00\r\n\r\n";
    let long = key.long();
    if *data == RegistryData::Absent && name.is_none() {
        return format!("{head}[-{long}]\r\n\r\n");
    }
    let name = match name {
        None => "@".to_owned(),
        Some(name) => string(name),
    };
    let data = written(data, name.chars().count() + 1);
    format!("{head}[{long}]\r\n{name}={data}\r\n\r\n")
}

fn written(data: &RegistryData, column: usize) -> String {
    match data {
        RegistryData::Absent => "-".to_owned(),
        RegistryData::Dword(n) => format!("dword:{n:08x}"),
        RegistryData::Sz(text) if !text.chars().any(char::is_control) => string(text),
        RegistryData::Sz(text) => bytes("hex(1):", &utf16(&[text]), column),
        RegistryData::ExpandSz(text) => bytes("hex(2):", &utf16(&[text]), column),
        RegistryData::MultiSz(list) => {
            let mut all = utf16(&list.iter().collect::<Vec<_>>());
            all.extend([0, 0]);
            bytes("hex(7):", &all, column)
        }
        RegistryData::Qword(n) => bytes("hex(b):", &n.to_le_bytes(), column),
        RegistryData::Binary(raw) => bytes("hex:", raw, column),
    }
}

fn string(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', r"\\").replace('"', "\\\""))
}

/// Each string in UTF-16LE with its NUL.
fn utf16(strings: &[&String]) -> Vec<u8> {
    strings
        .iter()
        .flat_map(|s| s.encode_utf16().chain([0]))
        .flat_map(u16::to_le_bytes)
        .collect()
}

/// Hex pairs, lines broken before column 80 with a backslash, as Registry Editor writes them.
fn bytes(prefix: &str, bytes: &[u8], column: usize) -> String {
    let mut out = prefix.to_owned();
    let mut column = column + prefix.len();
    for (index, byte) in bytes.iter().enumerate() {
        out.push_str(&format!("{byte:02x}"));
        column += 2;
        if index + 1 < bytes.len() {
            out.push(',');
            column += 1;
            if column > 76 {
                out.push_str("\\\r\n  ");
                column = 2;
            }
        }
    }
    out
}
