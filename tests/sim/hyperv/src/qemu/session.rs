//! PowerShell Direct's way into the guest: requests and replies as lines over its port.
//!
//! Replies that an earlier process asked for, and what a guest that restarted left half-written, are passed over.

use std::io::{ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};
use uuid::Uuid;

use super::arguments::SESSIONS;
use super::monitor;

/// After so long without a reply the caller looks whether the guest still listens.
const LOOK: Duration = Duration::from_secs(1);

pub struct Session {
    stream: UnixStream,
    pending: Vec<u8>,
}

impl Session {
    pub fn connect(folder: &Path) -> std::io::Result<Session> {
        let stream = monitor::connect(folder, SESSIONS)?;
        stream.set_read_timeout(Some(LOOK))?;
        Ok(Session {
            stream,
            pending: Vec::new(),
        })
    }

    /// Sends a request; its id.
    pub fn ask(&mut self, mut request: Value) -> std::io::Result<String> {
        let id = Uuid::new_v4().to_string();
        request["id"] = json!(id);
        // The line feed before it ends what an earlier process may have left half-sent.
        self.stream.write_all(format!("\n{request}\n").as_bytes())?;
        Ok(id)
    }

    /// The reply with this id; None when it has not come for a while.
    pub fn reply(&mut self, id: &str) -> std::io::Result<Option<Value>> {
        let mut chunk = vec![0; 64 << 10];
        loop {
            while let Some(end) = self.pending.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.pending.drain(..=end).collect();
                if let Ok(reply) = serde_json::from_slice::<Value>(&line)
                    && reply["id"] == id
                {
                    return Ok(Some(reply));
                }
            }
            match self.stream.read(&mut chunk) {
                Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
                Ok(length) => self.pending.extend(&chunk[..length]),
                Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                    return Ok(None);
                }
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) => return Err(e),
            }
        }
    }
}
