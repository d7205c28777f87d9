//! One hostile server that plays every part, by a table: what is refused in which words, and what
//! it costs.
//!
//! Each row runs in a process of its own, whose peak of memory (`VmHWM`) and whose bytes in the
//! cache are measured.

mod answers;
mod client;
mod rows;

use std::process::{Child, Stdio};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use support::server::{Answer, Asked, Server};
use support::tree::this_program_as;

use self::rows::{Part, Row};
use crate::fetch::desk::{Desk, walk};

/// KiB of memory that any row may take: what a fetch of seven bytes takes in a debug build, and
/// some answers of 4 MiB.
const MEMORY: u64 = 64 << 10;
/// Bytes that the lock names in rows with one.
const LOCKED: u64 = 1 << 20;
/// Bytes that any input may have, here.
const LONGEST: u64 = 4 << 20;
/// Records beside the bytes of a file.
const RECORDS: u64 = 64 << 10;
/// What a row may take on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// What came of a row.
struct Outcome {
    text: String,
    /// KiB; `None` where the system does not say.
    memory: Option<u64>,
    disk: u64,
    seconds: f64,
    /// What somebody else's server was asked, and with which credentials.
    elsewhere: Vec<String>,
}

fn played(row: &'static Row) -> Outcome {
    let learnt: Arc<Mutex<Vec<String>>> = Arc::default();
    let noted = Arc::clone(&learnt);
    let elsewhere = Server::start(move |asked| {
        let kind = asked
            .header("authorization")
            .and_then(|w| w.split(' ').next());
        let line = format!(
            "{} {} {}",
            asked.method,
            asked.path.split('?').next().unwrap(),
            kind.unwrap_or("-")
        );
        noted.lock().unwrap().push(line);
        Answer::new("200 OK", &[], "elsewhere")
    });
    let other = elsewhere.url("");
    let answer = move |asked: &Asked| {
        if row.part.plays(asked) {
            (row.answer)(asked, &other)
        } else {
            answers::good(row.part, asked)
        }
    };
    let desk = Desk::new();
    let (server, roots) = if row.tls {
        Server::start_tls(answer)
    } else {
        (Server::start(answer), String::new())
    };
    let roots = desk.write("roots.pem", roots);
    let mut command = this_program_as(
        &module_path!().replace("::hostile", "::hostile::client"),
        "child",
    );
    command
        .env("TEST_STORE", desk.store().folder())
        .env("TEST_ROW", row.name)
        .env("TEST_PART", format!("{:?}", row.part))
        .env("TEST_HOST", server.host())
        .env("TEST_PORT_ELSEWHERE", elsewhere.host())
        .stdout(Stdio::piped());
    if row.tls {
        command.env("SSL_CERT_FILE", roots);
    }
    if row.proxied {
        command.env("http_proxy", server.url(""));
        command.env("no_proxy", "127.0.0.1,localhost");
    }
    let began = Instant::now();
    let said = ended(command.spawn().unwrap(), row.name);
    let seconds = began.elapsed().as_secs_f64();
    let inner = said
        .split_once("CHILD\n")
        .and_then(|(_, t)| t.split_once("\nEND"));
    let (text, memory) = inner.unwrap_or_else(|| panic!("{}: {said}", row.name));
    let text = text.replace(&server.host(), "HOST");
    let text = text.replace(&elsewhere.host(), "ELSEWHERE");
    let by_name = elsewhere.host().replace("127.0.0.1", "localhost");
    let text = text.replace(&by_name, "ELSEWHERE BY NAME");
    let folder = std::fs::canonicalize(desk.folder.path()).unwrap();
    let text = text.replace(&folder.display().to_string(), "DESK");
    let elsewhere = learnt.lock().unwrap().clone();
    Outcome {
        text: shortened(&text),
        memory: memory
            .split_whitespace()
            .next()
            .and_then(|kib| kib.parse().ok()),
        disk: held(&desk),
        seconds,
        elsewhere,
    }
}

/// The child's words; one that does not end is a failure.
fn ended(mut child: Child, row: &str) -> String {
    let began = Instant::now();
    while child.try_wait().unwrap().is_none() {
        if began.elapsed() > PATIENCE {
            let _ = child.kill();
            panic!("{row}: it does not end");
        }
        thread::sleep(Duration::from_millis(10));
    }
    let output = child.wait_with_output().unwrap();
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Without numbers that differ from run to run.
fn shortened(text: &str) -> String {
    let numbers = [
        (r"only \d+ bytes in", "only N bytes in"),
        (r"after \d+ bytes", "after N bytes"),
        (r"sha256:([0-9a-f]{12})[0-9a-f]+", "sha256:${1}…"),
    ];
    numbers.iter().fold(text.to_owned(), |text, (from, to)| {
        let pattern = regex::Regex::new(from).unwrap();
        pattern.replace_all(&text, *to).into_owned()
    })
}

/// Bytes of all files of the cache.
fn held(desk: &Desk) -> u64 {
    let mut bytes = 0;
    walk(desk.store().folder(), &mut |path| {
        bytes += std::fs::metadata(path).map_or(0, |m| m.len());
    });
    bytes
}

/// All rows of a part: their refusals as text, each within its limits.
fn table(part: Part) -> String {
    let mut said = String::new();
    for row in rows::ROWS.iter().filter(|row| row.part == part) {
        let outcome = played(row);
        let name = row.name;
        let shown = outcome
            .memory
            .map_or("?".to_owned(), |kib: u64| kib.to_string());
        println!(
            "{name}: {shown} KiB of {} KiB of memory, {} of {} bytes on disk, {:.1} s",
            MEMORY,
            outcome.disk,
            row.disk() + RECORDS,
            outcome.seconds
        );
        assert!(
            outcome.memory.is_none_or(|kib| kib <= MEMORY),
            "{name}: {shown} KiB"
        );
        assert!(
            outcome.disk <= row.disk() + RECORDS,
            "{name}: {} bytes",
            outcome.disk
        );
        assert!(
            !outcome
                .text
                .contains(winimg_base::display_text::is_invisible),
            "{name}"
        );
        assert_eq!(outcome.elsewhere, row.elsewhere, "{name}");
        said += &format!("# {name}\n{}\n\n", outcome.text);
    }
    said
}

#[test]
fn files() {
    insta::assert_snapshot!(table(Part::File));
}

#[test]
fn files_of_a_lock() {
    insta::assert_snapshot!(table(Part::LockedFile));
}

#[test]
fn checksum_files() {
    insta::assert_snapshot!(table(Part::ChecksumFile));
}

#[test]
fn signatures() {
    insta::assert_snapshot!(table(Part::Signature));
}

#[test]
fn manifests_of_registries() {
    insta::assert_snapshot!(table(Part::Manifest));
}

#[test]
fn blobs_of_registries() {
    insta::assert_snapshot!(table(Part::Blob));
}

#[test]
fn tokens_of_registries() {
    insta::assert_snapshot!(table(Part::Realm) + &table(Part::Token));
}

#[test]
fn uploads_to_registries() {
    let parts = [Part::Place, Part::Upload, Part::Tags];
    insta::assert_snapshot!(parts.map(table).concat());
}
