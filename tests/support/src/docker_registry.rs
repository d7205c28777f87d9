//! A registry of container images, on this machine.

use std::fs;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use crate::killed::KilledChild;

/// Debian's docker-registry on a port of its own.
pub struct Registry {
    _child: KilledChild,
    pub port: u16,
    pub folder: tempfile::TempDir,
}

impl Registry {
    pub fn start(htpasswd: Option<&str>) -> Self {
        Self::start_on("127.0.0.1", htpasswd)
    }

    /// At another address of this machine.
    pub fn start_on(address: &str, htpasswd: Option<&str>) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut text = format!(
            "version: 0.1\nlog: {{level: info}}\nstorage: {{filesystem: {{rootdirectory: {}/data}}}}\nhttp: {{addr: \"{address}:0\"}}\n",
            folder.path().display()
        );
        if let Some(line) = htpasswd {
            let path = folder.path().join("htpasswd");
            fs::write(&path, line).unwrap();
            text += &format!(
                "auth: {{htpasswd: {{realm: cache, path: {}}}}}\n",
                path.display()
            );
        }
        let config = folder.path().join("config.yml");
        fs::write(&config, text).unwrap();
        let log = folder.path().join("log");
        let child = Command::new("docker-registry")
            .arg("serve")
            .arg(&config)
            .stdout(Stdio::null())
            .stderr(fs::File::create(&log).unwrap())
            .spawn()
            .expect("Debian's package docker-registry: tests/install-packages.sh");
        let end = Instant::now() + Duration::from_secs(60);
        let port = loop {
            let said = fs::read_to_string(&log).unwrap();
            if let Some(port) = port(&said, address) {
                break port;
            }
            assert!(
                Instant::now() < end,
                "docker-registry does not listen:\n{said}"
            );
            thread::sleep(Duration::from_millis(20));
        };
        Self {
            _child: KilledChild(child),
            port,
            folder,
        }
    }

    /// Changes the bytes of a blob behind the registry's back.
    pub fn change(&self, digest: &str, change: impl FnOnce(&mut Vec<u8>)) {
        let hex = digest.strip_prefix("sha256:").unwrap();
        let blobs = self
            .folder
            .path()
            .join("data/docker/registry/v2/blobs/sha256");
        let path = blobs.join(&hex[..2]).join(hex).join("data");
        let mut bytes = fs::read(&path).unwrap();
        change(&mut bytes);
        fs::write(&path, bytes).unwrap();
    }
}

/// Of `msg="listening on 127.0.0.1:40073"`.
fn port(said: &str, address: &str) -> Option<u16> {
    let (_, after) = said.split_once(&format!("listening on {address}:"))?;
    after.split_once('"')?.0.parse().ok()
}
