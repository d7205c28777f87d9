//! The programs that the packs install, built from their publishers' modules for Windows and run on Wine against what the packs' own
//! steps lay down: files, services, variables. `make real-programs` builds them (`build.sh`) and runs what stands in `nightly`.
//!
//! A program judges its settings here in its own words. Where Wine ends its way, the test says by which call.

mod nightly;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use support::{skip, tree};
use winimg_base::digest::Digest;
use winimg_machine::guest::{self, Guest as _, GuestExit};

use crate::wine::glib::Glib;
use crate::wine::node::Node;
use crate::wine::prefix::{Look, program};

/// A program that has not ended by then never does; on a machine with other things to do Go's programs start in seconds.
const TIME: Duration = Duration::from_secs(180);

/// What each pack fetches: a component, its archive's ending if it has one, the members, and the programs that they are.
const PACKS: [(&str, &[Fetched]); 6] = [
    (
        "containerd",
        &[(
            "containerd",
            "tar.gz",
            &[("bin/containerd.exe", "containerd")],
        )],
    ),
    (
        "crictl",
        &[("crictl", "tar.gz", &[("crictl.exe", "crictl")])],
    ),
    (
        "cni",
        &[(
            "cni",
            "tar.gz",
            &[
                ("win-bridge.exe", "win-bridge"),
                ("win-overlay.exe", "win-overlay"),
                ("host-local.exe", "host-local"),
            ],
        )],
    ),
    (
        "kubernetes",
        &[
            ("kubelet", "", &[("kubelet.exe", "kubelet")]),
            ("kubeadm", "", &[("kubeadm.exe", "kubeadm")]),
            ("kubectl", "", &[("kubectl.exe", "kubectl")]),
            ("kube-proxy", "", &[("kube-proxy.exe", "kube-proxy")]),
            (
                "kube-log-runner",
                "",
                &[("kube-log-runner.exe", "kube-log-runner")],
            ),
        ],
    ),
    (
        "csi-proxy",
        &[("csi-proxy", "", &[("csi-proxy.exe", "csi-proxy")])],
    ),
    (
        "flannel",
        &[("flannel", "", &[("flanneld.exe", "flanneld")])],
    ),
];

type Fetched = (
    &'static str,
    &'static str,
    &'static [(&'static str, &'static str)],
);

const HEAD: &str = "schema = 1\nname = \"real\"\n";

/// No machine is started: Setup and the seal are not carried out here, and any file will do as a medium.
fn machine() -> String {
    let medium = program("argv.exe");
    format!(
        "
[media]
image = \"standard-core\"

[media.iso]
url        = {medium:?}
unverified = \"no machine is started, so this is never a medium\"

[machine]
disk_bus = \"ahci\"

[outputs]
raw = {{}}
"
    )
}

/// `containerd` → where `build.sh` puts containerd.exe.
pub fn built(name: &str) -> PathBuf {
    let folder = tree::root().join("target/real-programs");
    folder.join(format!("{name}.exe"))
}

/// A file's SHA-256, as a recipe writes it.
pub fn digest(file: &Path) -> String {
    Digest::sha256_of(&std::fs::read(file).expect("a program")).hex()
}

/// A node on which the steps of packs were carried out, with the real programs.
pub struct Place {
    pub node: Node,
    folder: tempfile::TempDir,
}

/// How a program ended, and all that it said.
#[derive(Debug)]
pub struct Said {
    pub exit: GuestExit,
    pub text: String,
}

