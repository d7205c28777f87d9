//! A fresh reader follows README from top to bottom: what it says is typed is typed, and what it says comes of it is there.
//!
//! Stand-ins: an installation medium made here in place of Microsoft's, and the digest of it in place of the pinned one; a
//! scripted QEMU, whose disk holds what the steps leave; folders in place of dl.k8s.io and the reader's mirror; a small disk,
//! so that its images are hashed soon. `make end-to-end` runs the demo of the same page on a real QEMU.

use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use support::tree;

use winimg_base::digest::Digest;

use crate::examples::blocks::{self, Block};
use crate::examples::read;
use crate::examples::starter::with_examples;
use crate::faults::site::STATES;
use support::media;
use support::windows_disk::{REG_SZ, WindowsDisk, can_make, sz};

const ISO: &str = "SERVER_EVAL_x64FRE_en-us.iso";
const VIRTIO: &str = "virtio-win.iso";
/// Where the component's example says that kubelet is.
const PUBLISHED: &str = "dl.k8s.io/release/v1.36.4/bin/windows/amd64/kubelet.exe";
const KUBELET: &[u8] = b"MZ kubelet of its publisher\n";
const OWN_KUBELET: &[u8] = b"MZ kubelet of the reader\n";

/// A guest on which the starter goes well.
const MACHINE: &str = r#"
disk = "sealed.qcow2"
transcript = "asked.txt"

[files]
'C:\winimg\bootstrap.done' = "stage=0\r\nagent=0\r\nresult=ok\r\n"

[[run]]
command = 'C:\Windows\System32\cmd.exe /d /c C:\winimg\payload.cmd *'
if_disc = "payload.iso"

[[run]]
command = 'C:\Windows\System32\reg.exe add *'

[[run]]
command = 'C:\Windows\System32\schtasks.exe /run /tn winimg-seal'
deletes = ['C:\winimg\*']
off_ms = 300
"#;

/// Whoever reads README, and the folder that is typed in.
struct Reader {
    folder: tempfile::TempDir,
}

