//! Transfers small files through the agent (`guest-file-*`).
//!
//! Refuses large ones: the agent writes 3 MB/s, a disc is read at 18 and more.

use std::time::Duration;

use qapi::qga::{
    QgaCommand, guest_file_close, guest_file_flush, guest_file_open, guest_file_read,
    guest_file_write,
};

use super::to_error;
use super::wire::{AgentFailure, AgentWire};
use crate::guest::{GuestCommand, GuestExit, check_size, larger_than};
use winimg_base::error::{Error, Kind, Result};

const CHUNK: usize = 48 << 10;
/// Exit code of `cmd` for a missing file; any number that `cmd` itself does not use.
const NOT_THERE: i64 = 44;

pub fn put(wire: &mut AgentWire, path: &str, bytes: &[u8], patience: Duration) -> Result<()> {
    check_size(path, bytes, "the guest agent")?;
    GuestFile::open(wire, path, "w", patience)
        .and_then(|mut file| {
            let written = file.write_all(bytes);
            let closed = file.close();
            written.and(closed)
        })
        .map_err(|trouble| to_error(&format!("writing {path}"), trouble))
}

pub fn get(
    wire: &mut AgentWire,
    path: &str,
    limit: usize,
    patience: Duration,
) -> Result<Option<Vec<u8>>> {
    let doing = format!("reading {path}");
    let mut file = match GuestFile::open(wire, path, "r", patience) {
        Ok(file) => file,
        Err(AgentFailure::Refused(words)) => {
            return if says_not_found(&words) || is_missing(wire, path, patience)? {
                Ok(None)
            } else {
                Err(to_error(&doing, AgentFailure::Refused(words)))
            };
        }
        Err(other) => return Err(to_error(&doing, other)),
    };
    let read = file.read_to(limit);
    let closed = file.close();
    let bytes = read
        .and_then(|bytes| closed.map(|()| bytes))
        .map_err(|trouble| to_error(&doing, trouble))?;
    if bytes.len() > limit {
        return Err(larger_than(limit, path));
    }
    Ok(Some(bytes))
}

/// An open file of the guest.
struct GuestFile<'a> {
    wire: &'a mut AgentWire,
    handle: i64,
    patience: Duration,
}

impl<'a> GuestFile<'a> {
    fn open(
        wire: &'a mut AgentWire,
        path: &str,
        mode: &str,
        patience: Duration,
    ) -> Result<Self, AgentFailure> {
        let deadline = wire.now() + patience;
        let open = guest_file_open {
            path: path.into(),
            mode: Some(mode.into()),
        };
        let handle = wire.ask(&open, deadline)?;
        Ok(Self {
            wire,
            handle,
            patience,
        })
    }

    fn ask<C: QgaCommand>(&mut self, command: &C) -> Result<C::Ok, AgentFailure> {
        self.wire.ask(command, self.wire.now() + self.patience)
    }

    fn write_all(&mut self, bytes: &[u8]) -> Result<(), AgentFailure> {
        let mut rest = bytes;
        while !rest.is_empty() {
            let chunk = &rest[..rest.len().min(CHUNK)];
            let write = guest_file_write {
                handle: self.handle,
                buf_b64: chunk.to_vec(),
                count: None,
            };
            let rendered = self.ask(&write)?.count;
            match usize::try_from(rendered) {
                Ok(count) if (1..=chunk.len()).contains(&count) => rest = &rest[count..],
                _ => return Err(report_miscount(chunk.len(), rendered)),
            }
        }
        let handle = self.handle;
        self.ask(&guest_file_flush { handle }).map(drop)
    }

    /// Reads the whole file, or slightly more than `limit` bytes.
    fn read_to(&mut self, limit: usize) -> Result<Vec<u8>, AgentFailure> {
        let mut bytes = Vec::new();
        loop {
            let piece = self.ask(&guest_file_read {
                handle: self.handle,
                count: Some(CHUNK as i64),
            })?;
            bytes.extend_from_slice(&piece.buf_b64);
            if piece.eof || piece.buf_b64.is_empty() || bytes.len() > limit {
                return Ok(bytes);
            }
        }
    }

    fn close(&mut self) -> Result<(), AgentFailure> {
        let handle = self.handle;
        self.ask(&guest_file_close { handle }).map(drop)
    }
}

fn report_miscount(sent: usize, rendered: i64) -> AgentFailure {
    AgentFailure::Broken(
        Error::new(Kind::Machine, "invalid reply of the guest agent")
            .expected(format!("1 to {sent} bytes written"))
            .found(rendered),
    )
}

/// Recognizes the English messages of ERROR_FILE_NOT_FOUND, ERROR_PATH_NOT_FOUND and ENOENT: the
/// agent passes on the system's message without its number.
fn says_not_found(words: &str) -> bool {
    [
        "cannot find the file specified",
        "cannot find the path specified",
        "No such file or directory",
    ]
    .iter()
    .any(|sentence| words.contains(sentence))
}

/// Checks for a missing file on a localized Windows. The agent quotes a path with a space, which
/// `if exist` accepts.
fn is_missing(wire: &mut AgentWire, path: &str, patience: Duration) -> Result<bool> {
    let exit = NOT_THERE.to_string();
    let arguments = [
        "/d",
        "/c",
        "if",
        "not",
        "exist",
        path,
        "exit",
        exit.as_str(),
    ];
    let command = GuestCommand {
        program: r"C:\Windows\System32\cmd.exe".into(),
        arguments: arguments.map(String::from).to_vec(),
        timeout: patience,
    };
    match super::exec::run(wire, &command, &mut |_| {}) {
        Ok(exit) => Ok(exit == GuestExit::Code(NOT_THERE)),
        // No such program: keep the first refusal.
        Err(e) if e.kind() == Kind::Step => Ok(false),
        Err(e) => Err(e),
    }
}
