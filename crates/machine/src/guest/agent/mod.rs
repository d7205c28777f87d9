//! The QEMU guest agent, over whatever socket its port ends in.
//!
//! Files of a few KB go through the agent's own calls; everything larger goes onto a disc, which is many times faster. Programs are run without a
//! shell: arguments are sent raw and the agent quotes them. Never sends `env`, which would replace the guest's whole environment. The agent
//! can't stream: output comes when the program has ended, so a program that runs for long, or that leaves a child behind, should write to a file
//! in the guest instead.

mod exec;
mod files;
mod transcript;
mod wire;

use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

use qapi::qga::{GuestShutdownMode, guest_shutdown};

use self::transcript::Transcript;
use self::wire::{Trouble, Wire};
use super::{Command, Ended, Exit, Guest, Put, not_back, not_restarted};
use winimg_base::error::{Error, Kind, Result};

/// The guest's end of the channel, as the machine sees it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Port {
    pub open: bool,
    /// How often it was closed or the guest restarted. A change means that what was asked before is lost.
    pub downs: u32,
    /// The guest powered off.
    pub off: bool,
}

impl Port {
    pub fn change(&mut self, open: bool) {
        self.downs += u32::from(!open);
        self.open = open;
    }
}

/// Puts an ISO into the payload drive; `None` empties every drive.
pub type ChangeDiscs = dyn Fn(Option<&Path>) -> Result<()> + Send;

/// What the agent needs of the machine around it. Each function returns at once.
pub struct Host {
    /// An error as soon as the machine is dead or paused, or the user interrupted.
    pub check: Box<dyn Fn() -> Result<()> + Send>,
    pub port: Box<dyn Fn() -> Port + Send>,
    pub discs: Box<ChangeDiscs>,
    /// Told when the guest is asked (`true`), and when anything comes from it.
    pub talked: Box<dyn Fn(bool) + Send>,
    /// The time that deadlines are measured by; it may stand while the machine does.
    pub now: Box<dyn Fn() -> Instant + Send>,
}

/// A guest behind a QEMU guest agent.
pub struct Agent {
    wire: Wire,
    /// For calls that do little; commands bring their own limit.
    patience: Duration,
}

impl Agent {
    /// `stream` is connected to the port's socket. Nothing is sent yet.
    pub fn new(stream: UnixStream, host: Host, patience: Duration) -> Result<Self> {
        let wire = Wire::new(stream, host)?;
        Ok(Self { wire, patience })
    }

    /// Writes the last exchanges into `file`, contents and passwords by their length alone.
    #[must_use]
    pub fn written_down(mut self, file: &Path) -> Self {
        self.wire.write_down(Transcript::open(file));
        self
    }

    /// Waits at most `time` for the agent's first answer. `false`: none yet; trouble of the machine is an error.
    pub fn try_open(&mut self, time: Duration) -> Result<bool> {
        match self.wire.open(self.wire.now() + time) {
            Ok(()) => Ok(true),
            Err(Trouble::Late | Trouble::Gone) => Ok(false),
            Err(trouble) => Err(explain("opening the channel", trouble)),
        }
    }

    fn come_back(&mut self, timeout: Duration, deadline: Instant) -> Result<()> {
        self.wire.open(deadline).map_err(|trouble| match trouble {
            Trouble::Gone => {
                Error::new(Kind::Machine, "the guest powered off instead of restarting")
            }
            Trouble::Late => not_back(timeout),
            other => explain("the restart", other),
        })
    }
}

impl Guest for Agent {
    fn run(&mut self, command: &Command, output: &mut dyn FnMut(&[u8])) -> Result<Exit> {
        command.check()?;
        exec::run(&mut self.wire, command, output)
    }

    fn put(&mut self, what: Put<'_>) -> Result<()> {
        match what {
            Put::Bytes { path, bytes } => files::put(&mut self.wire, path, bytes, self.patience),
            Put::Disc(iso) => (self.wire.host.discs)(Some(iso)),
            Put::NoDiscs => (self.wire.host.discs)(None),
        }
    }

    fn get(&mut self, path: &str, limit: usize) -> Result<Option<Vec<u8>>> {
        files::get(&mut self.wire, path, limit, self.patience)
    }

