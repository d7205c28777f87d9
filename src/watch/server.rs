//! The web server of `winimg watch`, on the loopback interface only.
//!
//! Rejects every method but GET; a `Host` other than `127.0.0.1` and `localhost` (a defence against
//! DNS rebinding); and every path that does not start with the token, which is compared in constant
//! time. The number of clients is limited, and slow ones are disconnected. Nothing can be changed
//! through it.

use std::fmt::Write as _;
use std::io::Write as _;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use aws_lc_rs::constant_time::verify_slices_are_equal;
use serde_json::json;

use super::board::{Board, PageChanges};
use super::frame;
use crate::http::serve::{self, ConnectionGate, HttpStream as _, ReceiveError};
use crate::http::{HttpRequest, HttpResponse};
use winimg_base::error::{Error, Kind, Result};
use winimg_base::io;
use winimg_recipe::percent_decoded;

/// Timeout of a request, and of each piece of a response.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);
const MAX_CLIENTS: usize = 32;
/// Maximum number of clients with an open event stream.
const MAX_STREAMS: usize = 16;
/// Interval of keep-alive comments on an idle stream. Writing one detects a closed connection.
const HEARTBEAT: Duration = Duration::from_secs(15);
/// Maximum size of a served file in bytes: disk images are not for browsers.
const MAX_FILE_SIZE: u64 = 32 << 20;

/// The listening server. Dropping it stops the server and disconnects all clients.
pub struct WatchServer {
    address: SocketAddr,
    gate: Arc<ConnectionGate>,
    open: Arc<WatchService>,
}

struct WatchService {
    /// In hexadecimal.
    token: String,
    board: Arc<Board>,
    patience: Duration,
    heartbeat: Duration,
    streams: AtomicUsize,
}

impl WatchServer {
    /// Listens on 127.0.0.1; port 0 selects any free port.
    pub fn open(port: u16, board: Arc<Board>) -> Result<Self> {
        Self::with_patience(port, board, REQUEST_TIMEOUT, HEARTBEAT)
    }

    /// Listens with other timeouts, for tests.
    pub fn with_patience(
        port: u16,
        board: Arc<Board>,
        patience: Duration,
        heartbeat: Duration,
    ) -> Result<Self> {
        let at = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let listener = TcpListener::bind(at).map_err(|e| cannot_listen(at, e))?;
        let address = listener.local_addr().map_err(|e| cannot_listen(at, e))?;
        let open = Arc::new(WatchService {
            token: generate_token()?,
            board,
            patience,
            heartbeat,
            streams: AtomicUsize::default(),
        });
        let gate = Arc::new(ConnectionGate::default());
        let (service_in_thread, gate_in_thread) = (Arc::clone(&open), Arc::clone(&gate));
        std::thread::Builder::new()
            .name("watch".into())
            .spawn(move || {
                let connections = listener.incoming();
                serve::serve_connections(
                    connections,
                    &gate_in_thread,
                    ("watch client", MAX_CLIENTS),
                    move |stream| service_in_thread.serve(stream),
                );
            })
            .map_err(|e| cannot_listen(at, e))?;
        Ok(Self {
            address,
            gate,
            open,
        })
    }

    /// Returns the URL of a view's page, with the token.
    pub fn url(&self, view: usize) -> String {
        let suffix = match view {
            0 => String::new(),
            view => format!("{view}/"),
        };
        format!("http://{}/{}/{suffix}", self.address, self.open.token)
    }
}

impl Drop for WatchServer {
    fn drop(&mut self) {
        self.gate.close();
        self.open.board.close();
        // Wakes the listening thread, so that it ends.
        let _ = TcpStream::connect(self.address);
    }
}

fn cannot_listen(at: SocketAddr, error: std::io::Error) -> Error {
    Error::new(Kind::Host, format!("cannot listen on {at}"))
        .because(error)
        .cure("choose another port with --port")
}

/// Generates 128 random bits in hexadecimal.
fn generate_token() -> Result<String> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).map_err(|e| {
        Error::new(Kind::Host, "the system's random number generator failed")
            .because(std::io::Error::other(e))
    })?;
    Ok(hex::encode(bytes))
}

/// The resource that a path below the token names.
enum WatchResource<'a> {
    Page(usize),
    Events(usize),
    Screen(usize),
    File(usize, &'a str),
}

impl<'a> WatchResource<'a> {
    /// Parses a path such as `2/logs/01-first.log`.
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

impl WatchService {
    fn serve(&self, mut stream: TcpStream) {
        let end = Instant::now() + self.patience;
        let request = match serve::receive(&mut stream, end) {
            Ok(request) => request,
            Err(ReceiveError::Status(status)) => {
                return serve::send_response(&mut stream, &refuse(status), end);
            }
            Err(ReceiveError::Gone) => return,
        };
        let response = match self.admit(&request) {
            Ok(WatchResource::Events(view)) => {
                match self.stream_events(view, &request, &mut stream) {
                    Some(refused) => refused,
                    None => return,
                }
            }
            Ok(resource) => self.find_response(&resource),
            Err(status) => refuse(status),
        };
        serve::send_response(&mut stream, &response, Instant::now() + self.patience);
    }

