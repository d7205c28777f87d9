//! Where a case happens: a folder with a recipe, its media, a scripted QEMU, and an earlier good build in `out`.
//!
//! One is made by hand, all others are copies of it: the copy has what a user would have who built this yesterday.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use support::tree;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use support::media;

/// Longer than any case may take.
const LONGEST: Duration = Duration::from_secs(600);

const RECIPE: &str = r#"
schema = 1
name = "node"

[media]
image = "datacenter-core"

[media.iso]
url = "windows.iso"
unverified = "made by the test"

[media.virtio]
url = "virtio-win.iso"
unverified = "made by the test"

[machine]
disk_size = "64 MiB"

[setup]
timeout = "20s"
still_limit = "4s"

[components.tool]
version = "1.2.0"
url = "tool.exe"
sha256 = "{tool}"

[outputs]
raw = {}

[[steps]]
name = "first"
cmd = "echo hello"
timeout = "3s"

[[steps]]
name = "tool"
copy = { component = "tool", to = 'C:\k\tool.exe' }

[[steps]]
name = "restart"
reboot = {}

[[steps]]
name = "last"
cmd = "echo bye"
timeout = "3s"

[[steps]]
name = "seal"
generalize = {}
"#;

/// A machine on which the recipe goes well. A case's faults and answers stand before the answers here.
const HEAD: &str = r#"
disk = "sealed.qcow2"
transcript = "asked.txt"
accelerators = ["tcg", "hvf"]
"#;

const MARKER: &str = r#"
[files]
'C:\winimg\bootstrap.done' = "stage=0\r\nagent=0\r\nresult=ok\r\n"
"#;

/// What the programs of a good run answer.
pub const ANSWERS: &str = r#"
[[run]]
command = 'C:\Windows\System32\cmd.exe /d /c C:\winimg\payload.cmd *'
if_disc = "payload.iso"

[[run]]
command = 'C:\Windows\System32\cmd.exe /d /c C:\winimg\steps\*.cmd'

[[run]]
command = 'C:\Windows\System32\schtasks.exe /run /tn winimg-seal'
deletes = ['C:\winimg\*']
off_ms = 2000
"#;

/// The reports of Windows about its own state in a good run.
pub const STATES: &str = r#"
[[run]]
command = 'C:\Windows\System32\reg.exe query *\Setup\State /v ImageState'
if_file = 'C:\Windows\System32\Sysprep\Sysprep_succeeded.tag'
output = "\r\n    ImageState    REG_SZ    IMAGE_STATE_GENERALIZE_RESEAL_TO_OOBE\r\n"

[[run]]
command = 'C:\Windows\System32\reg.exe query *\Setup\State /v ImageState'
output = "\r\n    ImageState    REG_SZ    IMAGE_STATE_COMPLETE\r\n"

[[run]]
command = 'C:\Windows\System32\reg.exe query HKLM\SYSTEM\Setup'
output = "\r\n    SystemSetupInProgress    REG_DWORD    0x0\r\n    SetupType    REG_DWORD    0x0\r\n"
"#;

#[derive(Clone, Debug)]
pub struct Site {
    pub dir: PathBuf,
}

/// How a run of winimg ended.
#[derive(Debug)]
pub struct Run {
    /// The exit status; a signal's number below zero.
    pub status: i32,
    pub said: String,
    pub seconds: f64,
}

impl Run {
    /// The first line of the error.
    pub fn cause(&self) -> &str {
        let error = |line: &&str| line.starts_with("error: ");
        self.said
            .lines()
            .find(error)
            .map_or("", |line| &line["error: ".len()..])
    }
}

/// Signals at a moment: as soon as `events.jsonl` holds the text, each after the time given.
#[derive(Clone, Debug)]
pub struct Strike {
    pub when: &'static str,
    pub blows: Vec<(u64, Signal)>,
}

