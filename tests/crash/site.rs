//! A folder with a recipe, a server for what it downloads, and a cache that is looked at file by file.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use support::tree;

use serde_json::Value;
use tempfile::TempDir;
use winimg_base::digest::{Algorithm, Digest};
use winimg_base::io::files_below;
use winimg_supply::store::LayerRecord;

use crate::crash::kill::{name, said};
use support::server::{Answer, Server};

pub struct Site {
    dir: TempDir,
    _server: Server,
}

fn bytes(seed: u8, length: usize) -> Vec<u8> {
    (0..length).map(|n| (n as u8).wrapping_mul(seed)).collect()
}

impl Site {
    pub fn new() -> Self {
        let dir = tree::folder();
        let (tool, agent) = (bytes(3, 70_000), bytes(7, 20_000));
        let sha256 = Digest::sha256_of(&tool).hex();
        let (sha512, _) = Digest::of_reader(Algorithm::Sha512, agent.as_slice()).expect("bytes");
        let server = Server::start(move |asked| match asked.path.as_str() {
            "/tool.exe" => Answer::file(asked, &tool, "\"tool\""),
            "/agent.msi" => Answer::file(asked, &agent, "\"agent\""),
            _ => Answer::new("404 Not Found", &[], ""),
        });
        let iso = bytes(5, 9_000);
        fs::write(dir.path().join("windows.iso"), &iso).expect("a file");
        let recipe = format!(
            r#"schema = 1
name = "node"

[media]
image = "datacenter-core"
iso = {{ url = "windows.iso", sha256 = "{}" }}
virtio = {{ url = "windows.iso", unverified = "a test" }}

[components.tool]
url = "{}"
sha256 = "{sha256}"

[components.agent]
url = "{}"
sha512 = "{}"

[outputs]
raw = {{}}

[[steps]]
name = "tool"
copy = {{ component = "tool", to = 'C:\k\tool.exe' }}

[[steps]]
name = "seal"
generalize = {{}}
"#,
            Digest::sha256_of(&iso).hex(),
            server.url("/tool.exe"),
            server.url("/agent.msi"),
            sha512.hex(),
        );
        fs::write(dir.path().join("recipe.toml"), recipe).expect("a file");
        Self {
            dir,
            _server: server,
        }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(tree::winimg());
        command.args(arguments);
        self.here(command)
    }

    /// In this folder, with this cache, and with nothing else of the caller's environment but PATH.
    pub fn here(&self, mut command: Command) -> Command {
        command
            .current_dir(self.dir.path())
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("WINIMG_CACHE_DIR", self.path("cache"))
            // One thread makes most calls, so that the numbers of calls mean much the same in each run.
            .env("TOKIO_WORKER_THREADS", "1")
            .stdin(Stdio::null());
        command
    }

    pub fn run(&self, mut command: Command) {
        let output = command.output().expect("it starts");
        assert!(output.status.success(), "{}", said(&output));
    }

    /// Puts the cache away under another name, or a copy of it back.
    pub fn keep_cache(&self, as_name: &str) {
        fs::rename(self.path("cache"), self.path(as_name)).expect("a cache");
    }

    pub fn bring_cache(&self, name: Option<&str>) {
        let cache = self.path("cache");
        if cache.exists() {
            fs::remove_dir_all(&cache).expect("a cache");
        }
        if let Some(name) = name {
            let status = Command::new("cp")
                .arg("-a")
                .args([self.path(name), cache])
                .status();
            assert!(status.expect("cp starts").success());
        }
    }

    /// Every file of the cache with its bytes; the text `[differs]` where these tell of inodes or processes.
    pub fn cache(&self) -> BTreeMap<String, Vec<u8>> {
        let cache = self.path("cache");
        let mut files = files_below(&cache).expect("a cache");
        // What a URL gave last time only saves a transfer, and a blob that is there needs none.
        files.retain(|file| !file.starts_with("seen/"));
        let files = files.into_iter().map(|file| {
            let differs = file.starts_with("stamps/")
                || file.starts_with("locks/")
                || file.ends_with("/stamps.json");
            let bytes = if differs {
                b"[differs]".to_vec()
            } else {
                fs::read(cache.join(&file)).expect("a file")
            };
            (file, bytes)
        });
        files.collect()
    }

    /// Fails if anything under a final name is not what its name says.
    pub fn whole(&self, when: &str) {
        let cache = self.path("cache");
        for file in files_below(&cache).unwrap_or_default() {
            let path = cache.join(&file);
            let hidden = file.split('/').any(|part| part.starts_with('.'));
            // What is written without a rename is a lease, a lock or a transfer.
            if hidden
                || ["trash/", "leases/", "locks/"]
                    .iter()
                    .any(|f| file.starts_with(f))
            {
                continue;
            }
            let bytes = fs::read(&path).expect("a file");
            if file.starts_with("blobs/") {
                let found = Digest::sha256_of(&bytes).hex();
                assert_eq!(found, name(&path), "{when}: {file}");
            }
            if file.ends_with(".json") {
                let parsed = serde_json::from_slice::<Value>(&bytes);
                assert!(parsed.is_ok(), "{when}: {file}: {parsed:?}");
            }
        }
        self.whole_layers(when);
    }

    fn whole_layers(&self, when: &str) {
        let layers = self.path("cache/layers");
        for entry in fs::read_dir(&layers).into_iter().flatten().flatten() {
            let folder = entry.path();
            if name(&folder).starts_with('.') {
                continue;
            }
            let record = fs::read(folder.join("layer.json")).expect("a record");
            let record: LayerRecord = serde_json::from_slice(&record).expect("a record");
            assert_eq!(record.key.hex(), name(&folder), "{when}");
            for file in &record.files {
                let bytes = fs::read(folder.join(&file.name)).expect("a file of a layer");
                assert_eq!(Digest::sha256_of(&bytes), file.sha256, "{when}");
            }
            let parent = record.parent.map(|p| layers.join(p.hex()));
            assert!(parent.is_none_or(|p: PathBuf| p.is_dir()), "{when}");
        }
    }

    /// Hidden files beside the recipe.
    pub fn hidden(&self) -> Vec<String> {
        let entries = fs::read_dir(self.dir.path()).expect("a folder");
        let names = entries.flatten().map(|e| name(Path::new(&e.file_name())));
        names.filter(|n| n.starts_with('.')).collect()
    }
}
