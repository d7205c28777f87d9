//! Two machines' caches, and a line to the registry between them that can break.

use std::fs;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use minisign::KeyPair;
use winimg_base::digest::Digest;
use winimg_base::event::{Cancel, Event, Sink};
use winimg_recipe::plan::ExitRule;
use winimg_recipe::plan::chain::{BuildChain, BuildPart, GuestAction};
use winimg_supply::fetch::Timeouts;
use winimg_supply::fetch::shared_cache::{
    CacheAddress, Credentials, PushSettings, SharedCacheClient, SharedCacheSettings, SignFn,
};
use winimg_supply::store::{LayerInfo, Store, StoredLayer};
use winimg_trust::minisign::MinisignRule;

/// What was said.
#[derive(Default)]
pub struct Heard(Mutex<Vec<String>>);

impl Sink for Heard {
    fn emit(&self, event: &Event) {
        let line = match event {
            Event::Note { text } => format!("note: {text}"),
            Event::Warning { text } => format!("warning: {text}"),
            _ => return,
        };
        self.0.lock().unwrap().push(line);
    }
}

/// The text without ports, folders and digests.
pub fn plain(text: &str) -> String {
    let filters = [
        (r"127\.0\.0\.1:\d+", "REGISTRY"),
        (r"/[^ ]*/layers/\.new-[0-9a-f]+", "DRAFT"),
        (r"(sha256:|layer-)[0-9a-f]+", "${1}…"),
    ];
    let mut text = text.to_owned();
    for (pattern, shown) in filters {
        let pattern = regex::Regex::new(pattern).unwrap();
        text = pattern.replace_all(&text, shown).into_owned();
    }
    text
}

pub fn key() -> KeyPair {
    KeyPair::generate_unencrypted_keypair().unwrap()
}

pub fn signing(key: &KeyPair) -> SignFn {
    let (public, secret) = (key.pk.clone(), key.sk.clone());
    Box::new(move |bytes, comment| {
        let signed = minisign::sign(Some(&public), &secret, bytes, Some(comment), None);
        Ok(signed.unwrap().to_string())
    })
}

/// One machine.
pub struct Machine {
    folder: tempfile::TempDir,
    pub store: Store,
    pub heard: Arc<Heard>,
    patience: Timeouts,
}

impl Machine {
    pub fn new() -> Self {
        Self::waiting(60, 60)
    }

    /// One that waits so many seconds for an answer, and without a byte.
    pub fn waiting(answer: u64, stall: u64) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(&folder.path().join("cache")).unwrap();
        Self {
            folder,
            store,
            heard: Arc::default(),
            patience: Timeouts {
                connect: Duration::from_secs(answer),
                slow: Duration::from_secs(600),
                answer: Duration::from_secs(answer),
                stall: Duration::from_secs(stall),
            },
        }
    }

    pub fn remote(
        &self,
        port: u16,
        key: Option<&KeyPair>,
        push: Option<SignFn>,
    ) -> Arc<SharedCacheClient> {
        self.remote_as(port, None, key, push)
    }

    pub fn remote_as(
        &self,
        port: u16,
        credentials: Option<Credentials>,
        key: Option<&KeyPair>,
        push: Option<SignFn>,
    ) -> Arc<SharedCacheClient> {
        let push = push.map(|sign| PushSettings {
            sign,
            is_required: false,
        });
        self.opened(port, credentials, key, push)
    }

    /// One that has to have each finished disk.
    pub fn requiring(&self, port: u16, key: &KeyPair, sign: SignFn) -> Arc<SharedCacheClient> {
        let push = PushSettings {
            sign,
            is_required: true,
        };
        self.opened(port, None, Some(key), Some(push))
    }

    fn opened(
        &self,
        port: u16,
        credentials: Option<Credentials>,
        key: Option<&KeyPair>,
        push: Option<PushSettings>,
    ) -> Arc<SharedCacheClient> {
        let keys = key.map(|key| MinisignRule::new(&key.pk.to_base64()).unwrap());
        let settings = SharedCacheSettings {
            proxies: Default::default(),
            address: CacheAddress::parse(&format!("oci+http://127.0.0.1:{port}/team/cache"))
                .unwrap(),
            login: credentials.into(),
            keys: keys.into_iter().collect(),
            push,
            patience: self.patience,
        };
        let sink: Arc<dyn Sink> = self.heard.clone();
        SharedCacheClient::open(settings, &sink, &Cancel::default()).unwrap()
    }

    /// What was said, without ports, folders and digests.
    pub fn said(&self) -> Vec<String> {
        let all = self.heard.0.lock().unwrap();
        all.iter().map(|line| plain(line)).collect()
    }

    /// Every layer's files with their bytes; what is of this machine alone is left out.
    pub fn layers(&self) -> Vec<(String, Vec<u8>)> {
        let layers = self.store.layers_folder();
        let files = winimg_base::io::files_below(&layers).unwrap();
        let shared = files.into_iter().filter(|f| !f.ends_with("stamps.json"));
        shared
            .map(|f| (f.clone(), fs::read(layers.join(f)).unwrap()))
            .collect()
    }

    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    /// Seals a layer after the first `parts` of a chain, over the layer `parent`.
    pub fn seal(&self, parts: usize, parent: Option<&StoredLayer>, bytes: &[u8]) -> StoredLayer {
        let draft = self.store.create_draft().unwrap();
        fs::write(
            draft.disk_path(winimg_formats::disk::MachineDiskFormat::Qcow2),
            bytes,
        )
        .unwrap();
        fs::write(draft.variables_path(), b"variables").unwrap();
        let chain = chain();
        let about = LayerInfo {
            parent: parent.map(|layer| &layer.record().key),
            recipe: "node",
            links: &chain.links()[..parts],
            notes: serde_json::json!({ "seconds": 0.1 + 0.2 }),
            made: 1_700_000_000,
        };
        self.store.seal(draft, about, &Cancel::default()).unwrap()
    }
}

