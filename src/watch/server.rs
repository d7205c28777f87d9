//! What a browser asks for, on the loopback interface alone.
//!
//! Refuses every method but GET; a `Host` that is not this host's own name, as a page of another site has it that had its own name
//! resolve to this address (DNS rebinding); and every path that does not begin with the token, which is compared in constant time.
//! Clients are few, and each is dropped that does not send or read in time. Changes nothing.

use std::fmt::Write as _;
use std::io::Write as _;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use aws_lc_rs::constant_time::verify_slices_are_equal;
use serde_json::json;

use super::board::{Board, Changes};
use super::served;
use crate::http::serve::{self, Gate, Refused, Stream as _};
use crate::http::{Request, Response};
use winimg_base::error::{Error, Kind, Result};
use winimg_base::io;
use winimg_recipe::recipe::percent_decoded;

/// For a request, and for each piece of an answer.
const PATIENCE: Duration = Duration::from_secs(10);
const MOST_CLIENTS: usize = 32;
/// Of them those that wait for events, each with its connection open.
const MOST_STREAMS: usize = 16;
/// A line is sent so often where nothing changes: a client that has gone is noticed.
const HEARTBEAT: Duration = Duration::from_secs(15);
/// The largest file of a build that is sent, in bytes: a disk image is not looked at in a browser.
const LARGEST: u64 = 32 << 20;

/// The listening server. Dropped: closed, and each client sent away.
pub struct Server {
    address: SocketAddr,
    gate: Arc<Gate>,
    open: Arc<Open>,
}

struct Open {
    /// In hexadecimal.
    token: String,
    board: Arc<Board>,
    patience: Duration,
    heartbeat: Duration,
    streams: AtomicUsize,
}

impl Server {
    /// Listens on 127.0.0.1; port 0 is any that is free.
    pub fn open(port: u16, board: Arc<Board>) -> Result<Self> {
        Self::with_patience(port, board, PATIENCE, HEARTBEAT)
    }

    /// For tests, which do not wait as long.
    pub fn with_patience(
        port: u16,
        board: Arc<Board>,
        patience: Duration,
        heartbeat: Duration,
    ) -> Result<Self> {
        let at = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let failed = |e: std::io::Error| {
            Error::new(Kind::Host, format!("cannot listen on {at}"))
                .because(e)
                .cure("choose another port: --port")
        };
        let listener = TcpListener::bind(at).map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        let open = Arc::new(Open {
            token: random()?,
            board,
            patience,
            heartbeat,
            streams: AtomicUsize::default(),
        });
        let gate = Arc::new(Gate::default());
        let (kept, counted) = (Arc::clone(&open), Arc::clone(&gate));
        std::thread::Builder::new()
            .name("watch".into())
            .spawn(move || {
                let connections = listener.incoming();
                serve::listen(
                    connections,
                    &counted,
                    ("watch client", MOST_CLIENTS),
                    move |stream| kept.serve(stream),
                );
            })
            .map_err(failed)?;
        Ok(Self {
            address,
            gate,
            open,
        })
    }

    /// The page of a view, with the token.
    pub fn url(&self, view: usize) -> String {
        let below = match view {
            0 => String::new(),
            view => format!("{view}/"),
        };
        format!("http://{}/{}/{below}", self.address, self.open.token)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.gate.close();
        self.open.board.close();
        // Wakes the thread that waits for connections, so that it sees that this is the end.
        let _ = TcpStream::connect(self.address);
    }
}

/// 128 bits as hexadecimal: what nobody guesses.
fn random() -> Result<String> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).map_err(|e| {
        Error::new(Kind::Host, "the system gives no random bytes").because(std::io::Error::other(e))
    })?;
    Ok(hex::encode(bytes))
}

/// What a path below the token names.
enum Asked<'a> {
    Page(usize),
    Events(usize),
    Screen(usize),
    File(usize, &'a str),
}

impl<'a> Asked<'a> {
    /// `2/logs/01-first.log`
    fn read(path: &'a str) -> Self {
        let numbered = path
            .split_once('/')
            .and_then(|(n, rest)| Some((n.parse().ok()?, rest)));
        let (view, name) = numbered.unwrap_or((0, path));
        match name {
            "" => Self::Page(view),
            "events" => Self::Events(view),
            "screen" => Self::Screen(view),
            name => Self::File(view, name),
        }
    }
}

impl Open {
    fn serve(&self, mut stream: TcpStream) {
        let end = Instant::now() + self.patience;
        let request = match serve::receive(&mut stream, end) {
            Ok(request) => request,
            Err(Refused::Status(status)) => return serve::answer(&mut stream, &plain(status), end),
            Err(Refused::Gone) => return,
        };
        let response = match self.admit(&request) {
            Ok(Asked::Events(view)) => match self.stream(view, &request, &mut stream) {
                Some(refused) => refused,
                None => return,
            },
            Ok(asked) => self.answer(&asked),
            Err(status) => plain(status),
        };
        serve::answer(&mut stream, &response, Instant::now() + self.patience);
    }

