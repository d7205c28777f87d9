//! Azurite, Azure Storage's emulator from npm, with one account and its container, and what Azure's own client for Python says of it.

use std::path::Path;
use std::process::{Command, Stdio};

use support::media::{run, text};
use support::tree;
use tempfile::TempDir;

use crate::publish::place::Server;

pub const ACCOUNT: &str = "winimgtests";
/// `hunter2hunter2hunter2hunter2hunt`
pub const KEY: &str = "aHVudGVyMmh1bnRlcjJodW50ZXIyaHVudGVyMmh1bnQ=";

pub struct Azurite {
    server: Server,
    _folder: TempDir,
}

impl Azurite {
    /// With an empty container `images`.
    pub fn start() -> Self {
        run(
            text(&tree::root().join("tests/publish/azurite/install.sh")),
            &[],
        );
        let folder = tempfile::tempdir().expect("a folder");
        let main = tree::root().join("target/azurite/node_modules/azurite/dist/src/blob/main.js");
        let server = Server::start("Azurite", folder.path(), |port| {
            let mut command = Command::new("node");
            command.arg(&main).args(["--blobHost", "127.0.0.1"]);
            command.args(["--blobPort", &port.to_string()]);
            command.args(["--silent", "--disableTelemetry", "--location"]);
            command.arg(folder.path());
            command.env("AZURITE_ACCOUNTS", format!("{ACCOUNT}:{KEY}"));
            command
        });
        let this = Self {
            server,
            _folder: folder,
        };
        this.client(&["make"]);
        this
    }

    pub fn port(&self) -> u16 {
        self.server.port
    }

    pub fn read(&self, name: &str) -> Vec<u8> {
        self.client(&["read", name])
    }

    /// Its kind, its metadata, and of pages the ranges that were written.
    pub fn about(&self, name: &str) -> serde_json::Value {
        serde_json::from_slice(&self.client(&["about", name])).expect("JSON")
    }

    /// Another blob under this name.
    pub fn put_another(&self, name: &str) {
        self.client(&["put", name]);
    }

    /// A signature for the container.
    pub fn signature(&self) -> String {
        let token = String::from_utf8(self.client(&["sign"])).expect("text");
        token.trim().to_owned()
    }

    fn client(&self, arguments: &[&str]) -> Vec<u8> {
        let root = tree::root();
        run(text(&root.join("tests/record/venv.sh")), &[]);
        let output = Command::new(root.join("target/record-venv/bin/python"))
            .arg(root.join("tests/publish/blobs.py"))
            .args([&endpoint(self.port()), KEY])
            .args(arguments)
            .stdin(Stdio::null())
            .output()
            .expect("Python");
        let complaint = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{complaint}");
        output.stdout
    }
}

/// Of the account, behind this port.
pub fn endpoint(port: u16) -> String {
    format!("http://127.0.0.1:{port}/{ACCOUNT}")
}

/// The runs of pages with data that are not in these ranges, and those of zeros for 64 KiB and more that are.
pub fn misplaced(file: &Path, ranges: &serde_json::Value) -> Vec<String> {
    let bytes = std::fs::read(file).expect("the file");
    let ranges: Vec<(usize, usize)> = serde_json::from_value(ranges.clone()).expect("ranges");
    let mut sent = vec![false; bytes.len() / 512];
    for (start, end) in ranges {
        sent[start / 512..end / 512].fill(true);
    }
    let holds = bytes
        .chunks(512)
        .map(|page| page.iter().any(|byte| *byte != 0));
    let pages: Vec<(bool, bool)> = holds.zip(sent).collect();
    let (mut wrong, mut at) = (Vec::new(), 0);
    for run in pages.chunk_by(|a, b| a.0 == b.0) {
        let data = run[0].0;
        let all = |expected: bool| run.iter().all(|(_, sent)| *sent == expected);
        let is_long = run.len() * 512 >= 64 << 10;
        if (data && !all(true)) || (!data && is_long && !all(false)) {
            wrong.push(format!("{} pages from {at}, with data: {data}", run.len()));
        }
        at += run.len();
    }
    wrong
}
