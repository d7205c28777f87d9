//! Secrets that a test plants, and the search for them in everything that a build leaves or shows.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{BufRead, BufReader, Read, Seek, SeekFrom, Write};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use regex::bytes::Regex;

pub const PASSWORD: &str = "Planted-Admin-42!";
pub const SIGN_PASSWORD: &str = "Planted-Sign-43!";
pub const PRODUCT_KEY: &str = "PLANT-12345-FGHIJ-67890-KLMNO";
/// In the query of a signed URL.
pub const TOKEN: &str = "plantedtoken44abcdef";
pub const PROXY_USER: &str = "plantedproxyuser";
pub const PROXY_PASSWORD: &str = "plantedproxy45";
pub const CACHE_USER: &str = "plantedcacheuser";
pub const CACHE_PASSWORD: &str = "planted-cache-46";
/// Of the registry that knows the two: bcrypt, as its htpasswd file wants it.
pub const CACHE_HTPASSWD: &str =
    "plantedcacheuser:$2b$05$abcdefghijklmnopqrstuu1LAbfL11Ljn58aaRV0fwMwdF2S0Y7SG\n";
pub const PUBLISH_PASSWORD: &str = "planted-publish-47";
pub const PUBLISH_TOKEN: &str = "plantedpublishtoken48";
/// An EC P-256 key that is good for nothing else.
pub const SIGN_KEY: &str = "-----BEGIN PRIVATE KEY-----\n\
MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQgv05Ohhnz0sx2BikW\n\
JzD153kIZ2pwr/AiyFP23F5y0dyhRANCAAQPM8nlv8EEzvSJYCYBGJzuGjtHE5Z7\n\
mKQqRxZIA8n57QqV1AU5rL4fWggx1MoCRovvxkbg5SJt2xjNMjuiZIEf\n\
-----END PRIVATE KEY-----\n";
/// A minisign key that is good for nothing else, and its public half.
pub const CACHE_SIGN_KEY: &str = "untrusted comment: minisign encrypted secret key\n\
RWQAAEIyAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAHowadAdmTMEhYbdi2zPrWya0ou08UkkfeO3FejIReFmsjsquVN2JvJhPI4XkUa0u/YDVgYiDF5fZ6jfac67mLxM9gPNr0KHTAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=\n";
pub const CACHE_KEY: &str = "RWQejBp0B2ZMwZhPI4XkUa0u/YDVgYiDF5fZ6jfac67mLxM9gPNr0KHT";

/// What must not be found, by the names of `docs/secrets.md`.
pub fn planted() -> Vec<(&'static str, Vec<Vec<u8>>)> {
    let proxy = format!("{PROXY_USER}:{PROXY_PASSWORD}");
    let cache = format!("{CACHE_USER}:{CACHE_PASSWORD}");
    vec![
        ("Administrator's password", forms(PASSWORD)),
        ("product key", forms(PRODUCT_KEY)),
        ("signature in a URL's query", forms(TOKEN)),
        (
            "user and password of a proxy",
            [forms(PROXY_PASSWORD), forms(&proxy)].concat(),
        ),
        (
            "key that signs manifest and provenance",
            key_forms(SIGN_KEY),
        ),
        (
            "key that signs layers of a shared cache",
            key_forms(CACHE_SIGN_KEY),
        ),
        (
            "password of a shared cache",
            [forms(CACHE_PASSWORD), forms(&cache)].concat(),
        ),
        ("password of a signing key", forms(SIGN_PASSWORD)),
        (
            "password or token of a server that is published to",
            [forms(PUBLISH_PASSWORD), forms(PUBLISH_TOKEN)].concat(),
        ),
    ]
}

/// Each whole line of the key's base64. The last, short one of a PEM file holds the public half alone.
fn key_forms(text: &str) -> Vec<Vec<u8>> {
    let lines = text.lines().filter(|l| l.len() >= 64 && !l.contains(' '));
    lines.flat_map(forms).collect()
}