    /// What is asked for, or the status of the refusal.
    fn admit<'a>(&self, request: &'a Request) -> std::result::Result<Asked<'a>, u16> {
        if !request.header("host").is_some_and(is_own_name) {
            return Err(403);
        }
        if request.method != "GET" {
            return Err(405);
        }
        let (token, path) = request.path[1..].split_once('/').ok_or(404_u16)?;
        verify_slices_are_equal(token.as_bytes(), self.token.as_bytes()).map_err(|_| 404_u16)?;
        Ok(Asked::read(path))
    }

    fn answer(&self, asked: &Asked<'_>) -> Response {
        let found = match asked {
            Asked::Page(view) => self.board.page(*view).and_then(|shown| {
                let nonce = random().ok()?;
                let page = served::page(&shown, &nonce);
                Some(guarded(
                    Response::ok("text/html; charset=utf-8", page),
                    &served::policy(&nonce),
                ))
            }),
            Asked::Screen(view) => self
                .board
                .screen(*view)
                .map(|png| guarded(Response::ok("image/png", &*png), served::NOTHING)),
            Asked::File(view, name) => self
                .board
                .folder(*view)
                .and_then(|folder| file(&folder, name)),
            Asked::Events(_) => None,
        };
        found.unwrap_or_else(|| plain(404))
    }

    /// Sends what changes until the client goes or the server ends; the answer where no stream begins.
    fn stream(&self, view: usize, request: &Request, stream: &mut TcpStream) -> Option<Response> {
        if self.board.page(view).is_none() {
            return Some(plain(404));
        }
        let _counted = Counted::one_more(&self.streams);
        if self.streams.load(Ordering::SeqCst) > MOST_STREAMS {
            return Some(plain(503));
        }
        let _client = self.board.client(view);
        let seen = request
            .header("last-event-id")
            .or_else(|| request.query("since"));
        let mut seen = seen.and_then(|at| at.parse().ok()).unwrap_or(0);
        let head = guarded(Response::ok("text/event-stream", ""), served::NOTHING).head_of_stream();
        let mut wanted =
            stream.patience_to_write(self.patience).is_ok() && stream.write_all(&head).is_ok();
        while wanted {
            let Some(changes) = self.board.wait(view, seen, self.heartbeat) else {
                let _ = stream.write_all(b"event: end\ndata: \n\n");
                break;
            };
            seen = changes.at;
            wanted = stream.write_all(events(&changes).as_bytes()).is_ok();
        }
        let _ = stream.finish();
        None
    }
}

/// Counts until it is dropped.
struct Counted<'a>(&'a AtomicUsize);

impl<'a> Counted<'a> {
    fn one_more(count: &'a AtomicUsize) -> Self {
        count.fetch_add(1, Ordering::SeqCst);
        Self(count)
    }
}

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Any port: one that a tunnel forwards is another than this server's.
fn is_own_name(host: &str) -> bool {
    let name = host.rsplit_once(':').map_or(host, |(name, _)| name);
    ["127.0.0.1", "localhost"]
        .iter()
        .any(|own| name.eq_ignore_ascii_case(own))
}

/// Each event's data is one line of JSON (WHATWG HTML, 9.2). The number stands at the last one: a client that comes back asks for
/// what it did not get. Without a change it is a comment.
fn events(changes: &Changes) -> String {
    let order = changes.order.iter().map(|ids| ("order", json!(ids)));
    let parts = changes.parts.iter();
    let parts = parts.map(|part| ("part", json!({"id": part.id, "html": part.html})));
    let screen = changes.screen.then(|| ("screen", json!(changes.at)));
    let all: Vec<_> = order.chain(parts).chain(screen).collect();
    let Some(last) = all.len().checked_sub(1) else {
        return ": nothing new\n\n".into();
    };
    let mut text = String::new();
    for (n, (name, data)) in all.iter().enumerate() {
        let _ = write!(text, "event: {name}\ndata: {data}\n");
        if n == last {
            let _ = writeln!(text, "id: {}", changes.at);
        }
        text.push('\n');
    }
    text
}

/// A refusal in words.
fn plain(status: u16) -> Response {
    let response = guarded(Response::status(status), served::NOTHING);
    match status {
        405 => response.header("Allow", "GET".into()),
        _ => response,
    }
}

fn guarded(response: Response, policy: &str) -> Response {
    [
        ("Content-Security-Policy", policy),
        ("Cache-Control", "no-store"),
        ("Referrer-Policy", "no-referrer"),
        ("X-Content-Type-Options", "nosniff"),
        ("Cross-Origin-Resource-Policy", "same-origin"),
        ("Cross-Origin-Opener-Policy", "same-origin"),
    ]
    .into_iter()
    .fold(response, |response, (name, value)| {
        response.header(name, value.to_owned())
    })
}

/// A file that the page links. None outside of the folder, and none that is hidden: a kept machine's disk lies there, and its answer
/// file, which holds passwords.
fn file(folder: &Path, name: &str) -> Option<Response> {
    let name = percent_decoded(name);
    let is_hidden = |part: &std::ffi::OsStr| part.to_string_lossy().starts_with('.');
    if Path::new(&name).iter().any(is_hidden) {
        return None;
    }
    // A link may lead to a file that is hidden.
    let found = io::file_within(folder, &name).ok()?;
    let path = Some(found).filter(|found| !found.is_hidden())?.path;
    let kind = match path.extension().and_then(|e| e.to_str()) {
        Some("html") => "text/html; charset=utf-8",
        Some("png") => "image/png",
        Some("json") => "application/json",
        _ => "text/plain; charset=utf-8",
    };
    Some(guarded(
        Response::ok(kind, io::read_limited(&path, LARGEST).ok()?),
        served::FILES,
    ))
}
