//! OpenStack's clouds of these tests: a strict stand-in for Keystone and Glance (`glance.py`), and real ones from PyPI (`tests/openstack`).

use std::fs;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use support::media::{run, text};
use support::tree;
use support::unreliable::Unreliable;
use tempfile::TempDir;

use crate::export::fixture::sh;
use crate::publish::place::{Python, Server};

pub type Variables = Vec<(&'static str, String)>;

pub trait Cloud {
    /// Of Keystone.
    fn port(&self) -> u16;
    /// The id of the project `images`.
    fn project(&self) -> String;
    /// The id of an application credential for it.
    fn credential(&self) -> String;
    /// All of this name, hidden or not, as Glance describes them; the oldest first.
    fn images(&self, name: &str) -> Vec<Value>;
    /// How many times a file was sent to the image.
    fn sent(&self, id: &str) -> usize;
    /// Who publishes over lines that are started like this.
    fn over(&self, line: &dyn Fn(u16) -> Unreliable) -> Variables;

    fn variables(&self) -> Variables {
        openrc(self.port())
    }
}

/// As an openrc file sets them, with Keystone at this port.
pub fn openrc(port: u16) -> Variables {
    [
        ("OS_AUTH_URL", format!("http://127.0.0.1:{port}/v3")),
        ("OS_USERNAME", "publisher".into()),
        ("OS_PASSWORD", "hunter2hunter2".into()),
        ("OS_USER_DOMAIN_NAME", "Default".into()),
        ("OS_PROJECT_NAME", "images".into()),
        ("OS_PROJECT_DOMAIN_NAME", "Default".into()),
        ("OS_REGION_NAME", "RegionOne".into()),
    ]
    .into()
}

/// The variables with another value for one of them.
pub fn with(mut variables: Variables, name: &'static str, value: &str) -> Variables {
    variables.retain(|(one, _)| *one != name);
    variables.push((name, value.to_owned()));
    variables
}

/// Keystone and Glance at one port.
pub struct StandIn {
    server: Python,
    _folder: TempDir,
}

impl StandIn {
    pub fn start(words: &[&str]) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let program = tree::root().join("tests/publish/glance.py");
        let program = program.to_str().expect("a path").to_owned();
        let server = Python::start("python", folder.path(), |port| {
            let mut all = vec![program.clone(), port.to_string()];
            all.extend(words.iter().map(|word| (*word).to_owned()));
            all
        });
        Self {
            server,
            _folder: folder,
        }
    }

    fn state(&self, what: &str) -> Vec<Value> {
        let url = format!("http://127.0.0.1:{}/state", self.server.port);
        let state: Value = serde_json::from_str(&sh("curl", &["-sf", &url])).expect("JSON");
        state[what].as_array().expect("a list").clone()
    }
}

impl Cloud for StandIn {
    fn port(&self) -> u16 {
        self.server.port
    }

    fn project(&self) -> String {
        "4f1c3d6e8a5b4d0f9e7c2b1a0f9e8d7c".into()
    }

    fn credential(&self) -> String {
        "credential".into()
    }

    fn images(&self, name: &str) -> Vec<Value> {
        let mut all = self.state("images");
        all.retain(|image| image["name"] == name);
        all
    }

    fn sent(&self, id: &str) -> usize {
        let put = Value::from(format!("PUT /image/v2/images/{id}/file"));
        let requests = self.state("requests");
        requests.iter().filter(|request| **request == put).count()
    }

    fn over(&self, line: &dyn Fn(u16) -> Unreliable) -> Variables {
        // Its catalog names the address that it was asked at.
        openrc(line(self.server.port).port)
    }
}

/// One for all tests; it ends when its standard input does, which is with their process.
pub struct Real {
    _server: Child,
    folder: PathBuf,
    keystone: u16,
    glance: u16,
    started: Value,
}

impl Real {
    pub fn shared() -> &'static Self {
        static STARTED: OnceLock<Real> = OnceLock::new();
        STARTED.get_or_init(Self::start)
    }

    fn start() -> Self {
        run(text(&tree::root().join("tests/openstack/venv.sh")), &[]);
        let folder = tree::root().join("target/openstack");
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder).expect("a folder");
        let (keystone, glance) = (Server::free_port(), Server::free_port());
        let made = tree::root().join("target/tools/openstack/cloud");
        let mut server = Command::new(tree::root().join("target/tools/openstack/venv/bin/python"))
            .arg(tree::root().join("tests/openstack/cloud.py"))
            .arg("serve")
            .args([&made, &folder])
            .args([keystone.to_string(), glance.to_string()])
            .stdin(Stdio::piped())
            .spawn()
            .expect("python");
        let end = Instant::now() + Duration::from_secs(300);
        let started = loop {
            match fs::read(folder.join("started")) {
                Ok(bytes) => break serde_json::from_slice(&bytes).expect("JSON"),
                Err(_) => {
                    let ended = server.try_wait().expect("a state");
                    let logs = folder.display();
                    assert!(ended.is_none(), "OpenStack ended: see the logs in {logs}");
                    assert!(Instant::now() < end, "no OpenStack: see the logs in {logs}");
                }
            }
            thread::sleep(Duration::from_millis(100));
        };
        Self {
            _server: server,
            folder,
            keystone,
            glance,
            started,
        }
    }

    /// What the administrator is answered by curl.
    fn asked(&self, port: u16, path: &str, more: &[&str]) -> Value {
        let token = format!("X-Auth-Token: {}", self.named("token"));
        let url = format!("http://127.0.0.1:{port}{path}");
        let answer = sh("curl", &[&["-sSf", "-H", &token, &url], more].concat());
        serde_json::from_str(&answer).expect("JSON")
    }

    fn made(&self, path: &str, what: &Value) {
        let kind = "Content-Type: application/json";
        self.asked(self.keystone, path, &["-H", kind, "-d", &what.to_string()]);
    }

    fn named(&self, what: &str) -> String {
        self.started[what].as_str().expect("an id").to_owned()
    }
}

impl Cloud for Real {
    fn port(&self) -> u16 {
        self.keystone
    }

    fn project(&self) -> String {
        self.named("project")
    }

    fn credential(&self) -> String {
        self.named("credential")
    }

    fn images(&self, name: &str) -> Vec<Value> {
        let mut all = Vec::new();
        for hidden in [false, true] {
            let path = format!("/v2/images?name={name}&os_hidden={hidden}");
            let page = self.asked(self.glance, &path, &[]);
            all.extend(page["images"].as_array().expect("images").clone());
        }
        all.sort_by_key(|image| image["created_at"].as_str().map(str::to_owned));
        all
    }

    fn sent(&self, id: &str) -> usize {
        let log = fs::read_to_string(self.folder.join("glance.log")).expect("a log");
        log.matches(&format!(" PUT /v2/images/{id}/file ")).count()
    }

    fn over(&self, line: &dyn Fn(u16) -> Unreliable) -> Variables {
        // Its catalog names Glance, which has a region for each line.
        let (keystone, glance) = (line(self.keystone).port, line(self.glance).port);
        let region = format!("line-{glance}");
        self.made("/v3/regions", &json!({ "region": { "id": region } }));
        let endpoint = json!({
            "service_id": self.named("image"),
            "region_id": region,
            "interface": "public",
            "url": format!("http://127.0.0.1:{glance}"),
        });
        self.made("/v3/endpoints", &json!({ "endpoint": endpoint }));
        with(openrc(keystone), "OS_REGION_NAME", &region)
    }
}
