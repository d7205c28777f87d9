//! QEMU's monitor: one connection a question, so that the next process finds it free.

use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};

use super::arguments::MONITOR;
use crate::engine::Picture;

const PATIENCE: Duration = Duration::from_secs(20);

/// Connects to a socket of the folder. Its whole path may be longer than an address holds, so the way leads over the open folder.
pub fn connect(folder: &Path, name: &str) -> std::io::Result<UnixStream> {
    let opened = File::open(folder)?;
    UnixStream::connect(format!("/proc/self/fd/{}/{name}", opened.as_raw_fd()))
}

pub struct Monitor {
    lines: BufReader<UnixStream>,
}

impl Monitor {
    pub fn connect(folder: &Path) -> Result<Monitor, String> {
        let stream = connect(folder, MONITOR).and_then(|stream| {
            stream.set_read_timeout(Some(PATIENCE))?;
            Ok(stream)
        });
        let stream = stream.map_err(|e| format!("QEMU's monitor: {e}"))?;
        let mut monitor = Monitor {
            lines: BufReader::new(stream),
        };
        monitor.line()?;
        monitor.ask("qmp_capabilities", json!({}))?;
        Ok(monitor)
    }

    fn line(&mut self) -> Result<Value, String> {
        let mut line = String::new();
        match self.lines.read_line(&mut line) {
            Ok(0) => Err("QEMU's monitor closed".into()),
            Ok(_) => serde_json::from_str(&line).map_err(|e| format!("QEMU's monitor: {e}")),
            Err(e) => Err(format!("QEMU's monitor: {e}")),
        }
    }

    pub fn ask(&mut self, command: &str, arguments: Value) -> Result<Value, String> {
        let message = json!({"execute": command, "arguments": arguments});
        writeln!(self.lines.get_mut(), "{message}").map_err(|e| format!("QEMU's monitor: {e}"))?;
        loop {
            let mut reply = self.line()?;
            if let Some(why) = reply["error"]["desc"].as_str() {
                return Err(format!("{command}: {why}"));
            }
            if reply.get("return").is_some() {
                return Ok(reply["return"].take());
            }
        }
    }
}

/// A binary PPM as QEMU writes it.
pub fn picture(bytes: &[u8]) -> Option<Picture> {
    let mut parts = bytes.splitn(4, |byte| byte.is_ascii_whitespace());
    let magic = parts.next()?;
    let mut number = || std::str::from_utf8(parts.next()?).ok()?.parse::<u32>().ok();
    let (width, height) = (number()?, number()?);
    let rgb = parts.next()?.strip_prefix(b"255\n")?.to_vec();
    let whole = magic == b"P6" && rgb.len() as u64 == u64::from(width) * u64::from(height) * 3;
    whole.then_some(Picture { width, height, rgb })
}

/// QEMU's name of a virtual key (Microsoft: Virtual-Key Codes).
pub fn key(code: u32) -> Option<String> {
    let name = match code {
        0x08 => "backspace",
        0x09 => "tab",
        0x0D => "ret",
        0x10 => "shift",
        0x1B => "esc",
        0x20 => "spc",
        0x25 => "left",
        0x26 => "up",
        0x27 => "right",
        0x28 => "down",
        0x2E => "delete",
        0x30..=0x39 | 0x41..=0x5A => {
            let letter = char::from_u32(code)?;
            return Some(letter.to_ascii_lowercase().to_string());
        }
        0x70..=0x7B => return Some(format!("f{}", code - 0x6F)),
        _ => return None,
    };
    Some(name.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pictures_are_whole_or_none() {
        let two = b"P6\n2 1\n255\nabcdef";
        let found = picture(two).map(|p| (p.width, p.height, p.rgb));
        assert_eq!(found, Some((2, 1, b"abcdef".to_vec())));
        assert_eq!(picture(&two[..two.len() - 1]), None);
        assert_eq!(picture(b""), None);
    }

    #[test]
    fn keys_have_names() {
        let names = [0x26, 0x79, 0x41, 0x0D]
            .map(key)
            .map(Option::unwrap_or_default);
        assert_eq!(names, ["up", "f10", "a", "ret"]);
        assert_eq!(key(0xFF), None);
    }
}
