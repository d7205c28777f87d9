//! A folder with a recipe, its media and a fake machine, and the program run in it.

use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;

use regex::Regex;
use tempfile::TempDir;

use support::media;
use support::tree::{self, root};

/// For every time that an output may hold: 2023-11-14 22:13:20 UTC.
pub const EPOCH: &str = "1700000000";

/// Everything of the recipe but its steps.
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
sha256 = "{virtio-win.iso}"

[machine]
disk_bus = "nvme"
disk_size = "64 GiB"

[components.tool]
version = "1.2.0"
url = "tool.exe"
sha256 = "{tool.exe}"

[components.agent]
url = "agent.msi"
sha256 = "{agent.msi}"

[outputs]
raw = {}
"#;

/// What a healthy guest answers; a test's own answers stand before it. What is not here ends with 9009.
const HEALTHY: &str = r#"
[[run]]
command = 'C:\Windows\System32\cmd.exe /d /c C:\winimg\payload.cmd *'

[[run]]
command = 'C:\Windows\System32\cmd.exe /d /c C:\winimg\steps\*.cmd'

[[run]]
command = 'C:\Windows\System32\reg.exe add *'

[[run]]
command = 'C:\Windows\System32\msiexec.exe /i *'

[[run]]
command = 'C:\Windows\System32\schtasks.exe /run /tn winimg-seal'
outcome = "powers-off"

[[run]]
command = 'C:\Windows\System32\reg.exe query *\Setup\State /v ImageState'
times = 1
output = "\r\n    ImageState    REG_SZ    IMAGE_STATE_COMPLETE\r\n"

[[run]]
command = 'C:\Windows\System32\reg.exe query HKLM\SYSTEM\Setup'
output = "\r\n    SystemSetupInProgress    REG_DWORD    0x0\r\n    SetupType    REG_DWORD    0x0\r\n"

[[run]]
command = 'C:\Windows\System32\reg.exe query *\Setup\State /v ImageState'
output = "\r\n    ImageState    REG_SZ    IMAGE_STATE_GENERALIZE_RESEAL_TO_OOBE\r\n"
"#;

const BOOTSTRAPPED: &str = r#"
[files]
'C:\winimg\bootstrap.done' = "stage=0\r\nagent=0\r\nresult=ok\r\n"
"#;

/// One step that seals.
pub const SEAL: &str = "[[steps]]\nname = \"seal\"\ngeneralize = {}\n";

/// A folder for one test, removed with it.
pub struct Site {
    dir: TempDir,
}

impl Site {
    /// Media, components and a sealed disk; the recipe with `steps`, and a healthy machine.
    pub fn new(steps: &str) -> Self {
        let tools = [
            "genisoimage",
            "wimlib-imagex",
            "mkfs.vfat",
            "sgdisk",
            "qemu-img",
        ];
        assert!(
            media::have(&tools),
            "tests/install-packages.sh installs what is missing"
        );
        let dir = tree::folder();
        let site = Self { dir };
        media::windows(&site.path("medium"), &site.path("windows.iso"));
        media::virtio(&site.path("virtio"), &site.path("virtio-win.iso"));
        site.write("tool.exe", "MZ the tool\n");
        site.write("agent.msi", "the agent's package\n");
        std::fs::write(site.path("sealed.qcow2"), sealed_disk()).expect("a disk");
        site.recipe(steps);
        site.machine("", "");
        site
    }

    /// The same with steps, a seal and every format.
    pub fn with_every_output(steps: &str) -> Self {
        let site = Self::new(&format!("{steps}\n{SEAL}"));
        let every = "raw = {}\nvhd = {}\nqcow2 = {}\nova = {}\nami = {}\n";
        let recipe = site.read("recipe.toml");
        site.write("recipe.toml", &recipe.replace("raw = {}\n", every));
        site
    }

