//! A recipe, a store and a sink for one test, and what came of them as text.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tempfile::TempDir;
use winimg_base::digest::Digest;
use winimg_base::error::Error;
use winimg_base::event::{Cancel, Event, Sink};
use winimg_base::text::{Located, Place, SourceText};
use winimg_recipe::{
    ContainerImage, DownloadSpec, FileAddress, ImageProof, ImageReference, LockSource, ProofSpec,
};
use winimg_supply::fetch::{FetchOptions, FetchRequest, FetchedFile, fetch};
use winimg_supply::store::{ProgressWatch, Store, StoredBlob};

#[derive(Default)]
pub struct Events(pub Mutex<Vec<Event>>);

impl Sink for Events {
    fn emit(&self, event: &Event) {
        self.0.lock().unwrap().push(event.clone());
    }
}

/// The lock of the recipes here.
pub fn lock_source() -> LockSource {
    LockSource {
        name: "recipe.lock".into(),
        refresh: Some("winimg lock recipe.toml --refresh kubelet".into()),
    }
}

/// A folder with a store and a recipe in it.
pub struct Desk {
    pub folder: TempDir,
    pub events: Arc<Events>,
    pub cancel: Cancel,
    pub options: FetchOptions,
}

impl Desk {
    pub fn new() -> Self {
        Self::with(tempfile::tempdir().unwrap())
    }

    pub fn with(folder: TempDir) -> Self {
        Self {
            folder,
            events: Arc::default(),
            cancel: Cancel::default(),
            options: FetchOptions {
                first_wait: Duration::from_millis(1),
                ..FetchOptions::default()
            },
        }
    }

    pub fn store(&self) -> Store {
        Store::open(&self.folder.path().join("store")).unwrap()
    }

    pub fn write(&self, name: &str, bytes: impl AsRef<[u8]>) -> PathBuf {
        let path = self.folder.path().join(name);
        fs::write(&path, bytes).unwrap();
        path
    }

    /// A place on a line of its own, so that messages show which value they mean.
    pub fn located<T>(&self, line: usize, value: T) -> Located<T> {
        let source = Arc::new(SourceText::new(
            self.folder.path().join("recipe.toml").display().to_string(),
            "\n".repeat(20),
        ));
        Located::new(value, Place::new(&source, line - 1..line - 1))
    }

    /// A path is taken from the recipe's folder.
    fn resolved(&self, url: &str) -> FileAddress {
        match url::Url::parse(url) {
            Ok(url) if url.scheme() == "file" => FileAddress::Local(url.to_file_path().unwrap()),
            Ok(url) => FileAddress::Remote(url),
            Err(_) => FileAddress::Local(self.folder.path().join(url)),
        }
    }

    /// The URL stands on line 3 of the recipe, its proof on line 4.
    pub fn request(&self, name: &str, url: &str, proof: ProofSpec) -> FetchRequest {
        let url = self.located(3, self.resolved(url));
        FetchRequest::new(name.parse().unwrap(), &DownloadSpec::new(url, proof))
    }

    /// A container image: its reference stands on line 3 of the recipe, its proof on line 4.
    pub fn container(&self, reference: &str, proof: ImageProof) -> ContainerImage {
        ContainerImage {
            name: self.located(2, "pause".into()),
            reference: self.located(3, ImageReference::parse(reference).unwrap()),
            proof,
            os_version: None,
            locked: None,
        }
    }

    pub fn pin_image(&self, digest: &str) -> ImageProof {
        ImageProof::Digest(self.located(4, digest.parse().unwrap()))
    }

    pub fn pin(&self, bytes: &[u8]) -> ProofSpec {
        ProofSpec::Digest(self.located(4, Digest::sha256_of(bytes)))
    }

    pub fn pin_digest(&self, digest: &str) -> ProofSpec {
        ProofSpec::Digest(self.located(4, digest.parse().unwrap()))
    }

    pub fn checksum(&self, url: &str) -> ProofSpec {
        ProofSpec::ChecksumFile {
            url: self.located(4, self.resolved(url)),
            entry: None,
            signatures: Vec::new(),
        }
    }

    pub fn unverified(&self, reason: &str) -> ProofSpec {
        ProofSpec::Unverified {
            reason: self.located(4, reason.to_string()),
        }
    }

    pub fn fetched(&self, requests: Vec<FetchRequest>) -> Result<Vec<FetchedFile>, Vec<Error>> {
        let sink = Arc::clone(&self.events) as Arc<dyn Sink>;
        fetch(requests, &self.store(), sink, &self.cancel, &self.options)
    }

    pub fn fetch_all(&self, requests: Vec<FetchRequest>) -> Result<Vec<StoredBlob>, Vec<Error>> {
        let fetched = self.fetched(requests)?.into_iter();
        Ok(fetched.map(|fetched| fetched.blob).collect())
    }

    pub fn fetch(&self, url: &str, proof: ProofSpec) -> Result<StoredBlob, Error> {
        let result = self.fetch_all(vec![self.request("kubelet", url, proof)]);
        result
            .map(|mut blobs| blobs.remove(0))
            .map_err(|mut errors| errors.remove(0))
    }

    pub fn watch(&self) -> ProgressWatch {
        let sink = Arc::clone(&self.events) as Arc<dyn Sink>;
        ProgressWatch::new("kubelet", sink, self.cancel.clone())
    }

    /// An error's whole text with the folder shown as DESK.
    pub fn text(&self, error: &Error) -> String {
        let folder = fs::canonicalize(self.folder.path()).unwrap();
        error
            .to_string()
            .replace(&folder.display().to_string(), "DESK")
            .replace(&self.folder.path().display().to_string(), "DESK")
    }

    pub fn warnings(&self) -> Vec<String> {
        let events = self.events.0.lock().unwrap();
        let texts = events.iter().filter_map(|e| match e {
            Event::Warning { text } => Some(text.clone()),
            _ => None,
        });
        texts.collect()
    }

    /// The files below a folder of the store, relative to it.
    pub fn stored(&self, folder: &str) -> Vec<String> {
        let root = self.store().folder().join(folder);
        let mut files = Vec::new();
        walk(&root, &mut |path| {
            files.push(path.strip_prefix(&root).unwrap().display().to_string());
        });
        files.sort();
        files
    }
}

pub fn walk(folder: &Path, visit: &mut dyn FnMut(&Path)) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            walk(&path, visit);
        } else {
            visit(&path);
        }
    }
}
