//! Two hosts and a registry without a cluster: network namespaces, in which each pod has its own folders mounted where its template says.
//! Decides what a Job's controller would, and nothing else: which pod runs again.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::cli::resume::STEPS;
use crate::cli::site::{SEAL, Site};
use crate::pipelines::yaml;
use support::docker_registry::Registry;
use support::tree;

pub const LONGEST: Duration = Duration::from_secs(300);

/// A machine of the cluster.
pub struct Host {
    namespace: String,
    /// What the image holds: a copy of the repository.
    pub checkout: PathBuf,
}

/// Hosts with a line to the registry each.
pub struct Cluster {
    pub site: Site,
    pub registry: Registry,
    pub hosts: Vec<Host>,
    secret: String,
    /// The folder of each pod that was started.
    pub pods: Mutex<Vec<PathBuf>>,
    prefix: String,
}

impl Drop for Cluster {
    fn drop(&mut self) {
        for number in 0..self.hosts.len() {
            self.lose(number);
            let _ = Command::new("ip")
                .args(["netns", "del", &self.hosts[number].namespace])
                .status();
        }
        let _ = Command::new("ip")
            .args(["link", "del", &format!("{}b", self.prefix)])
            .stderr(Stdio::null())
            .status();
    }
}

fn ip(words: &str) {
    let status = Command::new("ip").args(words.split(' ')).status();
    assert!(
        status.expect("iproute2").success(),
        "ip {words}: needs root"
    );
}

/// A bridge of this machine at 10.213.NUMBER.1, and behind it a namespace for each host.
fn wire(prefix: &str, number: usize, hosts: &[Host]) {
    let bridge = format!("{prefix}b");
    ip(&format!("link add {bridge} type bridge"));
    ip(&format!("addr add 10.213.{number}.1/24 dev {bridge}"));
    ip(&format!("link set {bridge} up"));
    for (at, Host { namespace, .. }) in hosts.iter().enumerate() {
        let near = format!("{prefix}v{at}");
        ip(&format!("netns add {namespace}"));
        ip(&format!(
            "link add {near} type veth peer name eth0 netns {namespace}"
        ));
        ip(&format!("link set {near} master {bridge} up"));
        let address = format!("10.213.{number}.{}/24", at + 2);
        ip(&format!("-n {namespace} addr add {address} dev eth0"));
        ip(&format!("-n {namespace} link set eth0 up"));
        ip(&format!("-n {namespace} link set lo up"));
    }
}

impl Cluster {
    /// The matrix, in which `REGISTRY` is the registry's address, and its recipe in a folder of each host; and an empty registry. `number`
    /// tells clusters of one process apart.
    pub fn start(hosts: usize, number: usize, matrix: &str, machine: &str) -> Self {
        let steps = STEPS.replace("\"gold\"", "\"{{tier}}\"");
        let site = Site::new(&format!("[vars]\ntier = \"none\"\n{steps}\n{SEAL}"));
        site.machine(machine, "");
        let keys = minisign::KeyPair::generate_unencrypted_keypair().expect("keys");
        site.write("cache.pub", &keys.pk.to_box().expect("a box").to_string());
        let secret = keys.sk.to_box(None).expect("a box").to_string();
        let prefix = format!("wi{}n{number}", std::process::id() % 100_000);
        let made: Vec<Host> = (0..hosts)
            .map(|host| Host {
                namespace: format!("{prefix}h{host}"),
                checkout: site.path(&format!("host{host}")),
            })
            .collect();
        wire(&prefix, number, &made);
        let registry = Registry::start_on(&format!("10.213.{number}.1"), None);
        let address = format!("10.213.{number}.1:{}", registry.port);
        site.write("nodes.toml", &matrix.replace("REGISTRY", &address));
        let cluster = Self {
            site,
            registry,
            hosts: made,
            secret,
            pods: Mutex::new(Vec::new()),
            prefix,
        };
        for host in &cluster.hosts {
            cluster.check_out(host);
        }
        // That which knows the scripted machine.
        let program = tree::program("winimg-scripted");
        let words = "matrix render nodes.toml --engine kubernetes --output deploy";
        let mut render = Command::new(&program);
        render
            .args(words.split(' '))
            .current_dir(cluster.site.path(""));
        cluster.site.outcome(render).ended_well();
        std::fs::create_dir(cluster.site.path("bin")).expect("a folder");
        std::os::unix::fs::symlink(program, cluster.site.path("bin/winimg")).expect("a link");
        cluster
    }

    fn check_out(&self, host: &Host) {
        std::fs::create_dir(&host.checkout).expect("a folder");
        for entry in std::fs::read_dir(self.site.path("")).expect("a folder") {
            let path = entry.expect("an entry").path();
            if path.is_file() {
                let name = path.file_name().expect("a name");
                std::fs::copy(&path, host.checkout.join(name)).expect("a copy");
            }
        }
    }

