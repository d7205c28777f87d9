//! winimg.exe under Wine beside winimg itself: the same command says the same and makes the same bytes.
//!
//! Run by `make windows-calls`, which builds winimg.exe (tests/windows/cargo.sh). Nothing of it says anything of a real
//! Windows' file system, rights or job objects: Wine puts all of them onto Linux.
#![cfg(unix)]

use crate::cli::furnished;
use std::fs;
use std::path::Path;
use std::process::Command;

use regex::Regex;
use tempfile::TempDir;

use crate::cli::furnished::furnished;
use crate::cli::site::{EPOCH, Site, program};
use support::windows_disk::can_make;
use support::windows_exe as exe;

const RECIPE: &str = r#"
schema = 1
name = "node"
include = ["packs/tool.toml"]

[media]
image = "datacenter-core"

[media.iso]
url = "media/windows.iso"
unverified = "made by the test"

[media.virtio]
url = "media/virtio-win.iso"
unverified = "made by the test"

[components.agent]
url = "media/agent.msi"
unverified = "made by the test"

[[steps]]
name = "the tool"
copy = { component = "tool", to = 'C:\k\tool.exe' }

[[steps]]
name = "its settings"
copy = { path = "files/settings.ini", to = 'C:\k\settings.ini' }

[[steps]]
name = "seal"
generalize = {}

[outputs]
vhd = {}
"#;

const PACK: &str = r#"
schema = 1

[components.tool]
version = "1.2.0"
url = "tool.exe"
unverified = "made by the test"
"#;

/// Two folders with the same files, one for each program.
struct Pair {
    linux: TempDir,
    windows: TempDir,
}

/// What a command said, and how it ended.
#[derive(PartialEq, Eq, Debug)]
struct Said {
    status: Option<i32>,
    stdout: String,
    stderr: String,
}

impl Pair {
    fn new() -> Self {
        let folder = || tempfile::tempdir().expect("a folder");
        Self {
            linux: folder(),
            windows: folder(),
        }
    }

    fn write(&self, name: &str, bytes: impl AsRef<[u8]>) {
        for folder in [&self.linux, &self.windows] {
            let path = folder.path().join(name);
            fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
            fs::write(path, &bytes).expect("written");
        }
    }

    /// What stands below a folder of a site, in both.
    fn copy(&self, site: &Site, folder: &str) {
        for name in site.files(folder) {
            let from = site.path(folder).join(&name);
            self.write(&format!("{folder}/{name}"), fs::read(from).expect("a file"));
        }
    }

    /// Both ended so, and said the same.
    fn both(&self, arguments: &[&str], status: i32) -> Said {
        let own = program(arguments);
        let name = own.file_name().expect("a name").to_string_lossy();
        let linux = said(Command::new(&own), self.linux.path(), arguments);
        let windows = exe::started(&format!("{name}.exe"), &exe::dir());
        let windows = said(windows, self.windows.path(), arguments);
        assert_eq!(linux, windows, "{arguments:?}");
        assert_eq!(linux.status, Some(status), "{linux:#?}");
        linux
    }

    /// Both programs left the same files, down to the byte.
    fn same_files(&self, below: &str) -> Vec<String> {
        let files = |folder: &TempDir| {
            let folder = folder.path().join(below);
            let mut files = winimg_base::io::files_below(&folder).expect("files");
            files.retain(|name| !name.starts_with('.'));
            files
        };
        let names = files(&self.linux);
        assert_eq!(names, files(&self.windows));
        for name in &names {
            let bytes = |folder: &TempDir| {
                let file = folder.path().join(below).join(name);
                winimg_base::io::compute_sha256(&file).expect("a file")
            };
            assert_eq!(bytes(&self.linux), bytes(&self.windows), "{name}");
        }
        names
    }
}

/// Runs it in the folder; times, how far a slow one has come and the folder's own name are filtered, and what a path is
/// written with.
fn said(mut command: Command, folder: &Path, arguments: &[&str]) -> Said {
    let output = command
        .args(arguments)
        .current_dir(folder)
        .env("WINIMG_CACHE_DIR", folder.join("cache"))
        .env("SOURCE_DATE_EPOCH", EPOCH)
        .env("NO_COLOR", "1")
        .output()
        .expect("it starts");
    let text = |bytes: &[u8]| {
        let text = String::from_utf8_lossy(bytes).replace("\r\n", "\n");
        let mut text = text.replace(&exe::named(folder), "/site");
        text = text.replace(&folder.display().to_string(), "/site");
        for (pattern, to) in [
            // Of the host's paths; the guest's stay as they are.
            (
                r"(/site|\b(?:packs|files|media|nowhere|out|again))\\",
                "$1/",
            ),
            (r"(?m)[^:\n]+ \(os error \d+\)", " [the system's words]"),
            (r"(?m)^ *\d+:\d\d ", "[time] "),
            (r"(?m)^\[time\] .* of [0-9.]+ ([KMGT]i)?B \(\d+ %\)\n", ""),
            (r"done in (\d+ min )?[0-9.]+ s", "done in [seconds]"),
        ] {
            let pattern = Regex::new(pattern).expect("a pattern");
            text = pattern.replace_all(&text, to).into_owned();
        }
        text
    };
    Said {
        status: output.status.code(),
        stdout: text(&output.stdout),
        stderr: text(&output.stderr),
    }
}

