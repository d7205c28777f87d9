//! The socket's threads: one that waits for clients, and one for each of a few clients.
//!
//! Refuses another user's process, a line without an end, and more clients than anyone needs.

use std::io::ErrorKind;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use super::wire::{Ask, LONGEST_ASK, Lines, Reply, write};
use super::{SOCKET, Shared, Work, lock};
use winimg_base::error::{Error, Result};

const MOST_CLIENTS: usize = 8;
/// How long a client may take to read what it asked for.
const WRITE_PATIENCE: Duration = Duration::from_secs(10);

/// The open socket in the build's run directory. Dropped: closed.
pub struct Socket {
    path: PathBuf,
    open: Arc<Open>,
}

struct Open {
    shared: Arc<Shared>,
    clients: Mutex<Vec<(u64, UnixStream)>>,
    closed: AtomicBool,
}

impl Socket {
    pub fn open(shared: &Arc<Shared>) -> Result<Self> {
        let path = shared.run_dir.join(SOCKET);
        let failed = |e| Error::io("listen on", &path, e);
        let listener = UnixListener::bind(&path).map_err(failed)?;
        let open = Arc::new(Open {
            shared: Arc::clone(shared),
            clients: Mutex::default(),
            closed: AtomicBool::default(),
        });
        let served = Arc::clone(&open);
        std::thread::Builder::new()
            .name("console".into())
            .spawn(move || listen(&listener, &served))
            .map_err(failed)?;
        Ok(Self { path, open })
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        self.open.closed.store(true, Ordering::SeqCst);
        // Wakes the thread that waits for clients, so that it sees that this is the end.
        let _ = UnixStream::connect(&self.path);
        for (_, stream) in lock(&self.open.clients).drain(..) {
            let _ = stream.shutdown(std::net::Shutdown::Both);
        }
        let _ = std::fs::remove_file(&self.path);
    }
}

fn listen(listener: &UnixListener, open: &Arc<Open>) {
    for (id, stream) in (0_u64..).zip(listener.incoming()) {
        if open.closed.load(Ordering::SeqCst) {
            return;
        }
        match stream {
            Ok(stream) => welcome(id, stream, open),
            // No file descriptor is left: the build's own trouble comes first.
            Err(_) => std::thread::sleep(Duration::from_millis(100)),
        }
    }
}

fn welcome(id: u64, mut stream: UnixStream, open: &Arc<Open>) {
    if !is_ours(&stream) || stream.set_write_timeout(Some(WRITE_PATIENCE)).is_err() {
        return;
    }
    let Ok(kept) = stream.try_clone() else { return };
    {
        let mut clients = lock(&open.clients);
        if clients.len() >= MOST_CLIENTS {
            drop(clients);
            let _ = write(&mut stream, &Reply::refused("too many clients"));
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

/// The directory is private already; this holds where it was made less so.
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

/// One question after the other, until the client goes or says something that is none.
fn serve(stream: &UnixStream, shared: &Shared) {
    let mut lines = Lines::new(stream, LONGEST_ASK);
    let mut to = stream;
    loop {
        let line = match lines.next_line() {
            Ok(Some(line)) => line,
            Err(e) if e.kind() == ErrorKind::InvalidData => {
                let _ = write(&mut to, &Reply::refused(e));
                return;
            }
            _ => return,
        };
        let answered = match serde_json::from_slice::<Ask>(&line) {
            Ok(ask) => answer(ask, shared, to),
            Err(e) => write(&mut to, &Reply::refused(format!("no such question: {e}"))),
        };
        if answered.is_err() {
            return;
        }
    }
}

fn answer(ask: Ask, shared: &Shared, mut to: &UnixStream) -> std::io::Result<()> {
    let handed = match ask {
        Ask::State => {
            let state = lock(&shared.state).clone();
            return write(&mut to, &Reply::State(state));
        }
        Ask::Screen { format } => {
            let reply = match shared.picture(format) {
                Ok(bytes) => Reply::bytes(Some(&bytes)),
                Err(error) => Reply::refused(error),
            };
            return write(&mut to, &reply);
        }
        other => hand_over(shared, other),
    };
    let replies = match handed {
        Ok(replies) => replies,
        Err(why) => return write(&mut to, &Reply::refused(why)),
    };
    for reply in replies {
        write(&mut to, &reply)?;
        if reply.is_last() {
            return Ok(());
        }
    }
    write(
        &mut to,
        &Reply::refused("the build went on before it was this line's turn"),
    )
}

fn hand_over(shared: &Shared, ask: Ask) -> Result<Receiver<Reply>, String> {
    let (reply, replies) = channel();
    let queue = lock(&shared.queue);
    let handed = queue.as_ref().map(|q| q.send(Work::Asked { ask, reply }));
    match handed {
        Some(Ok(())) => Ok(replies),
        _ => Err(format!(
            "the build is not paused: {}",
            lock(&shared.state).place()
        )),
    }
}