    fn reboot(&mut self, timeout: Duration) -> Result<()> {
        let deadline = self.wire.now() + timeout;
        let mode = Some(GuestShutdownMode::Reboot);
        let asked = self.wire.ask(&guest_shutdown { mode }, deadline);
        let gone = match asked {
            // The agent answers only when it refuses; one that answers nevertheless is believed.
            Ok(_) => self.wire.wait_gone(deadline),
            Err(Trouble::Gone) => Ok(()),
            Err(other) => Err(other),
        };
        match gone {
            Ok(()) => self.come_back(timeout, deadline),
            Err(Trouble::Late) => Err(not_restarted(timeout)),
            Err(other) => Err(explain("the restart", other)),
        }
    }

    fn wait_back(&mut self, timeout: Duration) -> Result<()> {
        let deadline = self.wire.now() + timeout;
        match self.wire.wait_gone(deadline) {
            Ok(()) => self.come_back(timeout, deadline),
            Err(Trouble::Late) => Err(not_restarted(timeout)),
            Err(other) => Err(explain("the restart", other)),
        }
    }

    fn is_there(&mut self) -> Result<bool> {
        if (self.wire.host.port)().off {
            return Err(Ended::PoweredOff.into());
        }
        match self.wire.watch() {
            Ok(()) => Ok(true),
            Err(Trouble::Gone) => Ok(false),
            Err(other) => Err(explain("a look at it", other)),
        }
    }

    fn now(&self) -> Instant {
        self.wire.now()
    }

    fn shut_down(&mut self) -> Result<()> {
        // A refusal comes at once; silence means that it was taken.
        let deadline = self.wire.now() + self.patience.min(Duration::from_secs(3));
        let mode = Some(GuestShutdownMode::Powerdown);
        match self.wire.ask(&guest_shutdown { mode }, deadline) {
            Ok(_) | Err(Trouble::Gone | Trouble::Late) => Ok(()),
            Err(other) => Err(explain("the power-off", other)),
        }
    }
}

