//! The sockets behind a clone's metadata addresses: a thread that waits for connections for each address, and one for each
//! connection. QEMU forwards what the clone sends to an address to a program of its own for each connection (`guestfwd` with
//! `cmd:`); that program is `relay`.
//!
//! Refuses requests beyond `http`'s limits, clients that take longer than `PATIENCE`, and more of them than `MOST_CLIENTS`. Whatever
//! it was asked is recorded, with what it answered.

use std::io::{ErrorKind, Read, Write};
use std::net::Shutdown;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use winimg_base::error::{Error, Result};

use super::http::{Head, Request, Response};
use super::{Asked, Endpoint, Report, Service};

/// For one connection, from its first byte to its last. A clone that restarts leaves connections open.
const PATIENCE: Duration = Duration::from_secs(10);
const MOST_CLIENTS: usize = 32;
/// Requests that are recorded; what comes beyond is answered alone.
const LONGEST_RECORD: usize = 10_000;

/// The open sockets. Dropped: closed and removed.
pub struct Server {
    sockets: Vec<(Endpoint, PathBuf)>,
    open: Arc<Open>,
}

struct Open {
    began: Instant,
    patience: Duration,
    service: Mutex<Service>,
    asked: Mutex<Vec<Asked>>,
    clients: AtomicUsize,
    closed: AtomicBool,
}

impl Server {
    /// Makes a socket for each of the service's addresses in `folder`, which must let nobody else in.
    pub fn open(service: Service, folder: &Path) -> Result<Self> {
        Self::with_patience(service, folder, PATIENCE)
    }

    /// For tests, which do not wait as long.
    pub fn with_patience(service: Service, folder: &Path, patience: Duration) -> Result<Self> {
        let endpoints = service.endpoints();
        let mut server = Self {
            sockets: Vec::new(),
            open: Arc::new(Open {
                began: Instant::now(),
                patience,
                service: Mutex::new(service),
                asked: Mutex::default(),
                clients: AtomicUsize::default(),
                closed: AtomicBool::default(),
            }),
        };
        for endpoint in endpoints {
            let path = folder.join(endpoint.address().ip().to_string());
            let failed = |e| Error::io("listen on", &path, e);
            let listener = UnixListener::bind(&path).map_err(failed)?;
            server.sockets.push((*endpoint, path.clone()));
            let open = Arc::clone(&server.open);
            std::thread::Builder::new()
                .name("metadata".into())
                .spawn(move || listen(&listener, *endpoint, &open))
                .map_err(failed)?;
        }
        Ok(server)
    }

    /// Each address with the socket behind it.
    pub fn sockets(&self) -> &[(Endpoint, PathBuf)] {
        &self.sockets
    }

    /// What was asked so far.
    pub fn asked(&self) -> Vec<Asked> {
        lock(&self.open.asked).clone()
    }

    /// What the clone reported so far.
    pub fn reports(&self) -> Vec<Report> {
        lock(&self.open.service).reports().to_vec()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.open.closed.store(true, Ordering::SeqCst);
        for (_, path) in &self.sockets {
            // Wakes the thread that waits for connections, so that it sees that this is the end.
            let _ = UnixStream::connect(path);
            let _ = std::fs::remove_file(path);
        }
    }
}

fn lock<T>(shared: &Mutex<T>) -> MutexGuard<'_, T> {
    shared
        .lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner)
}

fn listen(listener: &UnixListener, endpoint: Endpoint, open: &Arc<Open>) {
    for stream in listener.incoming() {
        if open.closed.load(Ordering::SeqCst) {
            return;
        }
        let Ok(stream) = stream else {
            // No file descriptor is left: the trial's own trouble comes first.
            std::thread::sleep(Duration::from_millis(100));
            continue;
        };
        if open.clients.fetch_add(1, Ordering::SeqCst) >= MOST_CLIENTS {
            open.clients.fetch_sub(1, Ordering::SeqCst);
            continue;
        }
        let shared = Arc::clone(open);
        let spawned = std::thread::Builder::new()
            .name("metadata client".into())
            .spawn(move || {
                serve(stream, endpoint, &shared);
                shared.clients.fetch_sub(1, Ordering::SeqCst);
            });
        if spawned.is_err() {
            open.clients.fetch_sub(1, Ordering::SeqCst);
        }
    }
}

/// One request, one answer.
fn serve(mut stream: UnixStream, endpoint: Endpoint, open: &Open) {
    let end = Instant::now() + open.patience;
    let (request, response) = match receive(&mut stream, end) {
        Ok(request) => {
            let request = request.at(open.began.elapsed());
            let response = lock(&open.service).answer(endpoint, &request);
            (Some(request), response)
        }
        Err(Refused::Status(status)) => (None, Response::status(status)),
        Err(Refused::Gone) => return,
    };
    let mut asked = lock(&open.asked);
    if asked.len() < LONGEST_RECORD {
        asked.push(Asked {
            seconds: open.began.elapsed().as_secs_f64(),
            address: endpoint.address().to_string(),
            method: request
                .as_ref()
                .map_or_else(String::new, |r| r.method.clone()),
            target: request.as_ref().map_or_else(String::new, Request::target),
            status: response.status,
        });
    }
    drop(asked);
    let left = end.saturating_duration_since(Instant::now());
    let patience = left.max(Duration::from_millis(100));
    if stream.set_write_timeout(Some(patience)).is_ok() {
        let _ = stream.write_all(&response.bytes());
        let _ = stream.shutdown(Shutdown::Write);
    }
}

enum Refused {
    Status(u16),
    /// Nobody is there any more, or nothing was asked: a connection that only looks whether somebody listens.
    Gone,
}

fn receive(stream: &mut UnixStream, end: Instant) -> std::result::Result<Request, Refused> {
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
        let set = stream.set_read_timeout(Some(left));
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

/// One connection of the clone, from `input` to a server's socket and back to `output`, until the server ends it. `input` is
/// read on a thread that ends with it, or with the process.
pub fn relay(
    socket: &Path,
    mut input: impl Read + Send + 'static,
    mut output: impl Write,
) -> Result<()> {
    let failed = |e| Error::io("forward to", socket, e);
    let mut back = UnixStream::connect(socket).map_err(failed)?;
    let mut there = back.try_clone().map_err(failed)?;
    std::thread::Builder::new()
        .name("relay".into())
        .spawn(move || {
            let _ = std::io::copy(&mut input, &mut there);
            let _ = there.shutdown(Shutdown::Write);
        })
        .map_err(failed)?;
    std::io::copy(&mut back, &mut output).map_err(failed)?;
    output.flush().map_err(failed)
}
