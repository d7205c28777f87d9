//! A line to a real server that fails on cue: it refuses, breaks off, or loses the answer of a request that was carried out.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

/// What becomes of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    Pass,
    /// Answered with `503 Service Unavailable`; the server hears nothing of it.
    Refuse,
    /// The connection is closed in the middle of the body.
    Break,
    /// The server carries it out, and its answer is lost.
    Lose,
    /// Neither is it passed on nor answered.
    Hang,
    /// The server gets half of the body, and nothing more until the client is gone.
    Half,
    /// The same, and the server does not hear that the client is gone.
    Keep,
    /// The server gets zeros for a body.
    Spoil,
}

/// Listens on this machine and passes on to another port of it.
pub struct Unreliable {
    pub port: u16,
    asked: Arc<AtomicUsize>,
}

impl Unreliable {
    /// `fate` is asked with the request's number, from 0, and its first line.
    pub fn start(
        upstream: u16,
        fate: impl Fn(usize, &str) -> Fate + Send + Sync + 'static,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = listener.local_addr().expect("an address").port();
        let asked = Arc::new(AtomicUsize::new(0));
        let (fate, counter) = (Arc::new(fate), Arc::clone(&asked));
        thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let (fate, counter) = (Arc::clone(&fate), Arc::clone(&counter));
                // A peer that goes away in the middle is what this is for.
                thread::spawn(move || {
                    let number = counter.fetch_add(1, Ordering::SeqCst);
                    let _ = pass(client, upstream, |line| fate(number, line));
                });
            }
        });
        Self { port, asked }
    }

    /// Every third request fails, in another way each time.
    pub fn every_third(upstream: u16) -> Self {
        Self::start(upstream, |number, _| match number % 9 {
            2 => Fate::Refuse,
            5 => Fate::Break,
            8 => Fate::Lose,
            _ => Fate::Pass,
        })
    }

    /// How many requests came.
    pub fn asked(&self) -> usize {
        self.asked.load(Ordering::SeqCst)
    }
}

/// One request a connection.
fn pass(
    mut client: TcpStream,
    upstream: u16,
    fate: impl FnOnce(&str) -> Fate,
) -> std::io::Result<()> {
    let mut reader = BufReader::new(client.try_clone()?);
    let mut head = String::new();
    let mut length = 0;
    let mut first = String::new();
    reader.read_line(&mut first)?;
    head += &first;
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line)? == 0 || line == "\r\n" {
            break;
        }
        let lower = line.to_ascii_lowercase();
        if let Some(value) = lower.strip_prefix("content-length:") {
            length = value.trim().parse().unwrap_or(0);
        }
        if !lower.starts_with("connection:") {
            head += &line;
        }
    }
    head += "connection: close\r\n\r\n";
    let fate = fate(first.trim());
    let mut body = reader.take(length);
    match fate {
        Fate::Break => {
            std::io::copy(&mut (&mut body).take(length / 2), &mut std::io::sink())?;
            return client.shutdown(Shutdown::Both);
        }
        Fate::Hang => loop {
            thread::park();
        },
        Fate::Refuse => {
            std::io::copy(&mut body, &mut std::io::sink())?;
            client.write_all(
                b"HTTP/1.1 503 Service Unavailable\r\ncontent-length: 0\r\nconnection: close\r\n\r\n",
            )?;
            return client.shutdown(Shutdown::Write);
        }
        Fate::Pass | Fate::Lose | Fate::Half | Fate::Keep | Fate::Spoil => {}
    }
    let mut server = TcpStream::connect(("127.0.0.1", upstream))?;
    server.write_all(head.as_bytes())?;
    match fate {
        Fate::Half | Fate::Keep => {
            std::io::copy(&mut (&mut body).take(length / 2), &mut server)?;
            if fate == Fate::Keep {
                loop {
                    thread::park();
                }
            }
            return std::io::copy(&mut body.into_inner(), &mut std::io::sink()).map(drop);
        }
        Fate::Spoil => {
            std::io::copy(&mut body, &mut std::io::sink())?;
            std::io::copy(&mut std::io::repeat(0).take(length), &mut server)?;
        }
        _ => drop(std::io::copy(&mut body, &mut server)?),
    }
    let mut answer = Vec::new();
    server.read_to_end(&mut answer)?;
    if fate == Fate::Lose {
        return client.shutdown(Shutdown::Both);
    }
    // Every answer ends with its connection.
    let text = answer.windows(4).position(|w| w == b"\r\n\r\n");
    let (head, body) = answer.split_at(text.unwrap_or(0));
    let kept = String::from_utf8_lossy(head);
    let kept = kept
        .split("\r\n")
        .filter(|line| !line.to_ascii_lowercase().starts_with("connection:"))
        .collect::<Vec<_>>()
        .join("\r\n");
    client.write_all(format!("{kept}\r\nconnection: close").as_bytes())?;
    client.write_all(body)?;
    client.shutdown(Shutdown::Write)
}