impl Place {
    /// Nothing, and said so, where the programs are not built.
    pub fn with(packs: &[&str], vars: &[(&str, &str)]) -> Option<Self> {
        let wanted = PACKS.iter().filter(|(pack, _)| packs.contains(pack));
        let mut members = wanted.flat_map(|(_, all)| all.iter().flat_map(|(_, _, m)| m.iter()));
        if let Some((_, program)) = members.find(|(_, program)| !built(program).exists()) {
            skip::skipped(format!(
                "no {program}.exe, which `make real-programs` builds where Go is installed"
            ));
            return None;
        }
        let mut place = Self {
            node: Node::new(Glib::New),
            folder: tempfile::tempdir_in(tree::root().join("target")).expect("a folder"),
        };
        // netsh ends with 1 where no rule of the name is there.
        place.node.prefix.script("netsh.exe 1 firewall show rule\n");
        let text = place.recipe(packs, vars);
        let (recipe, plan) = place.node.read("real", &text, Vec::new());
        let done = place.node.carry_out(&recipe, &plan);
        done.unwrap_or_else(|e| panic!("{e}\n{}", place.node.prefix.trace()));
        place.copy_as_robocopy_was_told();
        // What is started from now on has the variables that the steps set.
        place.node.prefix.stop();
        Some(place)
    }

    fn recipe(&self, packs: &[&str], vars: &[(&str, &str)]) -> String {
        let includes: Vec<String> = packs.iter().map(|p| format!("packs/{p}.toml")).collect();
        let mut text = format!("{HEAD}include = {includes:?}\n\n[vars]\n");
        // Built here, so that no publisher has signed them.
        for signed in ["kubernetes", "containerd"] {
            if packs.contains(&signed) {
                text += &format!("{signed}_signatures = \"off\"\n");
            }
        }
        for (name, value) in vars {
            text += &format!("{name} = {value:?}\n");
        }
        text += &machine();
        for (_, fetched) in PACKS.iter().filter(|(pack, _)| packs.contains(pack)) {
            for one in *fetched {
                text += &self.component(one);
            }
        }
        text
    }

    /// Where the component comes from, and its digest.
    fn component(&self, (name, archive, members): &Fetched) -> String {
        let file = match (*archive, *members) {
            ("", [(_, program)]) => built(program),
            (ending, members) => self.archive(name, ending, members),
        };
        let digest = digest(&file);
        format!("\n[components.{name}]\nurl = {file:?}\nsha256 = \"{digest}\"\n")
    }

    fn archive(&self, name: &str, ending: &str, members: &[(&str, &str)]) -> PathBuf {
        let tree = self.folder.path().join(name);
        for (member, program) in members {
            let path = tree.join(member);
            std::fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
            std::fs::copy(built(program), path).expect("a copy");
        }
        let file = self.folder.path().join(format!("{name}.{ending}"));
        let made = Command::new("tar")
            .args([
                Path::new("-czf"),
                &file,
                Path::new("-C"),
                &tree,
                Path::new("."),
            ])
            .status();
        assert!(made.is_ok_and(|s| s.success()), "{name}");
        file
    }

    /// Where the disc's files are unpacked: it is out of its drive when the steps are done.
    fn disc(&self, guest: &str) -> PathBuf {
        let inside = guest.trim_start_matches("D:\\").replace('\\', "/");
        let folder = std::fs::read_dir(self.node.prefix.path()).expect("a folder");
        let found = folder
            .map(|entry| entry.expect("an entry").path().join(&inside))
            .find(|path| path.exists());
        found.unwrap_or_else(|| panic!("no {guest}"))
    }

    /// Wine's robocopy.exe does nothing; a recorder wrote down what it would have copied.
    fn copy_as_robocopy_was_told(&self) {
        let prefix = &self.node.prefix;
        let trace = prefix.trace();
        let calls = trace.split("robocopy.exe\n  line ").skip(1);
        for call in calls {
            let mut words = call
                .lines()
                .skip(1)
                .map(|l| l.trim().trim_matches(['[', ']']));
            let (from, to) = (
                words.next().expect("a source"),
                words.next().expect("a target"),
            );
            let to = prefix.host(to);
            std::fs::create_dir_all(&to).expect("a folder");
            let copied = Command::new("cp")
                .args(["-r", "--no-preserve=mode"])
                .args([self.disc(from).join("."), to])
                .status();
            assert!(copied.is_ok_and(|s| s.success()), "{from}");
        }
    }