    /// An empty folder: another machine.
    pub fn empty() -> Self {
        let dir = tree::folder();
        Self { dir }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    pub fn read(&self, name: &str) -> String {
        let path = self.path(name);
        std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
    }

    pub fn write(&self, name: &str, text: &str) {
        media::put(self.dir.path(), name, text.as_bytes());
    }

    pub fn recipe(&self, steps: &str) {
        let mut recipe = RECIPE.trim_start().to_string();
        for file in ["virtio-win.iso", "tool.exe", "agent.msi"] {
            let digest = media::run("sha256sum", &[media::text(&self.path(file))]);
            recipe = recipe.replace(&format!("{{{file}}}"), &digest[..64]);
        }
        self.write("recipe.toml", &format!("{recipe}\n{steps}"));
    }

    /// The machine of `BOOTSTRAPPED` and `HEALTHY`, with `head` (top-level keys and tables) and `answers` before them.
    /// Layers that another machine left are gone: they would stand for what this one is to show.
    pub fn machine(&self, head: &str, answers: &str) {
        let _ = std::fs::remove_dir_all(self.path("cache/layers"));
        self.another_machine(head, answers);
    }

    /// Another machine in place of the one whose layers are kept.
    pub fn another_machine(&self, head: &str, answers: &str) {
        let head = if head.contains("[files]") {
            head.to_string()
        } else {
            format!("{head}\n{BOOTSTRAPPED}")
        };
        self.write(
            "machine.toml",
            &format!(
                "transcript = \"asked.txt\"\ndisk = \"sealed.qcow2\"\n{head}\n{answers}\n{HEALTHY}"
            ),
        );
    }

    /// The program with these arguments, in this folder, with nothing of the caller's environment but PATH.
    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(program(arguments));
        // As the usage names it.
        command.arg0("winimg").args(arguments);
        tree::alone(&mut command, self.dir.path()).env("SOURCE_DATE_EPOCH", EPOCH);
        command
    }

    pub fn run(&self, arguments: &[&str]) -> Outcome<'_> {
        self.outcome(self.command(arguments))
    }

    pub fn outcome(&self, mut command: Command) -> Outcome<'_> {
        self.ended(command.output().expect("winimg starts"))
    }

    pub fn ended(&self, output: Output) -> Outcome<'_> {
        Outcome { output, site: self }
    }

    /// `winimg build recipe.toml` on the fake machine, into `out`.
    pub fn build(&self, more: &[&str]) -> Outcome<'_> {
        self.run(&[&BUILD, more].concat())
    }

    /// The guest's side of the story.
    pub fn asked(&self) -> String {
        self.read("asked.txt")
    }

    /// Every file below a folder, sorted, with slashes.
    pub fn files(&self, folder: &str) -> Vec<String> {
        let top = self.path(folder);
        let mut files = Vec::new();
        let mut todo = vec![top.clone()];
        while let Some(at) = todo.pop() {
            for entry in std::fs::read_dir(&at).into_iter().flatten().flatten() {
                let path = entry.path();
                if path.is_dir() {
                    todo.push(path);
                } else {
                    let name = path.strip_prefix(&top).expect("below the top");
                    files.push(media::text(name).to_string());
                }
            }
        }
        files.sort();
        files
    }

    /// The text without what differs from run to run: this folder, times, digests, random names.
    pub fn filtered(&self, text: &str) -> String {
        let text = text
            .replace(media::text(self.dir.path()), "/site")
            .replace(media::text(root()), "/source");
        // Another test's leftovers in the directory for sockets, which all builds of a user share.
        let lines = text
            .lines()
            .filter(|l| !l.contains("removing leftovers of an interrupted build: /tmp/winimg-"));
        let mut text = lines.map(|l| l.to_string() + "\n").collect::<String>();
        for (pattern, to) in [
            (r"(?m)^ *\d+:\d\d ", "[time] "),
            (r"(done|sealed) in (\d+ min )?[0-9.]+ s", "$1 in [seconds]"),
            (r"\b[0-9a-f]{64}\b", "[digest]"),
            (r"sha256/[0-9a-f]{2}/", "sha256/[di]/"),
            (r"\.winimg-work-[0-9a-f]{8}", ".winimg-work-[id]"),
            (r"layers/\.new-[0-9a-f]{8}", "layers/.new-[id]"),
            (r"/tmp/winimg-\d+/", "/run/"),
            (r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z", "[moment]"),
            (r#"seconds": ?[0-9.e-]+"#, r#"seconds":0"#),
        ] {
            let pattern = Regex::new(pattern).expect("a pattern");
            text = pattern.replace_all(&text, to).into_owned();
        }
        text
    }
}

/// The fake machine's disk holds no Windows; `verify.rs` builds with one that does.
pub const BUILD: [&str; 7] = [
    "build",
    "recipe.toml",
    "--hypervisor",
    "fake:machine.toml",
    "--output",
    "out",
    "--no-verify",
];

/// The scripted machine is in a program of its own, which is winimg but for that.
pub fn program(arguments: &[&str]) -> PathBuf {
    if arguments.iter().any(|a| a.starts_with("fake:")) {
        tree::program("winimg-scripted")
    } else {
        tree::winimg()
    }
}

/// Keeps the work of a build that fails: its discs.
pub const KEEP: [&str; 8] = [
    "build",
    "recipe.toml",
    "--hypervisor",
    "fake:machine.toml",
    "--output",
    "out",
    "--on-error",
    "keep",
];

/// What the program said and how it ended.
pub struct Outcome<'a> {
    pub output: Output,
    site: &'a Site,
}

