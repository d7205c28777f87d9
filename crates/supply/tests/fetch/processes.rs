//! Several processes at one store, killed ones, and what only the environment can say.

use std::env;
use std::fs;
use std::path::PathBuf;
use std::process::{Child, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};
use support::tree::this_program_as;

use winimg_base::digest::Digest;
use winimg_base::event::{Event, Sink};
use winimg_recipe::ProofSpec;

use crate::fetch::desk::{Desk, Events};
use crate::fetch::transfers::{content, part_of};
use support::server::{Answer, Cut, Server};

/// Not a test of its own: the others start this binary again for it. Fetches what the environment
/// says, and prints every warning, then the blob or the error.
#[test]
#[ignore = "started by the other tests"]
fn child() {
    let mut desk = Desk::new();
    desk.options.tries = 1;
    let said = |name: &str| env::var(name).ok();
    let spec: ProofSpec = match (said("TEST_DIGEST"), said("TEST_CHECKSUM")) {
        (Some(digest), _) => desk.pin_digest(&digest),
        (None, Some(url)) => desk.checksum(&url),
        (None, None) => desk.unverified("for a test"),
    };
    let store = winimg_supply::store::Store::open(said("TEST_STORE").unwrap().as_ref()).unwrap();
    let request = desk.request("kubelet", &said("TEST_URL").unwrap(), spec);
    let result = winimg_supply::fetch::fetch(
        vec![request],
        &store,
        Arc::new(Heard {
            events: Arc::clone(&desk.events),
            waits: said("TEST_WAITS").map(PathBuf::from),
        }),
        &desk.cancel,
        &desk.options,
    );
    println!("CHILD");
    for warning in desk.warnings() {
        println!("warning {warning}");
    }
    match result {
        Ok(fetched) => println!(
            "blob {}",
            fs::read_to_string(fetched[0].blob.path()).unwrap_or_default()
        ),
        Err(errors) => println!("error {}", desk.text(&errors[0])),
    }
    println!("END");
}

/// Starts another winimg, as far as fetching goes.
pub fn start(desk: &Desk, url: &str, environment: &[(&str, &str)]) -> Child {
    this_program_as(module_path!(), "child")
        .env("TEST_URL", url)
        .env("TEST_STORE", desk.store().folder())
        .envs(environment.iter().copied())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap()
}

/// What it printed.
pub fn said(child: Child) -> String {
    let output = child.wait_with_output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let inner = text
        .split_once("CHILD\n")
        .and_then(|(_, t)| t.split_once("\nEND\n"));
    inner.map_or(text.clone(), |(inner, _)| inner.to_string())
}

/// Hears what a child's fetch says, and leaves a file in a folder when it waits for another
/// process.
struct Heard {
    events: Arc<Events>,
    waits: Option<PathBuf>,
}

impl Sink for Heard {
    fn emit(&self, event: &Event) {
        if let (Event::Note { text }, Some(folder)) = (event, &self.waits)
            && text.ends_with("is fetching it already")
        {
            fs::write(folder.join(std::process::id().to_string()), "").unwrap();
        }
        self.events.emit(event);
    }
}

#[test]
fn two_processes_transfer_a_file_once() {
    let (desk, bytes) = (Desk::new(), content(20));
    let served = bytes.clone();
    let waits = desk.folder.path().join("waits");
    fs::create_dir(&waits).unwrap();
    let folder = waits.clone();
    let server = Server::start(move |asked| {
        // The others have come, and wait, while it goes on.
        let deadline = Instant::now() + Duration::from_secs(60);
        while fs::read_dir(&folder).unwrap().count() < 2 {
            assert!(
                Instant::now() < deadline,
                "two processes wait for the third"
            );
            std::thread::sleep(Duration::from_millis(10));
        }
        Answer::file(asked, &served, "\"v1\"")
    });
    let url = server.url("/a");
    let digest = Digest::sha256_of(&bytes);
    let waits = waits.display().to_string();
    let pinned = [("TEST_DIGEST", digest.to_string()), ("TEST_WAITS", waits)];
    let pinned = pinned.each_ref().map(|(n, v)| (*n, v.as_str()));
    let children: Vec<_> = (0..3).map(|_| start(&desk, &url, &pinned)).collect();
    for child in children {
        let text = said(child);
        assert!(text.starts_with("blob "), "{text}");
    }
    assert_eq!(server.log(), ["GET /a"]);
    assert_eq!(desk.stored("blobs").len(), 1);
}

