//! The sockets behind a clone's metadata addresses: a thread that waits for connections for each address, and one for each
//! connection. QEMU forwards what the clone sends to an address to a program of its own for each connection (`guestfwd` with
//! `cmd:`); that program is `relay`.
//!
//! Refuses requests beyond `crate::http`'s limits, clients that take longer than `PATIENCE`, and more of them than `MOST_CLIENTS`. Whatever
//! it was asked is recorded, with what it answered.

use std::io::{Read, Write};
use std::net::Shutdown;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use winimg_base::error::{Error, Result};

use super::{Asked, Endpoint, Report, Service};
use crate::http::serve::{self, Gate, Refused};
use crate::http::{Request, Response};

/// For one connection, from its first byte to its last. A clone that restarts leaves connections open.
const PATIENCE: Duration = Duration::from_secs(10);
const MOST_CLIENTS: usize = 32;
/// Requests that are recorded; what comes beyond is answered alone.
const LONGEST_RECORD: usize = 10_000;

/// The open sockets. Dropped: closed and removed.
pub struct Server {
    sockets: Vec<(Endpoint, PathBuf)>,
    gate: Arc<Gate>,
    open: Arc<Open>,
}

struct Open {
    began: Instant,
    patience: Duration,
    service: Mutex<Service>,
    asked: Mutex<Vec<Asked>>,
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
            gate: Arc::default(),
            open: Arc::new(Open {
                began: Instant::now(),
                patience,
                service: Mutex::new(service),
                asked: Mutex::default(),
            }),
        };
        for endpoint in endpoints {
            let path = folder.join(endpoint.address().ip().to_string());
            let failed = |e| Error::io("listen on", &path, e);
            let listener = UnixListener::bind(&path).map_err(failed)?;
            server.sockets.push((*endpoint, path.clone()));
            let (open, gate) = (Arc::clone(&server.open), Arc::clone(&server.gate));
            let endpoint = *endpoint;
            std::thread::Builder::new()
                .name("metadata".into())
                .spawn(move || {
                    let clients = ("metadata client", MOST_CLIENTS);
                    serve::listen(listener.incoming(), &gate, clients, move |stream| {
                        answer(stream, endpoint, &open);
                    });
                })
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
        self.gate.close();
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

/// One request, one answer.
fn answer(mut stream: UnixStream, endpoint: Endpoint, open: &Open) {
    let end = Instant::now() + open.patience;
    let (request, response) = match serve::receive(&mut stream, end) {
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
    serve::answer(&mut stream, &response, end);
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