impl Outcome<'_> {
    pub fn status(&self) -> Option<i32> {
        self.output.status.code()
    }

    pub fn stdout(&self) -> String {
        self.site
            .filtered(&String::from_utf8_lossy(&self.output.stdout))
    }

    pub fn stderr(&self) -> String {
        self.site
            .filtered(&String::from_utf8_lossy(&self.output.stderr))
    }

    /// What standard error says from `error:` on.
    pub fn error(&self) -> String {
        let said = self.stderr();
        match said.find("error: ") {
            Some(at) => said[at..].to_string(),
            None => String::new(),
        }
    }

    /// Status and the error, for a golden text.
    pub fn failure(&self) -> String {
        let status = self.output.status;
        format!("{status}\n{}", self.error())
    }

    /// Everything: status, standard output, standard error.
    pub fn whole(&self) -> String {
        let status = self.output.status;
        format!(
            "{status}\n--- standard output\n{}--- standard error\n{}",
            self.stdout(),
            self.stderr()
        )
    }

    /// Fails with all it said unless it ended well.
    pub fn ended_well(self) -> Self {
        assert_eq!(self.status(), Some(0), "{}", self.whole());
        self
    }
}

/// A GPT disk as Windows Setup leaves one, in 8 MiB, as qcow2. Made once: sgdisk waits a second for the kernel.
fn sealed_disk() -> &'static [u8] {
    static DISK: OnceLock<Vec<u8>> = OnceLock::new();
    DISK.get_or_init(|| {
        let dir = tempfile::tempdir().expect("a folder");
        let qcow2 = dir.path().join("sealed.qcow2");
        partitioned(&dir.path().join("made.raw"), &qcow2);
        std::fs::read(qcow2).expect("the disk")
    })
}

fn partitioned(raw: &Path, qcow2: &Path) {
    let file = std::fs::File::create(raw).expect("a disk");
    file.set_len(8 << 20).expect("a disk");
    let guid = |n: u8| format!("11111111-2222-3333-4444-5555555555{n:02}");
    media::run(
        "sgdisk",
        &[
            "--clear",
            &format!("--disk-guid={}", guid(0)),
            "--new=1:2048:4095",
            "--typecode=1:ef00",
            "--change-name=1:EFI system partition",
            &format!("--partition-guid=1:{}", guid(1)),
            "--new=2:4096:6143",
            "--typecode=2:0c01",
            "--change-name=2:Microsoft reserved partition",
            &format!("--partition-guid=2:{}", guid(2)),
            "--new=3:6144:14335",
            "--typecode=3:0700",
            "--change-name=3:Basic data partition",
            &format!("--partition-guid=3:{}", guid(3)),
            media::text(raw),
        ],
    );
    media::convert(&["-O", "qcow2"], raw, qcow2);
}
