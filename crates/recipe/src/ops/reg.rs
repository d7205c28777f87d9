//! Renders registry data as arguments of `reg.exe`, or as `.reg` files if arguments cannot
//! represent it.
//!
//! A file is UTF-16LE with a byte order mark and `Windows Registry Editor Version 5.00` (Microsoft:
//! Distribute registry changes by using a .reg file). In this form, deleting something that does
//! not exist is not an error.

use crate::{RegistryKey, RegistryValueData};

/// Returns `/t` and `/d` of `reg.exe add`; `None` if the data cannot be passed as an argument.
pub(crate) fn render_arguments(data: &RegistryValueData) -> Option<(&'static str, String)> {
    let (kind, text) = match data {
        RegistryValueData::Sz(text) => ("REG_SZ", text.clone()),
        RegistryValueData::ExpandSz(text) => ("REG_EXPAND_SZ", text.clone()),
        // `reg.exe` splits the strings at the two characters `\0`.
        RegistryValueData::MultiSz(list) if list.iter().any(|s| s.contains('\\')) => return None,
        RegistryValueData::MultiSz(list) => ("REG_MULTI_SZ", list.join("\\0")),
        RegistryValueData::Dword(n) => ("REG_DWORD", n.to_string()),
        RegistryValueData::Qword(n) => ("REG_QWORD", n.to_string()),
        RegistryValueData::Binary(bytes) => ("REG_BINARY", hex::encode(bytes)),
        RegistryValueData::Absent => return None,
    };
    Some((kind, text))
}

/// Checks that a registry value can have this data.
pub(crate) fn check(data: &RegistryValueData) -> Result<(), String> {
    match data {
        RegistryValueData::Sz(text) | RegistryValueData::ExpandSz(text) if text.contains('\0') => {
            Err("the string contains a NUL, which terminates it".to_owned())
        }
        RegistryValueData::MultiSz(list) if list.iter().any(|text| text.contains('\0')) => {
            Err("one of the strings contains a NUL, which terminates it".to_owned())
        }
        RegistryValueData::MultiSz(list) if list.iter().any(String::is_empty) => {
            Err("one of the strings is empty, which terminates the list".to_owned())
        }
        _ => Ok(()),
    }
}

/// Renders a `.reg` file that sets or deletes one value, or deletes the key if `name` is `None` and
/// the data is `Absent`. Lines end with CRLF.
pub(crate) fn render_file(
    key: &RegistryKey,
    name: Option<&str>,
    data: &RegistryValueData,
) -> String {
    let head = "Windows Registry Editor Version 5.00\r\n\r\n";
    let long = key.to_long();
    if *data == RegistryValueData::Absent && name.is_none() {
        return format!("{head}[-{long}]\r\n\r\n");
    }
    let name = match name {
        None => "@".to_owned(),
        Some(name) => quote_string(name),
    };
    let data = render_data(data, name.chars().count() + 1);
    format!("{head}[{long}]\r\n{name}={data}\r\n\r\n")
}

fn render_data(data: &RegistryValueData, column: usize) -> String {
    match data {
        RegistryValueData::Absent => "-".to_owned(),
        RegistryValueData::Dword(n) => format!("dword:{n:08x}"),
        RegistryValueData::Sz(text) if !text.chars().any(char::is_control) => quote_string(text),
        RegistryValueData::Sz(text) => render_bytes("hex(1):", &encode_utf16(&[text]), column),
        RegistryValueData::ExpandSz(text) => {
            render_bytes("hex(2):", &encode_utf16(&[text]), column)
        }
        RegistryValueData::MultiSz(list) => {
            let mut all = encode_utf16(&list.iter().collect::<Vec<_>>());
            all.extend([0, 0]);
            render_bytes("hex(7):", &all, column)
        }
        RegistryValueData::Qword(n) => render_bytes("hex(b):", &n.to_le_bytes(), column),
        RegistryValueData::Binary(raw) => render_bytes("hex:", raw, column),
    }
}

fn quote_string(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', r"\\").replace('"', "\\\""))
}

/// Encodes each string in UTF-16LE with its NUL.
fn encode_utf16(strings: &[&String]) -> Vec<u8> {
    strings
        .iter()
        .flat_map(|s| s.encode_utf16().chain([0]))
        .flat_map(u16::to_le_bytes)
        .collect()
}

/// Renders hex pairs, with lines broken before column 80 by a backslash, as Registry Editor does.
fn render_bytes(prefix: &str, bytes: &[u8], column: usize) -> String {
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