    /// Runs a program as the agent does.
    pub fn run(&mut self, program: &str, arguments: &[&str]) -> Said {
        let command = guest::GuestCommand {
            program: program.into(),
            arguments: arguments.iter().map(|&a| a.to_owned()).collect(),
            timeout: TIME,
        };
        let mut bytes = Vec::new();
        let exit = self
            .node
            .client
            .run(&command, &mut |more| bytes.extend(more));
        Said {
            exit: exit.unwrap_or_else(|e| panic!("{program}: {e}")),
            text: String::from_utf8_lossy(&bytes).replace('\r', ""),
        }
    }

    /// Lines for cmd.exe, for variables and for what a program reads from its standard input.
    pub fn batch(&mut self, lines: &str) -> Said {
        self.write(
            r"C:\batch.cmd",
            &format!("@echo off\n{lines}").replace('\n', "\r\n"),
        );
        self.run(
            r"C:\Windows\System32\cmd.exe",
            &["/d", "/c", r"C:\batch.cmd"],
        )
    }

    pub fn write(&self, guest: &str, text: &str) {
        let path = self.node.prefix.host(guest);
        std::fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
        std::fs::write(path, text).expect("a file");
    }

    /// Starts what goes on until the test ends; all that it says is in the file.
    #[expect(clippy::zombie_processes, reason = "it ends with its prefix")]
    pub fn start(&self, program: &str, arguments: &[&str]) -> PathBuf {
        let prefix = &self.node.prefix;
        prefix.wake();
        let log = self.folder.path().join("said.txt");
        let file = std::fs::File::create(&log).expect("a log");
        let mut command = prefix.wine(&prefix.host(program));
        command.args(arguments).stderr(file);
        command.spawn().expect("it starts");
        log
    }

    /// A file's text, if it is there.
    pub fn read(&self, guest: &str) -> String {
        let text = self.node.prefix.read(guest).unwrap_or_default();
        text.replace('\r', "")
    }

    /// Files and registry; everything is stopped for it.
    pub fn look(&self) -> Look {
        self.node.prefix.look()
    }

    pub fn wait_for(&mut self, what: &str, there: impl Fn(&mut Self) -> bool) {
        let deadline = Instant::now() + TIME;
        while !there(self) {
            assert!(Instant::now() < deadline, "not after {TIME:?}: {what}");
            std::thread::sleep(Duration::from_millis(200));
        }
    }
}

/// A pack's version of what it installs, such as `v1.36.4`.
fn version(pack: &str, variable: &str) -> String {
    let file = tree::root().join(format!("recipes/packs/{pack}.toml"));
    let text = std::fs::read_to_string(file).expect("a pack");
    let pack: toml::Table = text.parse().expect("TOML");
    let value = pack["vars"][variable].clone();
    let value = value.get("default").cloned().unwrap_or(value);
    let value = value.as_str().expect("a version").to_owned();
    format!("v{}", value.trim_start_matches('v'))
}

/// When a pack's version is raised, raise it in its go.mod as well: go -C FOLDER get MODULE@VERSION.
#[test]
fn the_pinned_modules_have_the_packs_versions() {
    let kubernetes = version("kubernetes", "kubernetes_semver");
    let csi_proxy = version("csi-proxy", "csi_proxy_version");
    for (modules, line) in [
        (
            include_str!("kubernetes/go.mod"),
            format!("k8s.io/kubernetes {kubernetes}"),
        ),
        (
            include_str!("csi-proxy/go.mod"),
            format!("github.com/kubernetes-csi/csi-proxy {csi_proxy}"),
        ),
    ] {
        let there = modules.lines().any(|l| {
            let words = l.trim().trim_start_matches("require ");
            words
                .strip_prefix(line.as_str())
                .is_some_and(|rest| rest.is_empty() || rest.starts_with(' '))
        });
        assert!(there, "no line {line:?}");
    }
}