fn with_recipe() -> Pair {
    let pair = Pair::new();
    pair.write("recipe.toml", RECIPE);
    pair.write("packs/tool.toml", PACK);
    pair.write("packs/tool.exe", "MZ the tool\n");
    pair.write("files/settings.ini", "[tool]\r\n");
    for name in ["windows.iso", "virtio-win.iso", "agent.msi"] {
        pair.write(&format!("media/{name}"), name);
    }
    pair
}

#[test]
#[ignore = "needs winimg.exe: make windows-calls"]
fn a_recipe_is_judged_and_planned_alike() {
    let pair = with_recipe();
    pair.both(&["validate", "recipe.toml"], 0);
    // Said, since each system has a default of its own.
    for hypervisor in ["qemu", "hyperv"] {
        let arguments = ["plan", "recipe.toml", "--hypervisor", hypervisor];
        let plan = pair.both(&arguments, 0);
        assert!(plan.stdout.contains(r"C:\k\settings.ini"), "{plan:#?}");
    }
    pair.write("wrong.toml", RECIPE.replace("seal", "seal\"\nnmae = \"x"));
    pair.both(&["validate", "wrong.toml"], 2);
    pair.both(&["plan", "nowhere/recipe.toml"], 2);
}

#[test]
#[ignore = "needs winimg.exe: make windows-calls"]
fn a_built_image_is_inspected_verified_and_exported_alike() {
    if !can_make() {
        return;
    }
    let pair = Pair::new();
    pair.copy(&built(), "out");
    for file in ["node.raw", "node.vhd", "node.ova", "manifest.json"] {
        pair.both(&["inspect", &format!("out/{file}")], 0);
    }
    let verified = pair.both(&["verify", "out/manifest.json"], 0);
    assert!(verified.stdout.contains("node.vhd"), "{verified:#?}");
    let export = ["export", "out/node.raw", "--to", "raw,vhd,ova,ami"];
    pair.both(&[&export[..], &["--output", "again"]].concat(), 0);
    let files = pair.same_files("again");
    for wanted in ["node.raw", "node.vhd", "node.ova"] {
        assert!(files.iter().any(|f| f == wanted), "{files:?}");
    }
    // One byte of the tool is another: the same finding.
    for folder in [&pair.linux, &pair.windows] {
        let file = folder.path().join("out/node.raw");
        let mut bytes = fs::read(&file).expect("a disk");
        let at = bytes.windows(12).position(|w| w == b"MZ the tool\n");
        bytes[at.expect("the tool")] = b'N';
        fs::write(&file, bytes).expect("written");
    }
    let wrong = pair.both(
        &["verify", "out/node.raw", "--manifest", "out/manifest.json"],
        10,
    );
    assert!(wrong.stderr.contains(r"C:\k\tool.exe"), "{wrong:#?}");
}

fn built() -> Site {
    let site = furnished::site(&furnished(), "raw = {}\nvhd = {}\nova = {}\n");
    let build = ["build", "recipe.toml", "--hypervisor", "fake:machine.toml"];
    let outcome = site.run(&[&build[..], &["--output", "out"]].concat());
    assert_eq!(outcome.status(), Some(0), "{}", outcome.whole());
    site
}

#[test]
#[ignore = "needs winimg.exe: make windows-calls"]
fn what_a_windows_host_cannot_do_yet_is_refused_in_words() {
    let pair = with_recipe();
    let run = |arguments: &[&str]| said(exe::winimg(&exe::dir()), pair.windows.path(), arguments);
    let refused = |arguments: &[&str], error: &str| {
        let said = run(arguments);
        assert_eq!(said.stderr, error, "{said:#?}");
        assert_eq!(said.status, Some(3));
    };
    refused(
        &["build", "recipe.toml", "--hypervisor", "qemu"],
        "error: winimg does not support QEMU on Windows hosts\n  at: --hypervisor\n  \
         cure: omit --hypervisor to use Hyper-V, or build on Linux\n",
    );
    for command in ["attach", "screen"] {
        refused(
            &[command],
            &format!(
                "error: `winimg {command}` is not available on Windows yet\n  \
                 cure: use --on-error ask: the build prompts on its own terminal\n"
            ),
        );
    }
    let waits = run(&[
        "build",
        "recipe.toml",
        "--hypervisor",
        "hyperv",
        "--break",
        "1",
        "--debug",
    ]);
    assert_eq!(
        waits.stderr,
        "error: the build cannot pause with these options\n  \
         | --debug: needs a terminal\n  \
         | --break: needs a terminal to continue from; add --keep-for\n"
    );
}
