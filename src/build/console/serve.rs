//! The socket's threads: one that waits for clients, and one for each of a few clients.
//!
//! Refuses another user's process, a line without an end, and more clients than anyone needs.

use std::io::ErrorKind;
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use super::wire::{Ask, LONGEST_ASK, Lines, Reply, write};
use super::{Shared, lock};

const MOST_CLIENTS: usize = 8;
/// How long a client may take to read what it asked for.
const WRITE_PATIENCE: Duration = Duration::from_secs(10);

pub fn listen(listener: &UnixListener, shared: &Arc<Shared>) {
    for (id, stream) in (0_u64..).zip(listener.incoming()) {
        if shared.closed.load(Ordering::SeqCst) {
            return;
        }
        match stream {
            Ok(stream) => welcome(id, stream, shared),
            // No file descriptor is left: the build's own trouble comes first.
            Err(_) => std::thread::sleep(Duration::from_millis(100)),
        }
    }
}

fn welcome(id: u64, mut stream: UnixStream, shared: &Arc<Shared>) {
    if !is_ours(&stream) || stream.set_write_timeout(Some(WRITE_PATIENCE)).is_err() {
        return;
    }
    let Ok(kept) = stream.try_clone() else { return };
    {
        let mut clients = lock(&shared.clients);
        if clients.len() >= MOST_CLIENTS {
            drop(clients);
            let _ = write(&mut stream, &Reply::refused("too many clients"));
            return;
        }
        clients.push((id, kept));
    }
    let served = Arc::clone(shared);
    let spawned = std::thread::Builder::new()
        .name("console client".into())
        .spawn(move || {
            serve(&stream, &served);
            let _ = stream.shutdown(std::net::Shutdown::Both);
            lock(&served.clients).retain(|(other, _)| *other != id);
        });
    if spawned.is_err() {
        lock(&shared.clients).retain(|(other, _)| *other != id);
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
        other => shared.hand_over(other),
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