impl Site {
    /// The one that is copied, with an earlier build in `out` and its inputs in the cache.
    pub fn template(dir: PathBuf) -> Self {
        std::fs::create_dir_all(&dir).expect("a folder");
        let site = Self { dir };
        media::windows(&site.path("medium"), &site.path("windows.iso"));
        media::virtio(&site.path("virtio"), &site.path("virtio-win.iso"));
        site.write("tool.exe", "MZ the tool\n");
        sealed_disk(&site.path("made.raw"), &site.path("sealed.qcow2"));
        site.recipe(&[]);
        site.machine("", &[]);
        let built = site.build(&[], None);
        assert_eq!(built.status, 0, "the healthy build:\n{}", built.said);
        site
    }

    pub fn copy(&self, dir: PathBuf) -> Self {
        let (from, to) = (media::text(&self.dir), media::text(&dir));
        media::run("cp", &["-a", "--reflink=auto", from, to]);
        Self { dir }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.join(name)
    }

    pub fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.path(name)).unwrap_or_default()
    }

    pub fn write(&self, name: &str, text: &str) {
        media::put(&self.dir, name, text.as_bytes());
    }

    pub fn recipe(&self, changes: &[(String, String)]) {
        let digest = media::run("sha256sum", &[media::text(&self.path("tool.exe"))]);
        let mut recipe = RECIPE.trim_start().replace("{tool}", &digest[..64]);
        for (from, to) in changes {
            assert!(recipe.contains(from.as_str()), "the recipe has no {from}");
            recipe = recipe.replace(from.as_str(), to);
        }
        self.write("recipe.toml", &recipe);
    }

    /// A new script, counted from its first machine on.
    pub fn machine(&self, faults: &str, changes: &[(String, String)]) {
        let mut script = format!("{HEAD}{MARKER}{faults}{ANSWERS}{STATES}");
        for (from, to) in changes {
            assert!(script.contains(from.as_str()), "the script has no {from}");
            script = script.replace(from.as_str(), to);
        }
        self.write("machine.toml", &script);
        for name in ["machine.toml.machines", "asked.txt"] {
            let _ = std::fs::remove_file(self.path(name));
        }
    }

    pub fn build(&self, more: &[&str], strike: Option<&Strike>) -> Run {
        let mut command = Command::new(tree::winimg());
        let base = ["build", "recipe.toml", "--output", "out", "--no-verify"];
        let accel = if more.contains(&"--accel") {
            &[][..]
        } else {
            &["--accel", "hvf"]
        };
        let log = std::fs::File::create(self.path("said.txt")).expect("a file");
        command.args(base).args(accel).args(more);
        tree::alone(&mut command, &self.dir)
            .env("SOURCE_DATE_EPOCH", "1700000000")
            .env("WINIMG_QEMU", tree::program("fake-qemu"))
            .env("FAKE_QEMU_SCRIPT", self.path("machine.toml"))
            .stdout(Stdio::null())
            .stderr(log);
        self.watch(command, strike)
    }

    /// Runs winimg to its end, or for as long as a case may take.
    pub fn watch(&self, mut command: Command, strike: Option<&Strike>) -> Run {
        let events = self.path("out/events.jsonl");
        if strike.is_some() {
            // An earlier build's events must not be taken for this one's.
            let _ = std::fs::remove_file(&events);
        }
        let began = Instant::now();
        let mut child = command.spawn().expect("winimg starts");
        let pid = Pid::from_raw(i32::try_from(child.id()).expect("a pid"));
        let mut struck = strike.is_none();
        let status = loop {
            if let Some(status) = child.try_wait().expect("a child") {
                break status;
            }
            if !struck
                && let Some(strike) = strike
                && std::fs::read_to_string(&events).is_ok_and(|text| text.contains(strike.when))
            {
                struck = true;
                for (ms, signal) in &strike.blows {
                    std::thread::sleep(Duration::from_millis(*ms));
                    let _ = kill(pid, *signal);
                }
            }
            if began.elapsed() > LONGEST {
                let _ = kill(pid, Signal::SIGKILL);
            }
            std::thread::sleep(Duration::from_millis(3));
        };
        use std::os::unix::process::ExitStatusExt as _;
        Run {
            status: status
                .code()
                .unwrap_or_else(|| -status.signal().unwrap_or(0)),
            said: self.read("said.txt"),
            seconds: began.elapsed().as_secs_f64(),
        }
    }

    /// Processes whose command line names this folder.
    pub fn orphans(&self) -> Vec<String> {
        let name = media::text(&self.dir);
        let ours = |pid: &str| -> Option<String> {
            pid.parse::<u32>().ok()?;
            let line = std::fs::read(format!("/proc/{pid}/cmdline")).ok()?;
            let line = String::from_utf8_lossy(&line).replace('\0', " ");
            line.contains(&format!("{name}/"))
                .then(|| line.chars().take(80).collect())
        };
        // The kernel's signal to a dead build's children needs a moment.
        let deadline = Instant::now() + Duration::from_secs(20);
        loop {
            let all = std::fs::read_dir("/proc").expect("/proc").flatten();
            let found: Vec<String> = all
                .filter_map(|e| ours(&e.file_name().to_string_lossy()))
                .collect();
            if found.is_empty() || Instant::now() > deadline {
                return found;
            }
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// What no build may leave behind once the next has ended: working folders, drafts, hidden parts.
    pub fn leftovers(&self) -> Vec<String> {
        let mut found: Vec<String> = self
            .run_dirs()
            .into_iter()
            .filter(|dir| Path::new(dir).exists())
            .collect();
        let mut todo = vec![self.path("out"), self.path("cache")];
        while let Some(folder) = todo.pop() {
            for entry in std::fs::read_dir(&folder).into_iter().flatten().flatten() {
                let name = entry.file_name().to_string_lossy().into_owned();
                let left = [".winimg-work", ".winimg-new", ".new-", ".tmp-"]
                    .iter()
                    .any(|p| name.starts_with(p))
                    || name.ends_with(".part");
                if left {
                    found.push(entry.path().display().to_string());
                } else if entry.file_type().is_ok_and(|t| t.is_dir()) {
                    todo.push(entry.path());
                }
            }
        }
        found
    }

    /// Where the machines' sockets were.
    fn run_dirs(&self) -> Vec<String> {
        let asked = self.read("asked.txt");
        let dirs = asked.lines().filter_map(|line| {
            line.strip_prefix("machine ")?
                .split_once(" in ")
                .map(|(_, dir)| dir.to_string())
        });
        dirs.collect()
    }

    /// The records and artifacts of the earlier build by their names, each with its bytes' digest. A
    /// build that failed has set them aside.
    pub fn artifacts(&self) -> Vec<String> {
        let folders = [self.path("out"), self.path("out/earlier")];
        let files = folders.iter().flat_map(std::fs::read_dir).flatten();
        let mut all: Vec<String> = files
            .flatten()
            .filter(|e| {
                e.path().is_file()
                    && ["raw", "json"]
                        .iter()
                        .any(|x| e.path().extension().is_some_and(|y| y == *x))
            })
            .map(|e| {
                let said = media::run("sha256sum", &[media::text(&e.path())]);
                let digest = said.split(' ').next().unwrap_or_default();
                format!("{digest} {}", e.file_name().display())
            })
            .collect();
        all.sort();
        all
    }
}

/// A GPT disk as Windows Setup leaves one. The second partition is where the scripted guest keeps its state.
pub fn sealed_disk(raw: &Path, qcow2: &Path) {
    std::fs::File::create(raw)
        .and_then(|f| f.set_len(64 << 20))
        .expect("a disk");
    let layout = [
        "--clear",
        "--new=1:2048:4095",
        "--typecode=1:ef00",
        "--new=2:4096:6143",
        "--typecode=2:0c01",
        "--new=3:6144:120000",
        "--typecode=3:0700",
        media::text(raw),
    ];
    media::run("sgdisk", &layout);
    media::convert(&["-O", "qcow2"], raw, qcow2);
}