/// Every secret that the environment can hold, but for the proxy.
pub const ENVIRONMENT: [(&str, &str); 8] = [
    ("WINIMG_ADMIN_PASSWORD", PASSWORD),
    ("WINIMG_SIGN_PASSWORD", SIGN_PASSWORD),
    ("WINIMG_SIGN_KEY", SIGN_KEY),
    ("WINIMG_CACHE_SIGN_KEY", CACHE_SIGN_KEY),
    ("WINIMG_CACHE_USER", CACHE_USER),
    ("WINIMG_CACHE_PASSWORD", CACHE_PASSWORD),
    ("WINIMG_PUBLISH_PASSWORD", PUBLISH_PASSWORD),
    ("WINIMG_PUBLISH_TOKEN", PUBLISH_TOKEN),
];

/// As it is, in UTF-16, both in base64, and as an answer file encodes passwords.
pub fn forms(secret: &str) -> Vec<Vec<u8>> {
    let utf16 =
        |text: &str| -> Vec<u8> { text.encode_utf16().flat_map(u16::to_le_bytes).collect() };
    let mut forms = vec![secret.as_bytes().to_vec(), utf16(secret)];
    for bytes in [
        secret.as_bytes().to_vec(),
        utf16(secret),
        utf16(&format!("{secret}AdministratorPassword")),
        utf16(&format!("{secret}Password")),
    ] {
        let text = STANDARD.encode(bytes);
        forms.push(utf16(&text));
        forms.push(text.into_bytes());
    }
    forms
}

/// Looks for all of them at once.
pub struct Search {
    names: Vec<&'static str>,
    all: Regex,
    each: Vec<Regex>,
    longest: usize,
}

impl Default for Search {
    fn default() -> Self {
        let planted = planted();
        let pattern = |forms: &[Vec<u8>]| {
            let literal = |form: &Vec<u8>| form.iter().map(|b| format!("\\x{b:02x}")).collect();
            forms.iter().map(literal).collect::<Vec<String>>().join("|")
        };
        let regex = |text: &str| Regex::new(&format!("(?-u:{text})")).expect("a pattern");
        let each: Vec<String> = planted.iter().map(|(_, forms)| pattern(forms)).collect();
        Self {
            names: planted.iter().map(|(name, _)| *name).collect(),
            all: regex(&each.join("|")),
            each: each.iter().map(|text| regex(text)).collect(),
            longest: planted
                .iter()
                .flat_map(|(_, f)| f)
                .map(Vec::len)
                .max()
                .unwrap_or(0),
        }
    }
}

impl Search {
    /// `the product key at 0x10` for each find, at most a few.
    pub fn in_bytes(&self, bytes: &[u8]) -> Vec<String> {
        self.at(bytes, 0)
    }

    fn at(&self, bytes: &[u8], start: u64) -> Vec<String> {
        let found = self.all.find_iter(bytes).take(8).map(|found| {
            let which = self.each.iter().position(|r| r.is_match(found.as_bytes()));
            let name = which.map_or("a secret", |n| self.names[n]);
            format!("{name} at {:#x}", start + found.start() as u64)
        });
        found.collect()
    }