fn part(script: &str) -> BuildPart {
    BuildPart::Step {
        payload: Vec::new(),
        ops: vec![GuestAction::Script {
            text: script.into(),
            exit: ExitRule::Zero,
        }],
    }
}

pub fn chain() -> BuildChain {
    let mut chain = BuildChain::default();
    for name in ["the installation", "step `one`", "step `two`"] {
        chain.push(name, part(name));
    }
    chain
}

/// Bytes that do not get smaller.
pub fn noise(length: usize, seed: &str) -> Vec<u8> {
    let mut all = Vec::with_capacity(length + 32);
    let mut last = Digest::sha256_of(seed.as_bytes());
    while all.len() < length {
        all.extend_from_slice(last.bytes());
        last = Digest::sha256_of(last.bytes());
    }
    all.truncate(length);
    all
}

/// What becomes of an answer after so many bytes of it.
#[derive(Clone, Copy)]
pub enum Then {
    Close,
    Hang,
}

/// A line to the registry that carries `bytes` of each connection's answers.
pub fn line(port: u16, bytes: usize, then: Then) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let own = listener.local_addr().unwrap().port();
    thread::spawn(move || {
        for near in listener.incoming().flatten() {
            let Ok(far) = TcpStream::connect(("127.0.0.1", port)) else {
                continue;
            };
            let (mut asks, mut answers) = (near.try_clone().unwrap(), far.try_clone().unwrap());
            let mut to = far;
            thread::spawn(move || std::io::copy(&mut asks, &mut to));
            thread::spawn(move || {
                let (mut near, mut left, mut chunk) = (near, bytes, [0; 4096]);
                while let Ok(read) = answers.read(&mut chunk) {
                    let carried = read.min(left);
                    if read == 0 || near.write_all(&chunk[..carried]).is_err() {
                        return;
                    }
                    left -= carried;
                    if left == 0 {
                        if matches!(then, Then::Hang) {
                            thread::sleep(Duration::from_secs(60));
                        }
                        let _ = near.shutdown(std::net::Shutdown::Both);
                        return;
                    }
                }
            });
        }
    });
    own
}

pub fn listens_and_says_nothing() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    thread::spawn(move || {
        let kept: Vec<TcpStream> = listener.incoming().flatten().collect();
        drop(kept);
    });
    port
}

pub fn nobody() -> u16 {
    TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap()
        .port()
}

pub fn blob_of(store: &Store, path: PathBuf) -> winimg_supply::store::StoredBlob {
    use winimg_supply::store::{AdmitCandidate, ExpectedBytes, ProgressWatch};
    let digest = winimg_base::io::compute_sha256(&path).unwrap().0;
    let sink: Arc<dyn Sink> = Arc::new(Heard::default());
    let watch = ProgressWatch::new("input", sink, Cancel::default());
    store
        .admit(
            AdmitCandidate::Local(path),
            ExpectedBytes::Digest(digest),
            &watch,
        )
        .unwrap()
}