    /// Returns the requested resource, or the status of the refusal.
    fn admit<'a>(&self, request: &'a HttpRequest) -> std::result::Result<WatchResource<'a>, u16> {
        if !request.header("host").is_some_and(is_own_name) {
            return Err(403);
        }
        if request.method != "GET" {
            return Err(405);
        }
        let (token, path) = request.path[1..].split_once('/').ok_or(404_u16)?;
        verify_slices_are_equal(token.as_bytes(), self.token.as_bytes()).map_err(|_| 404_u16)?;
        Ok(WatchResource::read(path))
    }

    fn find_response(&self, asked: &WatchResource<'_>) -> HttpResponse {
        let found = match asked {
            WatchResource::Page(view) => self.board.snapshot(*view).and_then(|shown| {
                let nonce = generate_token().ok()?;
                let page = frame::render_page(&shown, &nonce);
                Some(add_headers(
                    HttpResponse::ok("text/html; charset=utf-8", page),
                    &frame::render_policy(&nonce),
                ))
            }),
            WatchResource::Screen(view) => self
                .board
                .screen(*view)
                .map(|png| add_headers(HttpResponse::ok("image/png", &*png), frame::NOTHING)),
            WatchResource::File(view, name) => self
                .board
                .folder(*view)
                .and_then(|folder| read_file(&folder, name)),
            WatchResource::Events(_) => None,
        };
        found.unwrap_or_else(|| refuse(404))
    }

    /// Streams changes until the client disconnects or the server ends. Returns a response if no
    /// stream can be started.
    fn stream_events(
        &self,
        view: usize,
        request: &HttpRequest,
        stream: &mut TcpStream,
    ) -> Option<HttpResponse> {
        if self.board.snapshot(view).is_none() {
            return Some(refuse(404));
        }
        let _counted = StreamCount::one_more(&self.streams);
        if self.streams.load(Ordering::SeqCst) > MAX_STREAMS {
            return Some(refuse(503));
        }
        let _client = self.board.register_client(view);
        let mut seen = request
            .header("last-event-id")
            .or_else(|| request.query("since"))
            .and_then(|at| at.parse().ok())
            .unwrap_or(0);
        let head =
            add_headers(HttpResponse::ok("text/event-stream", ""), frame::NOTHING).to_stream_head();
        let mut is_connected =
            stream.set_write_limit(self.patience).is_ok() && stream.write_all(&head).is_ok();
        while is_connected {
            let Some(changes) = self.board.wait(view, seen, self.heartbeat) else {
                let _ = stream.write_all(b"event: end\ndata: \n\n");
                break;
            };
            seen = changes.at;
            is_connected = stream.write_all(render_events(&changes).as_bytes()).is_ok();
        }
        let _ = stream.finish();
        None
    }
}

/// Counts until it is dropped.
struct StreamCount<'a>(&'a AtomicUsize);

impl<'a> StreamCount<'a> {
    fn one_more(count: &'a AtomicUsize) -> Self {
        count.fetch_add(1, Ordering::SeqCst);
        Self(count)
    }
}

impl Drop for StreamCount<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Returns true for this host's names with any port, because a tunnel may use another one.
fn is_own_name(host: &str) -> bool {
    let name = host.rsplit_once(':').map_or(host, |(name, _)| name);
    ["127.0.0.1", "localhost"]
        .iter()
        .any(|own| name.eq_ignore_ascii_case(own))
}

/// Renders server-sent events with one line of JSON each (WHATWG HTML, 9.2). The last one
/// carries the `id`, with which a reconnecting client requests what it missed. Renders a comment if
/// there is no change.
fn render_events(changes: &PageChanges) -> String {
    let order = changes.order.iter().map(|ids| ("order", json!(ids)));
    let parts = changes
        .parts
        .iter()
        .map(|part| ("part", json!({"id": part.id, "html": part.html})));
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

/// Returns an error response with a security policy.
fn refuse(status: u16) -> HttpResponse {
    let response = add_headers(HttpResponse::from_status(status), frame::NOTHING);
    match status {
        405 => response.with_header("Allow", "GET".into()),
        _ => response,
    }
}

fn add_headers(response: HttpResponse, policy: &str) -> HttpResponse {
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
        response.with_header(name, value.to_owned())
    })
}

/// Reads a file that the page links. Serves no files outside the folder and no hidden ones:
/// the disk and the answer file of a VM kept for debugging contain passwords.
fn read_file(folder: &Path, name: &str) -> Option<HttpResponse> {
    let name = percent_decoded(name);
    let has_hidden_part = Path::new(&name)
        .iter()
        .any(|part| part.to_string_lossy().starts_with('.'));
    if has_hidden_part {
        return None;
    }
    // A symlink may point to a hidden file.
    let found = io::find_contained_file(folder, &name).ok()?;
    if found.is_hidden() {
        return None;
    }
    let path = found.path;
    let kind = match path.extension().and_then(|e| e.to_str()) {
        Some("html") => "text/html; charset=utf-8",
        Some("png") => "image/png",
        Some("json") => "application/json",
        _ => "text/plain; charset=utf-8",
    };
    Some(add_headers(
        HttpResponse::ok(kind, io::read_limited(&path, MAX_FILE_SIZE).ok()?),
        frame::FILES,
    ))
}