#[test]
fn a_killed_transfer_leaves_no_blob_and_no_lock_and_is_resumed() {
    let (desk, bytes) = (Desk::new(), content(21));
    let served = bytes.clone();
    let server = Server::start(move |asked| {
        let answer = Answer::file(asked, &served, "\"v1\"");
        if asked.number == 0 {
            answer.cut(70_000, Cut::Hang)
        } else {
            answer
        }
    });
    let digest = Digest::sha256_of(&bytes).to_string();
    let mut child = start(&desk, &server.url("/a"), &[("TEST_DIGEST", &digest)]);
    while part_of(&desk.store()) != Some(70_000) {
        assert!(child.try_wait().unwrap().is_none(), "it ended by itself");
        std::thread::sleep(Duration::from_millis(10));
    }
    // SIGKILL
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(desk.stored("blobs").is_empty());
    let blob = desk.fetch(&server.url("/a"), desk.pin(&bytes)).unwrap();
    assert_eq!(fs::read(blob.path()).unwrap(), bytes);
    assert_eq!(
        server.log(),
        ["GET /a", "GET /a bytes=70000- if-range \"v1\""]
    );
}

#[test]
fn proxies_come_from_the_environment() {
    let proxy = Server::of(b"by proxy");
    let direct = Server::of(b"directly");
    let through = proxy.url("/");
    for (name, url, no_proxy, content) in [
        ("http_proxy", "http://files.example/a", "", "by proxy"),
        ("HTTP_PROXY", "http://files.example/b", "", "by proxy"),
        ("all_proxy", "http://files.example/c", "", "by proxy"),
        ("http_proxy", &direct.url("/d"), "127.0.0.1", "directly"),
        ("http_proxy", &direct.url("/e"), &direct.host(), "directly"),
        ("http_proxy", &direct.url("/f"), "a.example *", "directly"),
        (
            "http_proxy",
            "http://files.example/g",
            "*.other.example",
            "by proxy",
        ),
    ] {
        let digest = Digest::sha256_of(content.as_bytes()).to_string();
        let environment = [
            (name, through.as_str()),
            ("no_proxy", no_proxy),
            ("TEST_DIGEST", &digest),
        ];
        let text = said(start(&Desk::new(), url, &environment));
        assert_eq!(text, format!("blob {content}"), "{name} {url}");
    }
    assert_eq!(
        proxy.log(),
        [
            "GET http://files.example/a",
            "GET http://files.example/b",
            "GET http://files.example/c",
            "GET http://files.example/g"
        ]
    );
    assert_eq!(direct.log(), ["GET /d", "GET /e", "GET /f"]);
}

#[test]
fn a_proxy_that_cannot_be_read_is_warned_about_without_its_value() {
    let direct = Server::of(b"directly");
    let digest = Digest::sha256_of(b"directly").to_string();
    let environment = [
        ("HTTP_PROXY", "http//user:hunter2@proxy.example.com:3128"),
        ("TEST_DIGEST", &digest),
    ];
    let text = said(start(&Desk::new(), &direct.url("/a"), &environment));
    assert_eq!(
        text,
        "warning HTTP_PROXY is ignored: its value is not a proxy address, so it is not used for http addresses\n  \
         expected: such as http://proxy.example.com:3128; https, socks4 and socks5 work, too\n\
         blob directly"
    );
}
