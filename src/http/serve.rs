//! A thread that waits for connections, and one for each connection: few of them, each for a limited time.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};
#[cfg(unix)]
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use super::{Head, Request, Response};

/// A connection, as TCP and Unix have it.
pub trait Stream: Read + Write + Send + 'static {
    fn patience_to_read(&self, left: Duration) -> io::Result<()>;
    fn patience_to_write(&self, left: Duration) -> io::Result<()>;
    /// Nothing more is written.
    fn finish(&self) -> io::Result<()>;
}

impl Stream for TcpStream {
    fn patience_to_read(&self, left: Duration) -> io::Result<()> {
        self.set_read_timeout(Some(left))
    }

    fn patience_to_write(&self, left: Duration) -> io::Result<()> {
        self.set_write_timeout(Some(left))
    }

    fn finish(&self) -> io::Result<()> {
        self.shutdown(Shutdown::Write)
    }
}

#[cfg(unix)]
impl Stream for UnixStream {
    fn patience_to_read(&self, left: Duration) -> io::Result<()> {
        self.set_read_timeout(Some(left))
    }

    fn patience_to_write(&self, left: Duration) -> io::Result<()> {
        self.set_write_timeout(Some(left))
    }

    fn finish(&self) -> io::Result<()> {
        self.shutdown(Shutdown::Write)
    }
}

/// The clients of one server, and whether it still takes any.
#[derive(Default)]
pub struct Gate {
    clients: AtomicUsize,
    closed: AtomicBool,
}

impl Gate {
    /// Ends `listen` at the next connection, which the caller makes.
    pub fn close(&self) {
        self.closed.store(true, Ordering::SeqCst);
    }

    pub fn is_closed(&self) -> bool {
        self.closed.load(Ordering::SeqCst)
    }
}

/// Gives each connection to `serve` on a thread of its own, named `name`, until the gate is closed. Connections beyond `most` at a
/// time are dropped.
pub fn listen<S: Stream>(
    connections: impl Iterator<Item = io::Result<S>>,
    gate: &Arc<Gate>,
    (name, most): (&str, usize),
    serve: impl Fn(S) + Clone + Send + 'static,
) {
    for stream in connections {
        if gate.is_closed() {
            return;
        }
        let Ok(stream) = stream else {
            // No file descriptor is left: what else this process does comes first.
            std::thread::sleep(Duration::from_millis(100));
            continue;
        };
        if gate.clients.fetch_add(1, Ordering::SeqCst) >= most {
            gate.clients.fetch_sub(1, Ordering::SeqCst);
            continue;
        }
        let (serve, counted) = (serve.clone(), Arc::clone(gate));
        let spawned = std::thread::Builder::new()
            .name(name.to_owned())
            .spawn(move || {
                serve(stream);
                counted.clients.fetch_sub(1, Ordering::SeqCst);
            });
        if spawned.is_err() {
            gate.clients.fetch_sub(1, Ordering::SeqCst);
        }
    }
}

/// Why there is no request.
pub enum Refused {
    /// To be answered with this status.
    Status(u16),
    /// Nobody is there any more, or nothing was asked: a connection that only looks whether somebody listens.
    Gone,
}

/// The connection's request, which has to be there as a whole by `end`.
pub fn receive(stream: &mut impl Stream, end: Instant) -> Result<Request, Refused> {
    let mut bytes = Vec::new();
    let mut head: Option<Head> = None;
    loop {
        if head.is_none() {
            head = Head::read(&bytes).map_err(Refused::Status)?;
            if head.as_ref().is_some_and(|h| h.waits) {
                let go_on = stream.write_all(b"HTTP/1.1 100 Continue\r\n\r\n");
                go_on.map_err(|_| Refused::Gone)?;
            }
        }
        if let Some(request) = head.as_ref().and_then(|h| h.request(&bytes)) {
            return Ok(request);
        }
        let left = end.saturating_duration_since(Instant::now());
        let late = match bytes.is_empty() {
            true => Refused::Gone,
            false => Refused::Status(408),
        };
        if left.is_zero() {
            return Err(late);
        }
        let set = stream.patience_to_read(left);
        set.map_err(|_| Refused::Gone)?;
        let mut chunk = [0; 4096];
        match stream.read(&mut chunk) {
            Ok(0) => return Err(Refused::Gone),
            Ok(n) => bytes.extend_from_slice(&chunk[..n]),
            Err(e) if e.kind() == ErrorKind::Interrupted => {}
            Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                return Err(late);
            }
            Err(_) => return Err(Refused::Gone),
        }
    }
}

/// Writes the answer and ends the connection; a client that does not take it by `end` is left.
pub fn answer(stream: &mut impl Stream, response: &Response, end: Instant) {
    let left = end.saturating_duration_since(Instant::now());
    let patience = left.max(Duration::from_millis(100));
    if stream.patience_to_write(patience).is_ok() {
        let _ = stream.write_all(&response.bytes());
        let _ = stream.finish();
    }
}
