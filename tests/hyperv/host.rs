//! A folder with a recipe, its media, and a Windows host with Hyper-V that is a stand-in.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use support::tree;

use crate::faults::site::{ANSWERS, Run, STATES, Site, Strike, sealed_disk};
use support::media;

/// A host on which the recipe goes well.
const HEAD: &str = r#"
state = "hyperv"
trace = "trace.txt"

[install]
disk = "sealed.vhdx"
refused = 0

[files]
'C:\winimg\bootstrap.done' = "stage=0\r\nresult=ok\r\n"
"#;

/// Before the answers of every good run.
const SCRIPTS: &str = r#"
[[run]]
command = 'C:\Windows\System32\cmd.exe /d /c C:\winimg\steps\*.cmd'
output = "done\r\n"
"#;

pub struct Host {
    pub site: Site,
}

impl Host {
    pub fn new(dir: PathBuf) -> Self {
        std::fs::create_dir_all(&dir).expect("a folder");
        let site = Site { dir };
        media::windows(&site.path("medium"), &site.path("windows.iso"));
        site.write("tool.exe", "MZ the tool\n");
        sealed_disk(&site.path("made.raw"), &site.path("made.qcow2"));
        let (raw, vhdx) = (site.path("made.raw"), site.path("sealed.vhdx"));
        let options = ["-O", "vhdx", "-o", "subformat=dynamic,block_size=1M"];
        media::convert(&options, &raw, &vhdx);
        // No driver and no agent comes from there; that it is missing shows that nobody asks.
        site.recipe(&[]);
        let host = Self { site };
        host.install();
        host
    }

    /// A host without a recipe and media: nothing is built on it.
    pub fn bare(dir: PathBuf) -> Self {
        std::fs::create_dir_all(&dir).expect("a folder");
        let host = Self { site: Site { dir } };
        host.install();
        host
    }

    fn install(&self) {
        let site = &self.site;
        let made = tree::program("fake-powershell");
        assert!(
            made.exists(),
            "cargo build --workspace makes {}",
            made.display()
        );
        std::fs::create_dir_all(site.path("bin")).expect("a folder");
        std::os::unix::fs::symlink(made, site.path("bin/powershell.exe")).expect("a link");
        std::fs::create_dir_all(site.path("tmp")).expect("a folder");
        self.machine("", &[]);
    }

    pub fn copy(&self, dir: PathBuf) -> Self {
        let host = Self {
            site: self.site.copy(dir),
        };
        host.machine("", &[]);
        host
    }

    /// Another host, counted from its first call on. What is given comes before the answers.
    pub fn machine(&self, faults: &str, changes: &[(&str, &str)]) {
        let mut config = format!("{HEAD}{faults}{SCRIPTS}{ANSWERS}{STATES}");
        for (from, to) in changes {
            assert!(config.contains(from), "the host has no {from}");
            config = config.replace(from, to);
        }
        self.site.write("host.toml", &config);
        let _ = std::fs::remove_file(self.site.path("trace.txt"));
        let _ = std::fs::remove_dir_all(self.site.path("hyperv"));
    }

    /// The same host with its machines, without what was wrong with it.
    pub fn mend(&self) {
        self.site
            .write("host.toml", &format!("{HEAD}{SCRIPTS}{ANSWERS}{STATES}"));
    }

    /// What winimg says, on both outputs, and its status.
    pub fn says(&self, arguments: &[&str]) -> String {
        let mut command = self.command();
        let output = command.args(arguments).output().expect("winimg starts");
        let said = |bytes| String::from_utf8_lossy(bytes).into_owned();
        let said = format!("{}{}", said(&output.stdout), said(&output.stderr));
        // What doctor says of this host whatever runs its machines.
        const ANY: [&str; 7] = [
            "tesseract",
            "advice: ",
            "memory: ",
            "processors: ",
            "disk space: ",
            "proxy ",
            "clock: ",
        ];
        let own = |line: &&str| !ANY.iter().any(|start| line.starts_with(start));
        let lines: Vec<&str> = said.lines().filter(own).collect();
        format!("{}\n{:?}", lines.join("\n"), output.status.code())
    }

    pub fn build(&self, more: &[&str], strike: Option<&Strike>) -> Run {
        self.build_with(self.command(), more, strike)
    }

    /// What `command` is: a winimg with its surroundings.
    pub fn build_with(&self, mut command: Command, more: &[&str], strike: Option<&Strike>) -> Run {
        let log = std::fs::File::create(self.site.path("said.txt")).expect("a file");
        command
            .args(["build", "recipe.toml", "--hypervisor", "hyperv"])
            .args(["--output", "out", "--no-verify"])
            .args(more)
            .current_dir(&self.site.dir)
            .env("SOURCE_DATE_EPOCH", "1700000000")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log);
        self.site.watch(command, strike)
    }

    fn command(&self) -> Command {
        let path = std::env::var_os("PATH").unwrap_or_default();
        let folders = std::env::split_paths(&path);
        let path = std::env::join_paths(std::iter::once(self.site.path("bin")).chain(folders))
            .expect("a PATH");
        let mut command = Command::new(tree::winimg());
        command
            .current_dir(&self.site.dir)
            .env_clear()
            .env("PATH", path)
            .env("HOME", &self.site.dir)
            .env("TMPDIR", self.site.path("tmp"))
            .env("WINIMG_CACHE_DIR", self.site.path("cache"))
            .env("FAKE_HYPERV", self.site.path("host.toml"))
            .stdin(Stdio::null());
        command
    }

    /// Machines, mounted disks, processes and files that a build left.
    pub fn left(&self) -> Vec<String> {
        let mut left = self.site.orphans();
        let text = self.site.read("hyperv/host.json");
        if let Ok(state) = serde_json::from_str::<serde_json::Value>(&text) {
            let names = |what: &str| -> Vec<String> {
                let found = state[what].as_object().into_iter().flatten();
                found.map(|(name, _)| format!("{what}: {name}")).collect()
            };
            left.extend(names("vms"));
            left.extend(names("mounts"));
        }
        left.extend(self.site.leftovers());
        let trace = self.site.read("trace.txt");
        let notes = trace
            .lines()
            .filter_map(|l| l.split_once("-Notes 'winimg: ")?.1.split('\'').next());
        left.extend(
            notes
                .filter(|dir| Path::new(dir).exists())
                .map(String::from),
        );
        let temporary = std::fs::read_dir(self.site.path("tmp"))
            .into_iter()
            .flatten()
            .flatten();
        left.extend(temporary.map(|e| e.path().display().to_string()));
        left
    }

    /// What must show nowhere.
    pub fn passwords(&self) -> Vec<String> {
        let kept = self.site.read("cache/hyperv-password");
        Some(kept.trim().to_string())
            .filter(|p| !p.is_empty())
            .into_iter()
            .collect()
    }
}
