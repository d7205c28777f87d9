//! Accepts connections and serves each one on its own thread, with limits on their number and time.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};
#[cfg(unix)]
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use super::{HttpRequest, HttpResponse, RequestHead};

/// A TCP or Unix connection.
pub trait HttpStream: Read + Write + Send + 'static {
    fn set_read_limit(&self, left: Duration) -> io::Result<()>;
    fn set_write_limit(&self, left: Duration) -> io::Result<()>;
    /// Closes the connection for writing.
    fn finish(&self) -> io::Result<()>;
}

impl HttpStream for TcpStream {
    fn set_read_limit(&self, left: Duration) -> io::Result<()> {
        self.set_read_timeout(Some(left))
    }

    fn set_write_limit(&self, left: Duration) -> io::Result<()> {
        self.set_write_timeout(Some(left))
    }

    fn finish(&self) -> io::Result<()> {
        self.shutdown(Shutdown::Write)
    }
}

#[cfg(unix)]
impl HttpStream for UnixStream {
    fn set_read_limit(&self, left: Duration) -> io::Result<()> {
        self.set_read_timeout(Some(left))
    }

    fn set_write_limit(&self, left: Duration) -> io::Result<()> {
        self.set_write_timeout(Some(left))
    }

    fn finish(&self) -> io::Result<()> {
        self.shutdown(Shutdown::Write)
    }
}

/// Client count of one server, and its shutdown flag.
#[derive(Default)]
pub struct ConnectionGate {
    clients: AtomicUsize,
    closed: AtomicBool,
}

impl ConnectionGate {
    /// Ends `listen` at the next connection, which the caller must open.
    pub fn close(&self) {
        self.closed.store(true, Ordering::SeqCst);
    }

    pub fn is_closed(&self) -> bool {
        self.closed.load(Ordering::SeqCst)
    }
}

/// Calls `serve` for each connection on its own thread, named `name`, until the gate is closed.
/// Drops connections beyond `most` at a time.
pub fn serve_connections<S: HttpStream>(
    connections: impl Iterator<Item = io::Result<S>>,
    gate: &Arc<ConnectionGate>,
    (name, most): (&str, usize),
    serve: impl Fn(S) + Clone + Send + 'static,
) {
    for stream in connections {
        if gate.is_closed() {
            return;
        }
        let Ok(stream) = stream else {
            // Out of file descriptors: leave them to the rest of this process.
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

/// Reason why no request was received.
pub enum ReceiveError {
    /// Answer with this status.
    Status(u16),
    /// The client is gone or sent nothing, like a probe of whether the port is open.
    Gone,
}

/// Reads a request, which must be complete by `end`.
pub fn receive(stream: &mut impl HttpStream, end: Instant) -> Result<HttpRequest, ReceiveError> {
    let mut bytes = Vec::new();
    let mut head: Option<RequestHead> = None;
    loop {
        if head.is_none() {
            head = RequestHead::parse(&bytes).map_err(ReceiveError::Status)?;
            if head.as_ref().is_some_and(|h| h.waits) {
                stream
                    .write_all(b"HTTP/1.1 100 Continue\r\n\r\n")
                    .map_err(|_| ReceiveError::Gone)?;
            }
        }
        if let Some(request) = head.as_ref().and_then(|h| h.complete_request(&bytes)) {
            return Ok(request);
        }
        let left = end.saturating_duration_since(Instant::now());
        let late = if bytes.is_empty() {
            ReceiveError::Gone
        } else {
            ReceiveError::Status(408)
        };
        if left.is_zero() {
            return Err(late);
        }
        stream
            .set_read_limit(left)
            .map_err(|_| ReceiveError::Gone)?;
        let mut chunk = [0; 4096];
        match stream.read(&mut chunk) {
            Ok(0) => return Err(ReceiveError::Gone),
            Ok(n) => bytes.extend_from_slice(&chunk[..n]),
            Err(e) if e.kind() == ErrorKind::Interrupted => {}
            Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                return Err(late);
            }
            Err(_) => return Err(ReceiveError::Gone),
        }
    }
}

/// Writes the response and closes the connection; gives up on a client that has not read it by
/// `end`.
pub fn send_response(stream: &mut impl HttpStream, response: &HttpResponse, end: Instant) {
    let left = end.saturating_duration_since(Instant::now());
    let patience = left.max(Duration::from_millis(100));
    if stream.set_write_limit(patience).is_ok() {
        let _ = stream.write_all(&response.to_bytes());
        let _ = stream.finish();
    }
}
