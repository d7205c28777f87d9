//! The socket's threads: one that accepts clients, and one per client.
//!
//! Rejects processes of other users, endless lines, and too many clients.

use std::io::ErrorKind;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use super::wire::{ConsoleReply, ConsoleRequest, LineReader, MAX_REQUEST, write};
use super::{ConsoleShared, ConsoleWork, SOCKET, lock};
use winimg_base::error::{Error, Result};

const MAX_CLIENTS: usize = 8;
/// Timeout for a client to read its reply.
const WRITE_PATIENCE: Duration = Duration::from_secs(10);

/// The open socket in the build's run directory, closed on drop.
pub struct ConsoleSocket {
    path: PathBuf,
    open: Arc<SocketServer>,
}

struct SocketServer {
    shared: Arc<ConsoleShared>,
    clients: Mutex<Vec<(u64, UnixStream)>>,
    closed: AtomicBool,
}

impl ConsoleSocket {
    pub fn open(shared: &Arc<ConsoleShared>) -> Result<Self> {
        let path = shared.run_dir.join(SOCKET);
        let listener = UnixListener::bind(&path).map_err(|e| Error::io("listen on", &path, e))?;
        let open = Arc::new(SocketServer {
            shared: Arc::clone(shared),
            clients: Mutex::default(),
            closed: AtomicBool::default(),
        });
        let served = Arc::clone(&open);
        std::thread::Builder::new()
            .name("console".into())
            .spawn(move || accept_clients(&listener, &served))
            .map_err(|e| Error::io("listen on", &path, e))?;
        Ok(Self { path, open })
    }
}

impl Drop for ConsoleSocket {
    fn drop(&mut self) {
        self.open.closed.store(true, Ordering::SeqCst);
        // Wakes the accepting thread, so that it notices the shutdown.
        let _ = UnixStream::connect(&self.path);
        for (_, stream) in lock(&self.open.clients).drain(..) {
            let _ = stream.shutdown(std::net::Shutdown::Both);
        }
        let _ = std::fs::remove_file(&self.path);
    }
}

fn accept_clients(listener: &UnixListener, open: &Arc<SocketServer>) {
    for (id, stream) in (0_u64..).zip(listener.incoming()) {
        if open.closed.load(Ordering::SeqCst) {
            return;
        }
        match stream {
            Ok(stream) => accept_client(id, stream, open),
            // Out of file descriptors: leave those that become free to the build.
            Err(_) => std::thread::sleep(Duration::from_millis(100)),
        }
    }
}

fn accept_client(id: u64, mut stream: UnixStream, open: &Arc<SocketServer>) {
    if !is_ours(&stream) || stream.set_write_timeout(Some(WRITE_PATIENCE)).is_err() {
        return;
    }
    let Ok(kept) = stream.try_clone() else { return };
    {
        let mut clients = lock(&open.clients);
        if clients.len() >= MAX_CLIENTS {
            drop(clients);
            let _ = write(&mut stream, &ConsoleReply::from_error("too many clients"));
            return;
        }
        clients.push((id, kept));
    }
    let served = Arc::clone(open);
    let spawned = std::thread::Builder::new()
        .name("console client".into())
        .spawn(move || {
            serve(&stream, &served.shared);
            let _ = stream.shutdown(std::net::Shutdown::Both);
            lock(&served.clients).retain(|(other, _)| *other != id);
        });
    if spawned.is_err() {
        lock(&open.clients).retain(|(other, _)| *other != id);
    }
}

/// Returns true if the client runs as this user. The directory is private already; this protects
/// one whose mode was changed.
fn is_ours(stream: &UnixStream) -> bool {
    #[cfg(target_os = "linux")]
    {
        use nix::sys::socket::{getsockopt, sockopt::PeerCredentials};
        getsockopt(stream, PeerCredentials)
            .is_ok_and(|peer| peer.uid() == nix::unistd::getuid().as_raw())
    }
    #[cfg(not(target_os = "linux"))]
    {
        let _ = stream;
        true
    }
}

/// Answers requests until the client disconnects or sends an endless line.
fn serve(stream: &UnixStream, shared: &ConsoleShared) {
    let mut lines = LineReader::new(stream, MAX_REQUEST);
    let mut to = stream;
    loop {
        let line = match lines.next_line() {
            Ok(Some(line)) => line,
            Err(e) if e.kind() == ErrorKind::InvalidData => {
                let _ = write(&mut to, &ConsoleReply::from_error(e));
                return;
            }
            _ => return,
        };
        let answered = match serde_json::from_slice::<ConsoleRequest>(&line) {
            Ok(ask) => handle_request(ask, shared, to),
            Err(e) => write(
                &mut to,
                &ConsoleReply::from_error(format!("unknown request: {e}")),
            ),
        };
        if answered.is_err() {
            return;
        }
    }
}

fn handle_request(
    ask: ConsoleRequest,
    shared: &ConsoleShared,
    mut to: &UnixStream,
) -> std::io::Result<()> {
    let handed = match ask {
        ConsoleRequest::State => {
            let state = lock(&shared.state).clone();
            return write(&mut to, &ConsoleReply::State(state));
        }
        ConsoleRequest::Screen { format } => {
            let reply = match shared.take_screenshot(format) {
                Ok(bytes) => ConsoleReply::from_bytes(Some(&bytes)),
                Err(error) => ConsoleReply::from_error(error),
            };
            return write(&mut to, &reply);
        }
        other => hand_over(shared, other),
    };
    let replies = match handed {
        Ok(replies) => replies,
        Err(why) => return write(&mut to, &ConsoleReply::from_error(why)),
    };
    for reply in replies {
        write(&mut to, &reply)?;
        if reply.is_last() {
            return Ok(());
        }
    }
    write(
        &mut to,
        &ConsoleReply::from_error("the build continued before it handled this request"),
    )
}

fn hand_over(
    shared: &ConsoleShared,
    ask: ConsoleRequest,
) -> Result<Receiver<ConsoleReply>, String> {
    let (reply, replies) = channel();
    let queue = lock(&shared.queue);
    let handed = queue
        .as_ref()
        .map(|q| q.send(ConsoleWork::Asked { ask, reply }));
    match handed {
        Some(Ok(())) => Ok(replies),
        _ => Err(format!(
            "the build is not paused: {}",
            lock(&shared.state).describe_position()
        )),
    }
}
