//! Several processes at one store, killed ones, and what only the environment can say.

use std::env;
use std::fs;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use winimg::recipe::ProofWish;

use crate::desk::Desk;
use crate::server::{Answer, Cut, Server};
use crate::transfers::content;

/// Not a test of its own: the others start this binary again for it. Fetches what the environment says.
#[test]
#[ignore = "started by the other tests of this file"]
fn child() {
    let mut desk = Desk::new();
    desk.options.tries = 1;
    let url = env::var("TEST_URL").unwrap();
    let wish: ProofWish = desk.pin_digest(&env::var("TEST_DIGEST").unwrap());
    let store = winimg::store::Store::open(env::var("TEST_STORE").unwrap().as_ref()).unwrap();
    let request = desk.request("kubelet", &url, wish);
    let result = winimg::fetch::fetch(
        vec![request],
        &store,
        desk.events.clone(),
        &desk.cancel,
        &desk.options,
    );
    match result {
        Ok(blobs) => println!("blob {}", blobs[0].path().display()),
        Err(errors) => println!("error {}", errors[0]),
    }
}

fn start(desk: &Desk, url: &str, bytes: &[u8], environment: &[(&str, &str)]) -> Child {
    let digest = winimg::digest::Digest::sha256_of(bytes);
    Command::new(env::current_exe().unwrap())
        .args(["processes::child", "--exact", "--ignored", "--nocapture"])
        .env("TEST_URL", url)
        .env("TEST_DIGEST", digest.to_string())
        .env("TEST_STORE", desk.store().folder())
        .envs(environment.iter().copied())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap()
}

fn said(child: Child) -> String {
    let output = child.wait_with_output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let line = text
        .lines()
        .find(|l| l.starts_with("blob ") || l.starts_with("error "));
    line.unwrap_or(&text).to_string()
}

#[test]
fn two_processes_transfer_a_file_once() {
    let (desk, bytes) = (Desk::new(), content(20));
    let served = bytes.clone();
    let server = Server::start(move |asked| {
        // Long enough for the others to arrive while it goes on.
        std::thread::sleep(Duration::from_millis(500));
        Answer::file(asked, &served, "\"v1\"")
    });
    let url = server.url("/a");
    let children: Vec<_> = (0..3).map(|_| start(&desk, &url, &bytes, &[])).collect();
    for child in children {
        let line = said(child);
        let path = line
            .strip_prefix("blob ")
            .unwrap_or_else(|| panic!("{line}"));
        assert_eq!(fs::read(path).unwrap(), bytes);
    }
    assert_eq!(server.log(), ["GET /a"]);
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
    let mut child = start(&desk, &server.url("/a"), &bytes, &[]);
    let part = || {
        let parts = desk.stored("partial");
        let data = parts.iter().find(|name| name.ends_with(".data"))?;
        fs::metadata(desk.store().folder().join("partial").join(data))
            .ok()
            .map(|m| m.len())
    };
    while part() != Some(70_000) {
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
    let desk = Desk::new();
    let proxy = Server::of(b"by proxy");
    let direct = Server::of(b"directly");
    let through = proxy.url("/");
    for (name, url, others, bytes) in [
        (
            "http_proxy",
            "http://files.example/a",
            vec![],
            &b"by proxy"[..],
        ),
        ("HTTP_PROXY", "http://files.example/b", vec![], b"by proxy"),
        ("all_proxy", "http://files.example/c", vec![], b"by proxy"),
        (
            "http_proxy",
            &direct.url("/d"),
            vec![("no_proxy", "127.0.0.1")],
            b"directly",
        ),
    ] {
        let folder = Desk::new();
        let mut environment = vec![(name, through.as_str())];
        environment.extend(others);
        let line = said(start(&folder, url, bytes, &environment));
        assert!(line.starts_with("blob "), "{name}: {line}");
    }
    drop(desk);
    assert_eq!(
        proxy.log(),
        [
            "GET http://files.example/a",
            "GET http://files.example/b",
            "GET http://files.example/c"
        ]
    );
    assert_eq!(direct.log(), ["GET /d"]);
}
