//! Tries one block.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use support::tree;

use clap::Parser as _;
use winimg_base::digest::Digest;

use crate::examples::blocks::Block;
use crate::examples::read;
use crate::examples::table::{Kind, Row};
use support::media;

/// What a fragment leaves out, after its own top-level keys and tables. `DIGEST` is that of the media.
const FRAME: &str = r#"
[media]
image = "datacenter-core"
[media.iso]
url = "windows.iso"
sha256 = "DIGEST"
[media.virtio]
url = "virtio-win.iso"
sha256 = "DIGEST"
signature = { kind = "catalogs", roots = "microsoft-root-2010", subject = "CN=Example Corp" }
[outputs]
vhd = {}
"#;

const MEDIUM: &[u8] = b"a stand-in for a medium\n";

/// A folder with the files that examples name.
pub struct Bench {
    folder: tempfile::TempDir,
}

impl Bench {
    pub fn new() -> Self {
        let folder = tree::folder();
        let at = folder.path();
        for medium in [
            "windows.iso",
            "virtio-win.iso",
            "SERVER_EVAL_x64FRE_en-us.iso",
        ] {
            media::put(at, medium, MEDIUM);
        }
        // Keys of every kind, made by the field's own tools.
        let made = at.join("made");
        std::fs::create_dir(&made).expect("a folder");
        let tests = tree::root().join("tests");
        let script = Command::new("bash")
            .arg("-eu")
            .arg(tree::root().join("crates/supply/tests/fetch/signed.sh"))
            .arg(&tests)
            .current_dir(&made)
            .stdout(Stdio::null())
            .status();
        assert!(
            script.expect("bash").success(),
            "crates/supply/tests/fetch/signed.sh"
        );
        std::fs::create_dir(at.join("keys")).expect("a folder");
        for (from, to) in [
            ("release.pub", "release.pub"),
            ("release.asc", "tool.asc"),
            ("root.pem", "example-root.pem"),
        ] {
            std::fs::copy(made.join(from), at.join("keys").join(to)).expect("a key");
        }
        let cosign = rcgen::KeyPair::generate().expect("a key").public_key_pem();
        media::put(at, "keys/cosign.pub", cosign.as_bytes());
        Self { folder }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub fn judge(&self, block: &Block, row: &Row) -> Result<(), String> {
        match row.is {
            Kind::Recipe => self.planned(&swapped(block, row, self), row),
            Kind::Fragment => self.framed(&swapped(block, row, self), row),
            Kind::Target => {
                let path = "targets/example.toml";
                let text = swapped(block, row, self);
                media::put(self.folder.path(), path, text.as_bytes());
                self.framed("target = [\"example\"]\n", row)
            }
            Kind::Commands => self.commands(block, row),
            Kind::Pipeline => self.pipeline(&block.text),
            Kind::FakeQemuScript => self.fake_qemu(&block.text),
            Kind::Json => serde_json::from_str::<serde_json::Value>(&block.text)
                .map(|_| ())
                .map_err(|e| e.to_string()),
            Kind::Powershell => {
                let faults = winimg_recipe::powershell::find_faults(&block.text);
                let first = faults
                    .first()
                    .map(|f| format!("line {}:{}", f.line, f.column));
                first.map_or(Ok(()), Err)
            }
            Kind::Quoted => {
                let from = row.from.as_ref().ok_or("`from` is missing")?;
                let plain = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
                let there = plain(&read(&tree::root().join(from))).contains(&plain(&block.text));
                there.then_some(()).ok_or(format!("it is not in {from}"))
            }
            Kind::Shown => match row.why.as_deref() {
                None | Some("") => Err("`why` is missing".into()),
                Some(_) => Ok(()),
            },
        }
    }

    /// `winimg plan` takes it within the frame.
    fn framed(&self, text: &str, row: &Row) -> Result<(), String> {
        let digest = Digest::sha256_of(MEDIUM).hex();
        let frame = FRAME.replace("DIGEST", &digest);
        let head = "schema = 1\nname = \"example\"\n";
        self.planned(&format!("{head}{text}{frame}{}", row.with), row)
    }

    /// `winimg plan` takes it.
    fn planned(&self, recipe: &str, row: &Row) -> Result<(), String> {
        media::put(self.folder.path(), "recipe.toml", recipe.as_bytes());
        let output = winimg(self.folder.path(), &["plan", "recipe.toml"]);
        let said = String::from_utf8_lossy(&output.stderr);
        if row.asks {
            let errors: Vec<&str> = said.lines().filter(|l| l.starts_with("error")).collect();
            return if errors.iter().all(|l| l.contains("has no value")) {
                if !errors.is_empty() || output.status.success() {
                    Ok(())
                } else {
                    Err(said.into())
                }
            } else {
                Err(said.into())
            };
        }
        if !output.status.success() {
            return Err(said.into());
        }
        let plan = String::from_utf8_lossy(&output.stdout);
        let missing = row.plan_has.iter().find(|wanted| !plan.contains(*wanted));
        match missing {
            Some(wanted) => Err(format!("{wanted} is not in the plan:\n{plan}")),
            None => Ok(()),
        }
    }

    /// Every command is a program of the table, or winimg with arguments that it takes.
    fn commands(&self, block: &Block, row: &Row) -> Result<(), String> {
        let mut commands = block.commands();
        if !row.before.is_empty() {
            let lines = block.text.lines();
            commands = lines.map(|line| format!("{} {line}", row.before)).collect();
        }
        if commands.is_empty() {
            return Err("no line begins with `$ `".into());
        }
        let programs = crate::examples::table::read().programs;
        for command in commands {
            let first = command.split_whitespace().next().unwrap_or_default();
            // `size=$(stat FILE)` calls stat.
            let first = first
                .split_once("=$(")
                .map_or(first, |(_, program)| program);
            if first == "make" {
                made(&command)?;
            }
            let calls = self.calls(&command);
            if calls.is_empty() && !programs.contains_key(first) {
                return Err(format!("`{first}` is no program of the table: {command}"));
            }
            for call in calls {
                let words = std::iter::once("winimg".to_string()).chain(call);
                winimg::cli::Cli::try_parse_from(words).map_err(|e| format!("{command}\n{e}"))?;
            }
        }
        Ok(())
    }

    fn pipeline(&self, text: &str) -> Result<(), String> {
        let lines = text
            .lines()
            .map(|line| line.trim().trim_start_matches("- "));
        let lines = lines.map(|line| line.trim_start_matches("run: "));
        let mut calls = 0;
        for line in lines.filter(|line| line.starts_with("winimg ")) {
            for call in self.calls(line) {
                calls += 1;
                let words = std::iter::once("winimg".to_string()).chain(call);
                let read = winimg::cli::Cli::try_parse_from(words);
                read.map_err(|e| format!("{line}\n{e}"))?;
            }
        }
        (calls > 0)
            .then_some(())
            .ok_or("nothing calls winimg".into())
    }

    /// What winimg's own command line finds wrong with the command, but for what it leaves out or leaves to the reader.
    pub fn mistaken(&self, command: &str) -> Option<String> {
        use clap::error::ErrorKind::{
            ArgumentConflict, InvalidSubcommand, TooManyValues, UnknownArgument,
        };
        let mistakes = [
            ArgumentConflict,
            InvalidSubcommand,
            TooManyValues,
            UnknownArgument,
        ];
        // Brackets are around what may be left out.
        let calls = self.calls(&command.replace(['[', ']'], ""));
        if calls.is_empty() {
            return Some("a shell calls nothing".into());
        }
        calls.into_iter().find_map(|call| {
            let words = std::iter::once("winimg".to_string()).chain(call);
            let error = winimg::cli::Cli::try_parse_from(words).err()?;
            mistakes.contains(&error.kind()).then(|| error.to_string())
        })
    }

    /// The words that a shell would give to winimg, by its own reading. No program is there for it to run.
    fn calls(&self, command: &str) -> Vec<Vec<String>> {
        let heard = self.path("heard");
        let _ = std::fs::remove_file(&heard);
        let function =
            "winimg() { printf '%s\\0' \"$@\" >>\"$HEARD\"; printf '\\n' >>\"$HEARD\"; }";
        let status = Command::new("/bin/sh")
            .args(["-c", &format!("{function}\n{command}")])
            .current_dir(self.folder.path())
            .env_clear()
            .env("PATH", self.path("nothing"))
            .env("HEARD", &heard)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status();
        status.expect("a shell");
        let heard = std::fs::read_to_string(heard).unwrap_or_default();
        let words = |line: &str| line.split_terminator('\0').map(str::to_string).collect();
        heard.lines().map(words).collect()
    }

    fn fake_qemu(&self, script: &str) -> Result<(), String> {
        media::put(self.folder.path(), "machine.toml", script.as_bytes());
        let output = Command::new(tree::program("fake-qemu"))
            .arg("--version")
            .env("FAKE_QEMU_SCRIPT", self.path("machine.toml"))
            .output()
            .expect("fake-qemu starts");
        if output.status.success() {
            Ok(())
        } else {
            Err(String::from_utf8_lossy(&output.stderr).into())
        }
    }
}

/// The block's text with what is the reader's own.
fn swapped(block: &Block, row: &Row, bench: &Bench) -> String {
    let fingerprint = read(&bench.path("made/release.fpr"));
    let mut text = block.text.clone();
    for (from, to) in &row.swap {
        assert!(text.contains(from.as_str()), "{block}: no {from}");
        text = text.replace(
            from.as_str(),
            &to.replace("FINGERPRINT", fingerprint.trim()),
        );
    }
    text
}

/// The Makefile has the targets that an example makes.
fn made(command: &str) -> Result<(), String> {
    let makefile = tree::makefile();
    let words = command
        .split('#')
        .next()
        .unwrap_or_default()
        .split_whitespace();
    let target = words
        .skip(1)
        .find(|word| !word.contains('='))
        .unwrap_or_default();
    let there = makefile
        .lines()
        .any(|l| l.starts_with(&format!("{target}:")));
    there
        .then_some(())
        .ok_or(format!("the Makefile has no target {target:?}"))
}

/// The program in this folder, with nothing of the caller's environment but PATH.
pub fn winimg(folder: &Path, arguments: &[&str]) -> std::process::Output {
    tree::alone(&mut Command::new(tree::winimg()), folder)
        .args(arguments)
        .output()
        .expect("winimg starts")
}