/// `doing` fits after "while" and after "refused".
fn explain(doing: &str, trouble: Trouble) -> Error {
    match trouble {
        Trouble::Gone => Error::new(Kind::Machine, format!("the guest went away during {doing}")),
        Trouble::Late => Error::new(
            Kind::Machine,
            format!("the guest agent did not answer in time during {doing}"),
        ),
        Trouble::Refused(words) => {
            Error::new(Kind::Machine, format!("the guest agent refused {doing}")).found(words)
        }
        Trouble::Broken(error) => error,
    }
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead as _, BufReader, Write as _};
    use std::sync::{Arc, Mutex};
    use std::thread::JoinHandle;

    use serde_json::{Value, json};

    use super::*;

    /// The guest that a peer plays: its port, and what its clock shows.
    #[derive(Clone)]
    struct World(Arc<Mutex<(Port, Instant)>>);

    impl World {
        fn change<T>(&self, change: impl FnOnce(&mut (Port, Instant)) -> T) -> T {
            change(&mut self.0.lock().expect("lock"))
        }

        fn host(&self) -> Host {
            let (a, b) = (self.clone(), self.clone());
            Host {
                check: Box::new(|| Ok(())),
                port: Box::new(move || a.change(|w| w.0)),
                discs: Box::new(|_| Ok(())),
                talked: Box::new(|_| {}),
                now: Box::new(move || b.change(|w| w.1)),
            }
        }
    }

    /// Answers as an agent does, but for the very first request, which it lets wait. Gives what came, with 0 for each `id`.
    fn play(stream: UnixStream, world: &World) -> String {
        let mut writer = stream.try_clone().expect("a clone");
        let mut came = String::new();
        for line in BufReader::new(stream).split(b'\n') {
            let line = line.expect("a line");
            let text = String::from_utf8_lossy(&line).into_owned();
            let object = text.trim_start_matches(char::REPLACEMENT_CHARACTER);
            let request: Value = serde_json::from_str(object).expect("JSON");
            let arguments = &request["arguments"];
            let mut id = &request["id"];
            let reply = match request["execute"].as_str().expect("a command") {
                "guest-sync" | "guest-sync-delimited" => {
                    id = &arguments["id"];
                    json!(id)
                }
                "guest-file-open" => json!(1000 + i64::from(arguments["path"] == r"C:\odd")),
                "guest-file-write" => json!({"count": 7, "eof": false}),
                "guest-file-read" if arguments["handle"] == 1001 => {
                    json!({"buf-b64": "cGxhbnRlZA=="})
                }
                "guest-file-read" => json!({"count": 2, "buf-b64": "b2s=", "eof": true}),
                "guest-exec" => json!({"pid": 9}),
                "guest-exec-status" => json!({"exited": true, "exitcode": 5}),
                _ => json!({}),
            };
            let first = came.is_empty();
            came += &text.replace(&format!("\"id\":{id}"), "\"id\":0");
            came.push('\n');
            match arguments["mode"].as_str() {
                _ if first => world.change(|w| w.1 += Duration::from_secs(3)),
                Some("reboot") => world.change(|w| {
                    w.0.change(false);
                    w.0.change(true);
                }),
                Some("powerdown") => world.change(|w| w.0.off = true),
                _ => writeln!(writer, "{}", json!({"return": reply})).expect("a reply"),
            }
        }
        came
    }

    const PATIENCE: Duration = Duration::from_secs(60);

    /// An agent that answers, and its peer.
    fn open() -> (Agent, JoinHandle<String>) {
        let world = World(Arc::new(Mutex::new((Port::default(), Instant::now()))));
        world.change(|w| w.0.change(true));
        let (ours, theirs) = UnixStream::pair().expect("a socket pair");
        let mut agent = Agent::new(ours, world.host(), PATIENCE).expect("an agent");
        let peer = std::thread::spawn(move || play(theirs, &world));
        assert!(agent.try_open(PATIENCE).expect("an answer"));
        (agent, peer)
    }

    #[test]
    fn a_reply_of_another_shape_is_quoted_without_its_contents() {
        let (mut agent, _) = open();
        assert_eq!(
            agent.get(r"C:\odd", 10).expect_err("no count").to_string(),
            "the guest agent's reply can't be understood\n  found: {\"buf-b64\":\"(12 characters)\"}"
        );
        // The two sides are in step nevertheless.
        assert_eq!(agent.get(r"C:\y", 10).expect("read"), Some(b"ok".to_vec()));
    }

    #[test]
    fn what_goes_over_the_wire() {
        let (mut agent, peer) = open();
        let put = Put::Bytes {
            path: r"C:\x",
            bytes: b"planted",
        };
        agent.put(put).expect("written");
        assert_eq!(agent.get(r"C:\y", 10).expect("read"), Some(b"ok".to_vec()));
        let command = Command {
            program: r"C:\Windows\System32\reg.exe".into(),
            arguments: vec!["query".into(), r"HKLM\ł".into()],
            timeout: PATIENCE,
        };
        let exit = agent.run(&command, &mut |_| {}).expect("its end");
        assert_eq!(exit, Exit::Code(5));
        agent.reboot(PATIENCE).expect("back");
        agent.shut_down().expect("off");
        drop(agent);
        let came = peer.join().expect("the peer");
        assert_eq!(
            came.replace(char::REPLACEMENT_CHARACTER, "(0xFF)"),
            r#"{"execute":"guest-sync","arguments":{"id":0}}
(0xFF){"execute":"guest-sync-delimited","arguments":{"id":0}}
{"execute":"guest-sync","arguments":{"id":0}}
{"execute":"guest-file-open","arguments":{"mode":"w","path":"C:\\x"},"id":0}
{"execute":"guest-file-write","arguments":{"buf-b64":"cGxhbnRlZA==","handle":1000},"id":0}
{"execute":"guest-file-flush","arguments":{"handle":1000},"id":0}
{"execute":"guest-file-close","arguments":{"handle":1000},"id":0}
{"execute":"guest-file-open","arguments":{"mode":"r","path":"C:\\y"},"id":0}
{"execute":"guest-file-read","arguments":{"count":49152,"handle":1000},"id":0}
{"execute":"guest-file-close","arguments":{"handle":1000},"id":0}
{"execute":"guest-exec","arguments":{"arg":["query","HKLM\\ł"],"capture-output":true,"path":"C:\\Windows\\System32\\reg.exe"},"id":0}
{"execute":"guest-exec-status","arguments":{"pid":9},"id":0}
{"execute":"guest-shutdown","arguments":{"mode":"reboot"},"id":0}
{"execute":"guest-sync","arguments":{"id":0}}
{"execute":"guest-shutdown","arguments":{"mode":"powerdown"},"id":0}
"#
        );
    }
}
