//! The server alone, with a board that the test writes on.

use std::sync::Arc;
use std::time::{Duration, Instant};

use winimg::watch::{Board, PagePart, WatchServer};

use support::media;
use support::watch::{Url, status};

const PATIENCE: Duration = Duration::from_millis(500);
const HEARTBEAT: Duration = Duration::from_millis(300);

struct Served {
    board: Arc<Board>,
    server: Option<WatchServer>,
    folder: tempfile::TempDir,
}

impl Served {
    /// The list and one build, whose output folder is `folder`.
    fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let board = Arc::new(Board::default());
        board.add(None);
        let out = folder.path().join("out");
        std::fs::create_dir(&out).expect("a folder");
        assert_eq!(board.add(Some(&out)), 1);
        let server = WatchServer::with_patience(0, Arc::clone(&board), PATIENCE, HEARTBEAT);
        let served = Self {
            board,
            server: Some(server.expect("a server")),
            folder,
        };
        served.show(&[("head", "<h1>node</h1>"), ("now", "<p>install</p>")]);
        served
    }

    fn show(&self, parts: &[(&str, &str)]) {
        let part = |(id, html): &(&str, &str)| PagePart {
            id: (*id).into(),
            html: (*html).into(),
        };
        self.board.show(1, "node", parts.iter().map(part).collect());
    }

    fn url(&self, view: usize) -> Url {
        Url::of(&self.server.as_ref().expect("it runs").url(view))
    }
}

#[test]
fn the_page_runs_its_own_script_alone_and_speaks_with_this_server_alone() {
    let served = Served::new();
    let answer = served.url(1).get("");
    assert_eq!(status(&answer), "HTTP/1.1 200 OK");
    let nonce = answer.split_once("<script nonce=\"").expect("a script").1;
    let nonce = nonce.split('"').next().expect("a nonce");
    let policy = format!(
        "Content-Security-Policy: default-src 'none'; img-src 'self' data:; style-src 'unsafe-inline'; base-uri 'none'; \
         form-action 'none'; frame-ancestors 'none'; script-src 'nonce-{nonce}'; connect-src 'self'\r\n"
    );
    assert!(answer.contains(&policy), "{answer}");
    for part in [
        "Referrer-Policy: no-referrer\r\n",
        "Cache-Control: no-store\r\n",
        "<div data-part=\"head\">\n<h1>node</h1></div>",
        "<div data-part=\"now\" role=\"status\">\n<p>install</p></div>",
    ] {
        assert!(answer.contains(part), "{part}\n{answer}");
    }
    assert!(
        !served.url(1).get("").contains(nonce),
        "a nonce is used once"
    );
}

#[test]
fn what_does_not_know_the_token_or_comes_under_another_name_is_refused() {
    let served = Served::new();
    let Url { host, path } = served.url(1);
    let url = served.url(1);
    let other = format!("/{}{}", "0".repeat(32), &path[33..]);
    let port = host.rsplit_once(':').expect("a port").1;
    let get = |path: &str, host: &str| format!("GET {path} HTTP/1.1\r\nHost: {host}\r\n\r\n");
    for (request, expected) in [
        (get(&path, &host), "200 OK"),
        // A tunnel's port is another.
        (get(&path, "localhost:8080"), "200 OK"),
        (get(&path, "LOCALHOST"), "200 OK"),
        (get(&path, &format!("evil.example:{port}")), "403 Forbidden"),
        (get(&path, "127.0.0.1.evil.example"), "403 Forbidden"),
        (get(&path, ""), "403 Forbidden"),
        (format!("GET {path} HTTP/1.1\r\n\r\n"), "403 Forbidden"),
        (get("/", &host), "404 Not Found"),
        (get("/1/", &host), "404 Not Found"),
        (get(&other, &host), "404 Not Found"),
        (get(&path[..path.len() - 4], &host), "404 Not Found"),
        (get(&format!("{path}nothing"), &host), "404 Not Found"),
        (get(&path.replace("/1/", "/2/"), &host), "404 Not Found"),
        (
            get(&path.replace("/1/", "/2/events"), &host),
            "404 Not Found",
        ),
        (
            get(&path.replace("/1/", "/2/screen"), &host),
            "404 Not Found",
        ),
    ] {
        let answer = url.say(&request);
        assert_eq!(status(&answer), format!("HTTP/1.1 {expected}"), "{request}");
    }
}

#[test]
fn no_method_but_get_is_taken() {
    let served = Served::new();
    let url = served.url(1);
    for method in ["HEAD", "POST", "PUT", "DELETE", "OPTIONS", "TRACE"] {
        let Url { host, path } = &url;
        let answer = url.say(&format!("{method} {path} HTTP/1.1\r\nHost: {host}\r\n\r\n"));
        assert_eq!(
            status(&answer),
            "HTTP/1.1 405 Method Not Allowed",
            "{method}"
        );
        assert!(answer.contains("\r\nAllow: GET\r\n"), "{answer}");
    }
}

