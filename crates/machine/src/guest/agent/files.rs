//! Small files through the agent (`guest-file-*`).
//!
//! Refuses large ones: the agent writes 3 MB/s where a disc gives 18 and more.

use std::time::Duration;

use qapi::qga::{
    QgaCommand, guest_file_close, guest_file_flush, guest_file_open, guest_file_read,
    guest_file_write,
};

use super::explain;
use super::wire::{Trouble, Wire};
use crate::guest::{Command, Exit, check_size, larger_than};
use winimg_base::error::{Error, Kind, Result};

const CHUNK: usize = 48 << 10;
/// What `cmd` answers for a file that is not there; any number that `cmd` itself does not use.
const NOT_THERE: i64 = 44;

pub fn put(wire: &mut Wire, path: &str, bytes: &[u8], patience: Duration) -> Result<()> {
    check_size(path, bytes, "the guest agent")?;
    let failed = |trouble| explain(&format!("writing {path}"), trouble);
    let mut file = File::open(wire, path, "w", patience).map_err(failed)?;
    let written = file.write_all(bytes);
    let closed = file.close();
    written.and(closed).map_err(failed)
}

pub fn get(
    wire: &mut Wire,
    path: &str,
    limit: usize,
    patience: Duration,
) -> Result<Option<Vec<u8>>> {
    let failed = |trouble| explain(&format!("reading {path}"), trouble);
    let mut file = match File::open(wire, path, "r", patience) {
        Ok(file) => file,
        Err(Trouble::Refused(words)) => {
            return match says_not_found(&words) || is_missing(wire, path, patience)? {
                true => Ok(None),
                false => Err(failed(Trouble::Refused(words))),
            };
        }
        Err(other) => return Err(failed(other)),
    };
    let read = file.read_to(limit);
    let closed = file.close();
    let bytes = read
        .and_then(|bytes| closed.map(|()| bytes))
        .map_err(failed)?;
    if bytes.len() > limit {
        return Err(larger_than(limit, path));
    }
    Ok(Some(bytes))
}

/// An open file of the guest.
struct File<'a> {
    wire: &'a mut Wire,
    handle: i64,
    patience: Duration,
}

impl<'a> File<'a> {
    fn open(
        wire: &'a mut Wire,
        path: &str,
        mode: &str,
        patience: Duration,
    ) -> Result<Self, Trouble> {
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

    fn ask<C: QgaCommand>(&mut self, command: &C) -> Result<C::Ok, Trouble> {
        self.wire.ask(command, self.wire.now() + self.patience)
    }

    fn write_all(&mut self, bytes: &[u8]) -> Result<(), Trouble> {
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
                _ => return Err(miscounted(chunk.len(), rendered)),
            }
        }
        let handle = self.handle;
        self.ask(&guest_file_flush { handle }).map(drop)
    }

    /// Everything, or a little more than `limit`.
    fn read_to(&mut self, limit: usize) -> Result<Vec<u8>, Trouble> {
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

    fn close(&mut self) -> Result<(), Trouble> {
        let handle = self.handle;
        self.ask(&guest_file_close { handle }).map(drop)
    }
}

fn miscounted(sent: usize, rendered: i64) -> Trouble {
    Trouble::Broken(
        Error::new(Kind::Machine, "the guest agent's reply can't be understood")
            .expected(format!("that it wrote 1 to {sent} bytes"))
            .found(rendered),
    )
}

/// The English of ERROR_FILE_NOT_FOUND, ERROR_PATH_NOT_FOUND and ENOENT: the agent passes on the system's sentence, without its number.
fn says_not_found(words: &str) -> bool {
    [
        "cannot find the file specified",
        "cannot find the path specified",
        "No such file or directory",
    ]
    .iter()
    .any(|sentence| words.contains(sentence))
}

/// Asks a Windows that speaks another language. A blank in the path makes the agent quote it, which `if exist` understands.
fn is_missing(wire: &mut Wire, path: &str, patience: Duration) -> Result<bool> {
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
    let command = Command {
        program: r"C:\Windows\System32\cmd.exe".into(),
        arguments: arguments.map(String::from).to_vec(),
        timeout: patience,
    };
    match super::exec::run(wire, &command, &mut |_| {}) {
        Ok(exit) => Ok(exit == Exit::Code(NOT_THERE)),
        // No such program: then the first refusal stands.
        Err(e) if e.kind() == Kind::Step => Ok(false),
        Err(e) => Err(e),
    }
}