    /// The whole file, holes apart.
    pub fn in_file(&self, path: &Path) -> Vec<String> {
        let mut file = File::open(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        let end = file.metadata().expect("its size").len();
        let (mut found, mut at) = (Vec::new(), 0);
        let mut buffer = vec![0; 8 << 20];
        while at < end {
            // Holes hold nothing: a disk is mostly holes.
            let data = nix::unistd::lseek(&file, at as i64, nix::unistd::Whence::SeekData);
            let Ok(data) = data else { break };
            at = data as u64;
            file.seek(SeekFrom::Start(at)).expect("a place in the file");
            let n = fill(&mut file, &mut buffer);
            found.extend(self.at(&buffer[..n], at));
            if at + n as u64 >= end || n <= self.longest {
                break;
            }
            // What lies across the border is found the next time.
            at += (n - self.longest) as u64;
        }
        found.dedup();
        found
    }

    /// Every file below a folder, by its path there; `but` are paths that may hold them.
    pub fn below(&self, folder: &Path, but: &[&str]) -> Vec<String> {
        let mut found = Vec::new();
        for path in files(folder) {
            let name = path
                .strip_prefix(folder)
                .expect("below")
                .display()
                .to_string();
            if !but.contains(&name.as_str()) {
                let said = self.in_file(&path).into_iter();
                found.extend(said.map(|what| format!("{name}: {what}")));
            }
            found.extend(
                self.in_bytes(name.as_bytes())
                    .into_iter()
                    .map(|what| format!("the name {name}: {what}")),
            );
        }
        found
    }
}

fn fill(file: &mut File, buffer: &mut [u8]) -> usize {
    let mut n = 0;
    while n < buffer.len() {
        match file.read(&mut buffer[n..]).expect("the file's bytes") {
            0 => break,
            more => n += more,
        }
    }
    n
}

/// Every ordinary file below a folder, sorted.
pub fn files(folder: &Path) -> Vec<PathBuf> {
    let (mut found, mut todo) = (Vec::new(), vec![folder.to_owned()]);
    while let Some(at) = todo.pop() {
        for entry in std::fs::read_dir(&at).into_iter().flatten().flatten() {
            match entry.file_type() {
                Ok(kind) if kind.is_dir() => todo.push(entry.path()),
                Ok(kind) if kind.is_file() => found.push(entry.path()),
                _ => {}
            }
        }
    }
    found.sort();
    found
}

/// The command lines of all processes, and the environment of QEMU's, that live for 50 ms or longer while this does.
pub struct Sampler {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<BTreeSet<Vec<u8>>>>,
}

impl Sampler {
    pub fn start() -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let seen = Arc::clone(&stop);
        let thread = std::thread::spawn(move || {
            let qemu = Regex::new("(^|/)qemu-[^/]*$").expect("a pattern");
            let mut lines = BTreeSet::new();
            while !seen.load(Ordering::Relaxed) {
                for entry in std::fs::read_dir("/proc").into_iter().flatten().flatten() {
                    let Ok(line) = std::fs::read(entry.path().join("cmdline")) else {
                        continue;
                    };
                    // What a machine's environment holds, others may read as they read its command line.
                    let program = line.split(|b| *b == 0).next().unwrap_or_default();
                    if qemu.is_match(program)
                        && let Ok(environment) = std::fs::read(entry.path().join("environ"))
                    {
                        lines.insert(
                            [b"environment of ", program, b": ", &environment[..]].concat(),
                        );
                    }
                    lines.insert(line);
                }
                std::thread::sleep(Duration::from_millis(50));
            }
            lines
        });
        Self {
            stop,
            thread: Some(thread),
        }
    }

    pub fn end(mut self) -> BTreeSet<Vec<u8>> {
        self.stop.store(true, Ordering::Relaxed);
        let thread = self.thread.take().expect("a thread");
        thread.join().expect("the sampler ends well")
    }
}

/// A proxy that has every file, and what it was asked for: the first line and `Proxy-Authorization`.
pub struct Proxy {
    pub port: u16,
    pub asked: Arc<Mutex<Vec<String>>>,
}

impl Proxy {
    /// `status`: `200 OK` gives `body`, anything else gives nothing.
    pub fn start(status: &'static str, body: Vec<u8>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = listener.local_addr().expect("its address").port();
        let asked = Arc::new(Mutex::new(Vec::new()));
        let log = Arc::clone(&asked);
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let mut reader = BufReader::new(&stream);
                let mut head = String::new();
                while reader.read_line(&mut head).is_ok_and(|n| n > 2) {}
                log.lock().expect("the log").push(head);
                let length = body.len();
                let mut writer = &stream;
                let _ = write!(
                    writer,
                    "HTTP/1.1 {status}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n"
                );
                let _ = writer.write_all(&body);
            }
        });
        Self { port, asked }
    }

    /// For `http_proxy`.
    pub fn url(&self) -> String {
        format!(
            "http://{PROXY_USER}:{PROXY_PASSWORD}@127.0.0.1:{}/",
            self.port
        )
    }
}
