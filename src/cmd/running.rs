//! The builds of this user that run now, found by their sockets; and one of them as the other end of a conversation.
//!
//! A socket that nobody answers at belongs to a dead build and is passed over. Refuses to guess between several builds.

use std::io::{ErrorKind, Read as _};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::engine::console::SOCKET;
use crate::engine::console::wire::{
    Ask, Format, LONGEST_REPLY, Lines, Reply, State, decode, write,
};
use crate::engine::run_dirs;
use winimg_base::error::{Error, Kind, Result};

/// How long a build may take to answer.
const PATIENCE: Duration = Duration::from_secs(5);
/// How often a wait for a reply looks up.
const GLANCE: Duration = Duration::from_millis(100);

pub struct Running {
    pub state: State,
    stream: UnixStream,
    lines: Lines<UnixStream>,
}

impl Running {
    /// The build whose output directory this is, or the only one.
    pub fn find(output: Option<&Path>) -> Result<Self> {
        let wanted = output.map(whole).transpose()?;
        let mut found = Self::all()?;
        let lines: Vec<String> = found.iter().map(Self::line).collect();
        if let Some(wanted) = &wanted {
            found.retain(|running| running.state.output == *wanted);
        }
        match (found.pop(), &wanted) {
            (Some(running), _) if found.is_empty() => Ok(running),
            (Some(_), _) => Err(Error::new(Kind::Recipe, "several builds run")
                .lines(lines)
                .cure("name the output directory of one")),
            (None, Some(wanted)) if lines.is_empty() => Err(none().at(wanted.display())),
            (None, Some(wanted)) => Err(none()
                .at(wanted.display())
                .lines(lines)
                .cure("name the output directory of one of these")),
            (None, None) => Err(Error::new(Kind::Recipe, "no build runs")),
        }
    }

    pub fn all() -> Result<Vec<Self>> {
        let dirs = run_dirs()?;
        Ok(dirs.iter().filter_map(|dir| Self::meet(dir)).collect())
    }

    fn meet(dir: &Path) -> Option<Self> {
        let stream = UnixStream::connect(dir.join(SOCKET)).ok()?;
        stream.set_read_timeout(Some(GLANCE)).ok()?;
        stream.set_write_timeout(Some(PATIENCE)).ok()?;
        let lines = Lines::new(stream.try_clone().ok()?, LONGEST_REPLY);
        let mut running = Self {
            state: State::default(),
            stream,
            lines,
        };
        match running.ask(&Ask::State, &mut |_| {}, &mut in_time()) {
            Ok(Reply::State(state)) => {
                running.state = state;
                Some(running)
            }
            _ => None,
        }
    }

    /// `out/node: node, provision, [2/5] kubelet`
    fn line(&self) -> String {
        let State { output, name, .. } = &self.state;
        format!("{}: {name}, {}", output.display(), self.state.place())
    }

    /// The last reply. `look` is called while waiting, and ends the wait by an error.
    pub fn ask(
        &mut self,
        ask: &Ask,
        output: &mut dyn FnMut(&str),
        look: &mut dyn FnMut() -> Result<()>,
    ) -> Result<Reply> {
        write(&mut self.stream, ask).map_err(gone)?;
        loop {
            let line = match self.lines.next_line() {
                Ok(Some(line)) => line,
                Ok(None) => return Err(gone(ErrorKind::UnexpectedEof.into())),
                Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                    look()?;
                    continue;
                }
                Err(e) => return Err(gone(e)),
            };
            match serde_json::from_slice::<Reply>(&line) {
                Ok(Reply::Output { text }) => output(&text),
                Ok(reply) => return Ok(reply),
                Err(e) => {
                    return Err(Error::new(
                        Kind::Failed,
                        "the build's reply can't be understood: it may be of another version",
                    )
                    .because(e));
                }
            }
        }
    }

    /// The machine's screen. `look` as for `ask`.
    pub fn picture(
        &mut self,
        format: Format,
        look: &mut dyn FnMut() -> Result<()>,
    ) -> Result<Vec<u8>> {
        let reply = self.ask(&Ask::Screen { format }, &mut |_| {}, look)?;
        let refused =
            |why: String| Error::new(Kind::Machine, "the screen cannot be read").found(why);
        match reply {
            Reply::Bytes { bytes: Some(text) } => decode(&text).map_err(refused),
            Reply::Refused { why } => Err(refused(why)),
            _ => Err(refused("the build answered something else".into())),
        }
    }

    /// Whether the build still holds its end.
    pub fn is_there(&self) -> bool {
        let mut stream = &self.stream;
        // Nothing is on its way between two questions.
        !matches!(stream.read(&mut [0]), Ok(0))
    }
}

fn none() -> Error {
    Error::new(Kind::Recipe, "no build runs with this output directory")
}

fn gone(why: std::io::Error) -> Error {
    match why.kind() {
        ErrorKind::InvalidData => Error::new(Kind::Failed, "the build's reply has no end"),
        _ => Error::new(Kind::Machine, "the build has ended"),
    }
}

/// Ends a wait for a build that does not answer. What comes later is not understood any more: the connection is of no use.
pub fn in_time() -> impl FnMut() -> Result<()> {
    let deadline = Instant::now() + PATIENCE;
    move || match Instant::now() < deadline {
        true => Ok(()),
        false => Err(Error::new(Kind::Machine, "the build does not answer")),
    }
}

/// As the build names it: absolute, links left alone.
pub fn whole(path: &Path) -> Result<PathBuf> {
    std::path::absolute(path).map_err(|e| Error::io("find", path, e))
}
