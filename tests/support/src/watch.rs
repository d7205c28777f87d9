//! A running `winimg watch`: its address, its answers and its events.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::killed::KilledChild;

const LONGEST: Duration = Duration::from_secs(60);

/// An address with the token: `http://127.0.0.1:4711/0123…/1/`.
pub struct Url {
    /// `127.0.0.1:4711`
    pub host: String,
    /// `/0123…/1/`
    pub path: String,
}

impl Url {
    pub fn text(&self) -> String {
        format!("http://{}{}", self.host, self.path)
    }

    pub fn of(url: &str) -> Self {
        let rest = url.trim().strip_prefix("http://").expect("http");
        let (host, path) = rest.split_once('/').expect("a path");
        Self {
            host: host.into(),
            path: format!("/{path}"),
        }
    }

    pub fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(&self.host).expect("the server listens");
        let patience = Some(Duration::from_secs(20));
        stream.set_read_timeout(patience).expect("a timeout");
        stream
    }

    /// The whole answer to these bytes.
    pub fn say(&self, request: &str) -> String {
        let mut stream = self.connect();
        // A server that has refused it does not read the rest.
        let _ = stream.write_all(request.as_bytes());
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        String::from_utf8_lossy(&answer).into_owned()
    }

    /// Returns the answer to `GET` of an address below this one.
    pub fn get(&self, below: &str) -> String {
        let Self { host, path } = self;
        self.say(&format!(
            "GET {path}{below} HTTP/1.1\r\nHost: {host}\r\n\r\n"
        ))
    }

    /// The events from this number on.
    pub fn events(&self, since: u64) -> Events {
        let Self { host, path } = self;
        let mut stream = self.connect();
        let request = format!("GET {path}events?since={since} HTTP/1.1\r\nHost: {host}\r\n\r\n");
        stream.write_all(request.as_bytes()).expect("sent");
        let mut lines = BufReader::new(stream);
        let mut head = String::new();
        while lines.read_line(&mut head).expect("a head") > 2 {}
        Events { head, lines }
    }
}

/// The events of one connection.
pub struct Events {
    pub head: String,
    lines: BufReader<TcpStream>,
}

impl Events {
    /// The next event or comment as it came; empty at the end.
    pub fn read_next(&mut self) -> String {
        let mut text = String::new();
        while self.lines.read_line(&mut text).expect("in time") > 1 {}
        text
    }
}

/// `HTTP/1.1 200 OK`
pub fn status(answer: &str) -> &str {
    answer.lines().next().unwrap_or_default()
}

/// A running `winimg watch`.
pub struct Watch {
    child: KilledChild,
    pub url: Url,
}

impl Watch {
    pub fn start(mut command: Command) -> Self {
        command.stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().expect("winimg starts");
        let mut line = String::new();
        let mut stdout = BufReader::new(child.stdout.take().expect("piped"));
        stdout.read_line(&mut line).expect("an address");
        let url = Url::of(&line);
        let child = KilledChild(child);
        Self { child, url }
    }

    /// The page, once it holds this.
    pub fn shows(&self, text: &str) -> String {
        let deadline = Instant::now() + LONGEST;
        loop {
            let page = self.url.get("");
            if page.contains(text) {
                return page;
            }
            assert!(Instant::now() < deadline, "{text}\n{page}");
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// Ctrl-C; the exit status.
    pub fn interrupted(mut self) -> Option<i32> {
        let pid = Pid::from_raw(i32::try_from(self.child.0.id()).expect("a pid"));
        kill(pid, Signal::SIGINT).expect("the signal is sent");
        self.child.0.wait().expect("it ends").code()
    }
}
