//! The sockets behind a clone's metadata addresses, with a listening thread for each address and a
//! thread for each connection. For each connection of the clone, QEMU starts the program `relay`
//! and forwards the data to it (`guestfwd` with `cmd:`).
//!
//! Rejects requests beyond `crate::http`'s limits, clients that take longer than `TIMEOUT`, and
//! more clients than `MAX_CLIENTS`. Records all requests with their status.

use std::io::{Read, Write};
use std::net::Shutdown;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use winimg_base::error::{Error, Result};

use super::{CloneReport, MetadataEndpoint, MetadataRequest, MetadataService};
use crate::http::serve::{self, ConnectionGate, ReceiveError};
use crate::http::{HttpRequest, HttpResponse};

/// Timeout of a connection. A clone that restarts leaves connections open.
const TIMEOUT: Duration = Duration::from_secs(10);
const MAX_CLIENTS: usize = 32;
/// Maximum number of recorded requests; further ones are only answered.
const MAX_RECORDS: usize = 10_000;

/// The open sockets, closed and removed on drop.
pub struct MetadataServer {
    sockets: Vec<(MetadataEndpoint, PathBuf)>,
    gate: Arc<ConnectionGate>,
    open: Arc<MetadataServerState>,
}

struct MetadataServerState {
    began: Instant,
    patience: Duration,
    service: Mutex<MetadataService>,
    asked: Mutex<Vec<MetadataRequest>>,
}

impl MetadataServer {
    /// Creates a socket for each of the service's addresses in `folder`, which must be private.
    pub fn open(service: MetadataService, folder: &Path) -> Result<Self> {
        Self::with_patience(service, folder, TIMEOUT)
    }

    /// Opens the sockets with another timeout, for tests.
    pub fn with_patience(
        service: MetadataService,
        folder: &Path,
        patience: Duration,
    ) -> Result<Self> {
        let endpoints = service.endpoints();
        let mut server = Self {
            sockets: Vec::new(),
            gate: Arc::default(),
            open: Arc::new(MetadataServerState {
                began: Instant::now(),
                patience,
                service: Mutex::new(service),
                asked: Mutex::default(),
            }),
        };
        for endpoint in endpoints {
            let path = folder.join(endpoint.address().ip().to_string());
            let listener =
                UnixListener::bind(&path).map_err(|e| Error::io("listen on", &path, e))?;
            server.sockets.push((*endpoint, path.clone()));
            let (open, gate) = (Arc::clone(&server.open), Arc::clone(&server.gate));
            let endpoint = *endpoint;
            std::thread::Builder::new()
                .name("metadata".into())
                .spawn(move || {
                    let clients = ("metadata client", MAX_CLIENTS);
                    serve::serve_connections(listener.incoming(), &gate, clients, move |stream| {
                        handle_connection(stream, endpoint, &open);
                    });
                })
                .map_err(|e| Error::io("listen on", &path, e))?;
        }
        Ok(server)
    }

    /// Returns each address with its socket.
    pub fn sockets(&self) -> &[(MetadataEndpoint, PathBuf)] {
        &self.sockets
    }

    /// Returns the requests so far.
    pub fn list_requests(&self) -> Vec<MetadataRequest> {
        lock(&self.open.asked).clone()
    }

    /// Returns the clone's reports so far.
    pub fn list_reports(&self) -> Vec<CloneReport> {
        lock(&self.open.service).reports().to_vec()
    }
}

impl Drop for MetadataServer {
    fn drop(&mut self) {
        self.gate.close();
        for (_, path) in &self.sockets {
            // Wakes the listening thread, so that it notices the shutdown.
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

/// Handles one request.
fn handle_connection(
    mut stream: UnixStream,
    endpoint: MetadataEndpoint,
    open: &MetadataServerState,
) {
    let end = Instant::now() + open.patience;
    let (request, response) = match serve::receive(&mut stream, end) {
        Ok(request) => {
            let request = request.with_time(open.began.elapsed());
            let response = lock(&open.service).handle(endpoint, &request);
            (Some(request), response)
        }
        Err(ReceiveError::Status(status)) => (None, HttpResponse::from_status(status)),
        Err(ReceiveError::Gone) => return,
    };
    let mut asked = lock(&open.asked);
    if asked.len() < MAX_RECORDS {
        asked.push(MetadataRequest {
            seconds: open.began.elapsed().as_secs_f64(),
            address: endpoint.address().to_string(),
            method: request
                .as_ref()
                .map_or_else(String::new, |r| r.method.clone()),
            target: request
                .as_ref()
                .map_or_else(String::new, HttpRequest::target),
            status: response.status,
        });
    }
    drop(asked);
    serve::send_response(&mut stream, &response, end);
}

/// Relays one connection of the clone from `input` to a server's socket, and back to `output`,
/// until the server closes it. A thread reads `input`; it ends with `input`, or with the process.
pub fn relay_connection(
    socket: &Path,
    mut input: impl Read + Send + 'static,
    mut output: impl Write,
) -> Result<()> {
    let mut back = UnixStream::connect(socket).map_err(|e| relay_error(socket, e))?;
    let mut there = back.try_clone().map_err(|e| relay_error(socket, e))?;
    std::thread::Builder::new()
        .name("relay".into())
        .spawn(move || {
            let _ = std::io::copy(&mut input, &mut there);
            let _ = there.shutdown(Shutdown::Write);
        })
        .map_err(|e| relay_error(socket, e))?;
    std::io::copy(&mut back, &mut output).map_err(|e| relay_error(socket, e))?;
    output.flush().map_err(|e| relay_error(socket, e))
}

fn relay_error(socket: &Path, error: std::io::Error) -> Error {
    Error::io("forward to", socket, error)
}