    /// Everything that runs there ends at once, as when the power fails.
    pub fn lose(&self, host: usize) {
        let pids = Command::new("ip")
            .args(["netns", "pids", &self.hosts[host].namespace])
            .output()
            .expect("iproute2");
        for pid in String::from_utf8_lossy(&pids.stdout).split_whitespace() {
            let pid = nix::unistd::Pid::from_raw(pid.parse().expect("a number"));
            let _ = nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGKILL);
        }
    }

    fn jobs(&self, file: &str) -> Vec<Value> {
        let found = yaml(&self.site.read(&format!("deploy/{file}")));
        found.as_array().expect("documents").clone()
    }

    /// One attempt at the Job's pod: its containers one after the other, each with its own words, environment and folders. The status
    /// of the last, and what they said.
    fn attempt(&self, host: &Host, job: &Value) -> (Option<i32>, String) {
        let pod = &job["spec"]["template"]["spec"];
        assert_eq!(pod["volumes"][0]["emptyDir"], serde_json::json!({}));
        let folder = {
            let mut pods = self.pods.lock().expect("no panic");
            let folder = self.site.path(&format!("pods/{}", pods.len()));
            pods.push(folder.clone());
            folder
        };
        std::fs::create_dir_all(&folder).expect("a folder");
        let lists = ["initContainers", "containers"].map(|name| pod[name].as_array());
        let mut said = String::new();
        for container in lists.into_iter().flatten().flatten() {
            let output = self.container(host, &folder, container);
            said += &String::from_utf8_lossy(&output.stdout);
            said += &String::from_utf8_lossy(&output.stderr);
            if !output.status.success() {
                return (output.status.code(), said);
            }
        }
        (Some(0), said)
    }

    fn container(&self, host: &Host, folder: &Path, container: &Value) -> std::process::Output {
        let text = |value: &Value| value.as_str().expect("a text").to_owned();
        let workdir = text(&container["workingDir"]);
        let mounted = text(&container["volumeMounts"][0]["mountPath"]);
        assert_eq!((&*workdir, &*mounted), ("/srv/recipes", "/mnt/winimg"));
        let script = "for at in \"$1=$2\" \"$3=$4\"; do
            to=${at%%=*}
            mount -t tmpfs none \"${to%/*}\"
            mkdir \"$to\"
            mount --bind \"${at#*=}\" \"$to\"
        done
        cd \"$1\"
        shift 4
        exec \"$@\"";
        let words = container["command"].as_array().expect("words").iter();
        // As the kubelet does; no word of this pipeline has a variable.
        let words = words.map(|word| text(word).replace("$$", "$"));
        let bin = self.site.path("bin");
        let mut command = Command::new("ip");
        command
            .args(["netns", "exec", &host.namespace])
            .args(["unshare", "-m", "sh", "-euc", script, "sh", &workdir])
            .arg(&host.checkout)
            .arg(&mounted)
            .arg(folder)
            .args(words)
            .env_clear()
            .env(
                "PATH",
                format!("{}:/usr/sbin:/usr/bin:/sbin:/bin", bin.display()),
            )
            .stdin(Stdio::null());
        for variable in container["env"].as_array().expect("a list") {
            let secret = &variable["valueFrom"]["secretKeyRef"];
            let value = match variable["value"].as_str() {
                Some(value) => value.to_owned(),
                None => {
                    assert_eq!(secret["name"], "winimg");
                    assert_eq!(secret["key"], "WINIMG_CACHE_SIGN_KEY");
                    self.secret.clone()
                }
            };
            command.env(text(&variable["name"]), value);
        }
        command.output().expect("iproute2")
    }

    /// All Jobs of a stage to their end, one pod at a time on each host. What each Job's last pod said.
    pub fn stage(&self, file: &str) -> Vec<(String, String)> {
        let jobs = self.jobs(file).into_iter().map(|job| (job, 0));
        let (queue, ended) = (
            Mutex::new(jobs.collect::<VecDeque<(Value, i64)>>()),
            Mutex::new(Vec::new()),
        );
        let busy = std::sync::atomic::AtomicUsize::new(0);
        let work = |host: &Host| {
            let since = Instant::now();
            loop {
                let next = {
                    let mut queue = queue.lock().expect("no panic");
                    let next = queue.pop_front();
                    busy.fetch_add(
                        usize::from(next.is_some()),
                        std::sync::atomic::Ordering::SeqCst,
                    );
                    next
                };
                let Some((job, failed)) = next else {
                    // Another host's pod may have to run again.
                    if busy.load(std::sync::atomic::Ordering::SeqCst) == 0 {
                        return;
                    }
                    assert!(since.elapsed() < LONGEST, "{file} does not end");
                    thread::sleep(Duration::from_millis(50));
                    continue;
                };
                let name = job["metadata"]["name"].as_str().expect("a name").to_owned();
                let (status, said) = self.attempt(host, &job);
                if status == Some(0) {
                    ended.lock().expect("no panic").push((name, said));
                } else {
                    assert!(
                        is_tried_again(&job, status, failed),
                        "{name}: {status:?}\n{said}"
                    );
                    queue.lock().expect("no panic").push_back((job, failed + 1));
                }
                busy.fetch_sub(1, std::sync::atomic::Ordering::SeqCst);
            }
        };
        thread::scope(|scope| {
            for host in &self.hosts {
                scope.spawn(|| work(host));
            }
        });
        ended.into_inner().expect("no panic")
    }

    /// How often Windows was installed, over all pods, those that were lost as well.
    pub fn installations(&self) -> usize {
        let started = r#""event":"phase_started","phase":"install""#;
        let pods = self.pods.lock().expect("no panic");
        let events = pods
            .iter()
            .flat_map(|pod| std::fs::read_dir(pod.join("out")));
        let events = events.flatten().flatten().map(|variant| {
            let path = variant.path().join("events.jsonl");
            std::fs::read_to_string(path).unwrap_or_default()
        });
        events.map(|text| text.matches(started).count()).sum()
    }
}

/// What the Job's controller would do with a pod that failed (Kubernetes: Jobs, pod failure policy and backoff limit).
fn is_tried_again(job: &Value, status: Option<i32>, failed: i64) -> bool {
    let spec = &job["spec"];
    let rules = spec["podFailurePolicy"]["rules"].as_array().expect("rules");
    let ends = rules.iter().any(|rule| {
        let values = rule["onExitCodes"]["values"].as_array();
        let has = values.is_some_and(|v| v.iter().any(|v| v.as_i64() == status.map(i64::from)));
        rule["action"] == "FailJob" && has
    });
    !ends && failed < spec["backoffLimit"].as_i64().expect("a number")
}