#[test]
fn a_change_is_sent_and_what_did_not_change_is_not() {
    let served = Served::new();
    let mut events = served.url(1).events(0);
    assert!(
        events.head.contains("Content-Type: text/event-stream\r\n"),
        "{}",
        events.head
    );
    assert_eq!(
        events.read_next(),
        "event: order\ndata: [\"head\",\"now\"]\n\n"
    );
    assert!(events.read_next().contains("node"));
    assert_eq!(
        events.read_next(),
        "event: part\ndata: {\"id\":\"now\",\"html\":\"<p>install</p>\"}\nid: 1\n\n"
    );
    served.show(&[("head", "<h1>node</h1>"), ("now", "<p>\n\"seal\"</p>")]);
    assert_eq!(
        events.read_next(),
        "event: part\ndata: {\"id\":\"now\",\"html\":\"<p>\\n\\\"seal\\\"</p>\"}\nid: 2\n\n"
    );
    served.board.show_screen(1, b"\x89PNG 1");
    assert_eq!(events.read_next(), "event: screen\ndata: 3\nid: 3\n\n");
    served.board.show_screen(1, b"\x89PNG 1");
    served.show(&[("head", "<h1>node</h1>"), ("now", "<p>\n\"seal\"</p>")]);
    assert_eq!(events.read_next(), ": nothing new\n\n");
    served.show(&[("head", "<h1>node</h1>")]);
    assert_eq!(
        events.read_next(),
        "event: order\ndata: [\"head\"]\nid: 4\n\n"
    );
    let mut later = served.url(1).events(3);
    assert_eq!(
        later.read_next(),
        "event: order\ndata: [\"head\"]\nid: 4\n\n"
    );
    assert!(served.url(1).get("screen").ends_with("PNG 1"));
}

#[test]
fn the_end_of_the_server_is_sent_to_those_who_wait() {
    let mut served = Served::new();
    let mut events = served.url(1).events(9);
    drop(served.server.take());
    assert_eq!(events.read_next(), "event: end\ndata: \n\n");
    assert_eq!(events.read_next(), "");
}

#[test]
fn clients_that_hang_keep_nobody_out_for_long() {
    let served = Served::new();
    let url = served.url(1);
    let silent: Vec<_> = (0..40).map(|_| url.connect()).collect();
    let began = Instant::now();
    while !status(&url.get("")).contains("200") {
        assert!(began.elapsed() < 20 * PATIENCE, "nobody is served");
        std::thread::sleep(PATIENCE / 5);
    }
    drop(silent);
    // One that waits for events and does not read them: what it cannot take is not kept for it.
    let deaf = url.events(0);
    for n in 0..40 {
        let much = format!("<p>{n}{}</p>", "x".repeat(1 << 20));
        served.show(&[("head", &much)]);
        std::thread::sleep(PATIENCE / 25);
    }
    let began = Instant::now();
    while served.board.is_watched(1) {
        assert!(
            began.elapsed() < 20 * PATIENCE,
            "the deaf client is not dropped"
        );
        std::thread::sleep(PATIENCE / 5);
    }
    drop(deaf);
}

#[test]
fn more_streams_than_anybody_looks_at_are_refused() {
    let served = Served::new();
    let url = served.url(1);
    let streams: Vec<_> = (0..16).map(|_| url.events(0)).collect();
    let one_more = url.events(0);
    assert_eq!(status(&one_more.head), "HTTP/1.1 503 Service Unavailable");
    assert_eq!(status(&url.get("")), "HTTP/1.1 200 OK");
    drop(streams);
}

#[test]
fn files_beside_the_page_are_given_and_no_others() {
    let served = Served::new();
    let folder = served.folder.path();
    for (name, text) in [
        ("out/logs/01-a b.log", "it ran <b>"),
        ("out/try/vsphere.html", "<script>alert(1)</script>"),
        ("out/.winimg-work-1/answer.iso", "secret"),
        ("secret.txt", "secret"),
    ] {
        media::put(folder, name, text.as_bytes());
    }
    std::os::unix::fs::symlink("../secret.txt", folder.join("out/link.txt")).expect("a link");
    let hidden = ".winimg-work-1/answer.iso";
    std::os::unix::fs::symlink(hidden, folder.join("out/shown.iso")).expect("a link");
    std::os::unix::fs::symlink(".winimg-work-1", folder.join("out/shown")).expect("a link");
    let large = std::fs::File::create(folder.join("out/disk.raw")).expect("a file");
    large.set_len(33 << 20).expect("a size");
    let url = served.url(1);
    let log = url.get("logs/01-a%20b.log");
    assert!(log.ends_with("it ran <b>"), "{log}");
    assert!(
        log.contains("Content-Type: text/plain; charset=utf-8\r\n"),
        "{log}"
    );
    assert!(log.contains("X-Content-Type-Options: nosniff\r\n"), "{log}");
    let page = url.get("try/vsphere.html");
    assert!(
        page.contains("Content-Type: text/html; charset=utf-8\r\n"),
        "{page}"
    );
    assert!(
        page.contains("default-src 'none'") && !page.contains("script-src"),
        "{page}"
    );
    for name in [
        "../secret.txt",
        "..%2fsecret.txt",
        "%2e%2e/secret.txt",
        "logs/../../secret.txt",
        "logs/%2e%2e/%2e%2e/secret.txt",
        "/etc/passwd",
        "%2fetc/passwd",
        "..%5csecret.txt",
        ".winimg-work-1/answer.iso",
        "shown.iso",
        "shown/answer.iso",
        "logs/../.winimg-work-1/answer.iso",
        "link.txt",
        "disk.raw",
        "logs",
        "logs/",
        "logs/01-a%20b.log%00",
    ] {
        let answer = url.get(name);
        assert_eq!(status(&answer), "HTTP/1.1 404 Not Found", "{name}");
        assert!(!answer.contains("secret"), "{name}");
    }
    let list = served.url(0).get("logs/01-a%20b.log");
    assert_eq!(status(&list), "HTTP/1.1 404 Not Found");
}