impl Reader {
    fn new() -> Self {
        let folder = tree::folder();
        let reader = Self { folder };
        media::windows(&reader.path("medium"), &reader.path(ISO));
        media::virtio(&reader.path("virtio"), &reader.path(VIRTIO));
        reader.write("machine.toml", &format!("{MACHINE}{STATES}"));
        std::fs::create_dir(reader.path("bin")).expect("a folder");
        std::os::unix::fs::symlink(tree::winimg(), reader.path("bin/winimg")).expect("a link");
        reader.write(PUBLISHED, std::str::from_utf8(KUBELET).expect("text"));
        let digest = Digest::sha256_of(KUBELET).hex();
        reader.write(&format!("{PUBLISHED}.sha256"), &digest);
        reader.write(
            "mirror/kubelet.exe",
            std::str::from_utf8(OWN_KUBELET).expect("text"),
        );
        reader
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn read(&self, name: &str) -> String {
        read(&self.path(name))
    }

    fn write(&self, name: &str, text: &str) {
        media::put(self.folder.path(), name, text.as_bytes());
    }

    /// What Setup and the steps leave from now on: the scripted guest writes no file of Windows. The layers of the one
    /// before go.
    fn installs(&self, kubelet: Option<&[u8]>) {
        let mut disk = WindowsDisk::sound();
        disk.value(r"HKLM\SOFTWARE\Example", "Tier", REG_SZ, &sz("gold"));
        if let Some(bytes) = kubelet {
            disk.file(r"C:\k\kubelet.exe", bytes);
        }
        let (raw, qcow2) = (self.path("windows.raw"), self.path("sealed.qcow2"));
        disk.write(&raw);
        let file = std::fs::OpenOptions::new().write(true).open(&raw);
        file.and_then(|f| f.set_len(256 << 20))
            .expect("as large as the machine's disk");
        media::run("sgdisk", &["--move-second-header", media::text(&raw)]);
        media::convert(&["-O", "qcow2"], &raw, &qcow2);
        let _ = std::fs::remove_dir_all(self.path("cache/layers"));
    }

    /// As a shell takes it.
    fn types(&self, command: &str) -> Output {
        let path = std::env::var("PATH").unwrap_or_default();
        Command::new("/bin/sh")
            .args(["-c", command])
            .current_dir(self.folder.path())
            .env_clear()
            .env("PATH", format!("{}:{path}", self.path("bin").display()))
            .env("HOME", self.folder.path())
            .env("WINIMG_CACHE_DIR", self.path("cache"))
            .env("WINIMG_QEMU", tree::program("fake-qemu"))
            .env("FAKE_QEMU_SCRIPT", self.path("machine.toml"))
            .stdin(Stdio::null())
            .output()
            .expect("a shell")
    }

    /// What a command that ends well prints on standard output.
    fn does(&self, command: &str) -> String {
        let output = self.types(command);
        assert!(
            output.status.success(),
            "{command}\n{}",
            String::from_utf8_lossy(&output.stderr)
        );
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// What was asked of machines so far.
    fn asked(&self) -> String {
        std::fs::read_to_string(self.path("asked.txt")).unwrap_or_default()
    }

    fn edits(&self, from: &str, to: &str) {
        let recipe = self.read("recipe.toml");
        assert!(recipe.contains(from), "no {from} in\n{recipe}");
        self.write("recipe.toml", &recipe.replacen(from, to, 1));
    }

    /// What README says of one command of the first build.
    fn first_build(&self, command: &str) {
        let words: Vec<&str> = command.split_whitespace().collect();
        match words[..2] {
            // The program was built with this test.
            ["cargo", "install"] => {}
            ["winimg", "doctor"] => {
                let said = self.does(command);
                assert!(said.contains("QEMU") && said.contains("UEFI"), "{said}");
            }
            ["winimg", "init"] => {
                let said = self.does(command);
                assert!(said.contains("next: winimg plan recipe.toml"), "{said}");
                let pinned = "3e4fa6d8507b554856fc9ca6079cc402df11a8b79344871669f0251535255325";
                let iso = std::fs::read(self.path(ISO)).expect("the medium");
                self.edits(pinned, &Digest::sha256_of(&iso).hex());
                self.edits("\"64 GiB\"", "\"256 MiB\"");
            }
            ["winimg", "pin"] => {
                let virtio = std::fs::read(self.path(VIRTIO)).expect("the medium");
                let digest = Digest::sha256_of(&virtio).hex();
                let said = self.does(command);
                assert!(said.contains(&digest), "shown: {said}");
                let line = format!("virtio_sha256 = \"{digest}\"");
                let recipe = self.read("recipe.toml");
                assert!(recipe.contains(&line), "{recipe}");
            }
            ["winimg", "plan"] => {
                let plan = self.does(command);
                // "The virtio-win project publishes no digest."
                assert!(plan.contains("To be decided before a build"), "{plan}");
                assert!(plan.contains("virtio_sha256"), "{plan}");
                assert!(
                    plan.contains(r"reg.exe add HKLM\SOFTWARE\Example"),
                    "{plan}"
                );
                assert_eq!(self.asked(), "", "a plan starts nothing");
            }
            ["winimg", "lock"] => {
                self.does(command);
                let lock = self.read("recipe.lock");
                assert!(lock.contains("media.virtio"), "{lock}");
            }
            ["winimg", "build"] => {
                self.does(command);
                self.has_all_files();
            }
            ["winimg", "verify"] => {
                let said = self.does(command);
                assert!(said.contains("my-node.ova"), "{said}");
            }
            _ => panic!("README says more than this test knows: {command}"),
        }
    }

    /// "What comes out", as README lists it.
    fn has_all_files(&self) {
        for file in [
            "my-node.vhd",
            "my-node.ova",
            "manifest.json",
            "sbom.cdx.json",
            "sbom.spdx.json",
            "provenance.intoto.json",
            "packer-manifest.json",
            "events.jsonl",
            "disk-usage.json",
            "report.html",
            "logs",
        ] {
            assert!(self.path("out/my-node").join(file).exists(), "no {file}");
        }
    }
}

/// The block of README with this text.
fn block(text: &str) -> Block {
    let blocks = blocks::of("README.md").into_iter();
    let mut found: Vec<Block> = blocks.filter(|b| b.text.contains(text)).collect();
    assert_eq!(found.len(), 1, "blocks of README with {text}");
    found.remove(0)
}

/// A command in README's running text.
fn inline(command: &str) -> &str {
    let readme = read(&tree::root().join("README.md"));
    assert!(
        readme.contains(&format!("`{command}`")),
        "README has no `{command}`"
    );
    command
}

#[test]
fn readme_works_from_top_to_bottom() {
    let tools = [
        "genisoimage",
        "wimlib-imagex",
        "mkfs.vfat",
        "sgdisk",
        "qemu-img",
        "qemu-io",
    ];
    if !media::have(&tools) || !can_make() {
        return;
    }
    let reader = Reader::new();
    reader.installs(None);
    let build = block("$ winimg init recipe.toml");
    for command in build.commands() {
        reader.first_build(&command);
    }
    // "With nothing changed it starts no machine."
    let asked = reader.asked();
    assert!(!asked.is_empty());
    let again = build
        .commands()
        .into_iter()
        .find(|c| c.starts_with("winimg build"));
    reader.does(&again.expect("a build"));
    assert_eq!(reader.asked(), asked, "nothing changed");

    // "A component is a table and a step": README's own, before the step that seals.
    let files = format!("file://{}/", reader.folder.path().display());
    let component = block("[components.kubelet]\nversion").text;
    let component = component.replace("https://", &files);
    let seal = "[[steps]]\nname       = \"seal\"";
    let without = reader.read("recipe.toml");
    reader.edits(seal, &format!("{component}\n{seal}"));
    reader.installs(Some(KUBELET));
    reader.does(inline("winimg lock recipe.toml"));
    assert!(reader.read("recipe.lock").contains("kubelet"));
    reader.does("winimg build recipe.toml");
    reader.has_all_files();

    // "Swap in your own build of it."
    let digest = Digest::sha256_of(OWN_KUBELET).hex();
    let recipe = reader.read("recipe.toml");
    reader.installs(Some(OWN_KUBELET));
    for command in block("--set components.kubelet.url").commands() {
        let mirror = command.replace("https://mirror.example.com/", &format!("{files}mirror/"));
        reader.does(&mirror.replace("sha256=…", &format!("sha256={digest}")));
    }
    assert_eq!(
        reader.read("recipe.toml"),
        recipe,
        "without touching the recipe"
    );
    let manifest = reader.read("out/my-node/manifest.json");
    assert!(manifest.contains(&digest), "{manifest}");

    // One file for where there is no network, and the cache.
    reader.does(inline("winimg bundle recipe.toml --to node.tar"));
    reader.does("winimg plan node.tar");
    let cache = reader.does(inline("winimg cache ls"));
    assert!(cache.contains("kubelet"), "{cache}");
    reader.does(inline(
        "winimg cache prune --older-than 30d --max-size 50GiB",
    ));

    // The starter's own example says the same as README's.
    let starters = with_examples(&without).replace("https://", &files);
    assert_ne!(starters, without);
    reader.write("recipe.toml", &starters);
    let plan = reader.does("winimg plan recipe.toml --no-lock");
    assert!(plan.contains("kubelet.exe.sha256"), "{plan}");
}
