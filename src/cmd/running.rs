//! Finds this user's running builds by their sockets, and sends requests to one of them.
//!
//! Skips sockets of dead builds. Fails if several builds match.

use std::io::{ErrorKind, Read as _};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::engine::console::SOCKET;
use crate::engine::console::wire::{
    ConsoleReply, ConsoleRequest, ConsoleStatus, LineReader, MAX_REPLY, ScreenFormat, decode, write,
};
use crate::engine::run_dirs;
use winimg_base::error::{Error, Kind, Result};

/// Time limit for a reply.
const TIMEOUT: Duration = Duration::from_secs(5);
/// Interval of checks while waiting for a reply.
const GLANCE: Duration = Duration::from_millis(100);

pub struct RunningBuild {
    pub state: ConsoleStatus,
    stream: UnixStream,
    lines: LineReader<UnixStream>,
}

impl RunningBuild {
    /// Finds the build with this output directory, or the only one.
    pub fn find(output: Option<&Path>) -> Result<Self> {
        let wanted = output.map(to_absolute).transpose()?;
        let mut found = Self::find_all()?;
        let lines: Vec<String> = found.iter().map(Self::describe).collect();
        if let Some(wanted) = &wanted {
            found.retain(|running| running.state.output == *wanted);
        }
        match (found.pop(), &wanted) {
            (Some(running), _) if found.is_empty() => Ok(running),
            (Some(_), _) => Err(Error::new(Kind::Recipe, "several builds are running")
                .lines(lines)
                .cure("give the output directory of one of them")),
            (None, Some(wanted)) if lines.is_empty() => Err(no_build_error().at(wanted.display())),
            (None, Some(wanted)) => Err(no_build_error()
                .at(wanted.display())
                .lines(lines)
                .cure("give the output directory of one of these builds")),
            (None, None) => Err(Error::new(Kind::Recipe, "no build is running")),
        }
    }

    pub fn find_all() -> Result<Vec<Self>> {
        let dirs = run_dirs()?;
        Ok(dirs.iter().filter_map(|dir| Self::connect(dir)).collect())
    }

    fn connect(dir: &Path) -> Option<Self> {
        let stream = UnixStream::connect(dir.join(SOCKET)).ok()?;
        stream.set_read_timeout(Some(GLANCE)).ok()?;
        stream.set_write_timeout(Some(TIMEOUT)).ok()?;
        let lines = LineReader::new(stream.try_clone().ok()?, MAX_REPLY);
        let mut running = Self {
            state: ConsoleStatus::default(),
            stream,
            lines,
        };
        match running.ask(&ConsoleRequest::State, &mut |_| {}, &mut limit_wait()) {
            Ok(ConsoleReply::State(state)) => {
                running.state = state;
                Some(running)
            }
            _ => None,
        }
    }

    /// `out/node: node, provision, [2/5] kubelet`
    fn describe(&self) -> String {
        let ConsoleStatus { output, name, .. } = &self.state;
        format!(
            "{}: {name}, {}",
            output.display(),
            self.state.describe_position()
        )
    }

    /// Sends a request and returns the final reply. Calls `look` while waiting; its error ends the
    /// wait.
    pub fn ask(
        &mut self,
        ask: &ConsoleRequest,
        output: &mut dyn FnMut(&str),
        look: &mut dyn FnMut() -> Result<()>,
    ) -> Result<ConsoleReply> {
        write(&mut self.stream, ask).map_err(convert_error)?;
        loop {
            let line = match self.lines.next_line() {
                Ok(Some(line)) => line,
                Ok(None) => return Err(convert_error(ErrorKind::UnexpectedEof.into())),
                Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                    look()?;
                    continue;
                }
                Err(e) => return Err(convert_error(e)),
            };
            match serde_json::from_slice::<ConsoleReply>(&line) {
                Ok(ConsoleReply::Output { text }) => output(&text),
                Ok(reply) => return Ok(reply),
                Err(e) => {
                    return Err(Error::new(
                        Kind::Failed,
                        "unknown reply from the build: its winimg may be a different version",
                    )
                    .because(e));
                }
            }
        }
    }

    /// Returns a picture of the VM's screen. Calls `look` while waiting, as `ask` does.
    pub fn take_picture(
        &mut self,
        format: ScreenFormat,
        look: &mut dyn FnMut() -> Result<()>,
    ) -> Result<Vec<u8>> {
        let picture = match self.ask(&ConsoleRequest::Screen { format }, &mut |_| {}, look)? {
            ConsoleReply::Bytes { bytes: Some(text) } => decode(&text),
            ConsoleReply::Refused { why } => Err(why),
            _ => Err("unexpected reply from the build".into()),
        };
        picture.map_err(|why| Error::new(Kind::Machine, "cannot read the screen").found(why))
    }

    /// Checks if the build is still connected.
    pub fn is_connected(&self) -> bool {
        let mut stream = &self.stream;
        // No data is in transit between requests.
        !matches!(stream.read(&mut [0]), Ok(0))
    }
}

fn no_build_error() -> Error {
    Error::new(Kind::Recipe, "no build is running in this output directory")
}

fn convert_error(why: std::io::Error) -> Error {
    match why.kind() {
        ErrorKind::InvalidData => Error::new(Kind::Failed, "the build's reply is too long"),
        _ => Error::new(Kind::Machine, "the build has ended"),
    }
}

/// Returns a check that fails once a reply is overdue. The connection is unusable after that: a
/// late reply would be taken for the next one.
pub fn limit_wait() -> impl FnMut() -> Result<()> {
    let deadline = Instant::now() + TIMEOUT;
    move || {
        if Instant::now() < deadline {
            Ok(())
        } else {
            Err(Error::new(Kind::Machine, "the build does not respond"))
        }
    }
}

/// Returns the absolute path without resolving links, as builds report it.
pub fn to_absolute(path: &Path) -> Result<PathBuf> {
    std::path::absolute(path).map_err(|e| Error::io("find", path, e))
}
