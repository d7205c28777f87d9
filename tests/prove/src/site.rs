//! winimg on this host, and the medium: what every row has in common.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde::Deserialize;

use crate::ledger::Ledger;
use crate::proof::Medium;
use crate::run::Options;
use crate::seen;
use winimg_base::io;

pub type Done<T> = Result<T, String>;

/// An error of the host, with the file that it is about.
pub fn at<T>(what: &Path, result: std::io::Result<T>) -> Done<T> {
    result.map_err(|e| format!("{}: {e}", what.display()))
}

/// SHA-256 of a file, lower-case hex, and its size in bytes.
fn digest(path: &Path) -> Done<(String, u64)> {
    let (digest, size) = io::compute_sha256(path).map_err(|e| e.to_string())?;
    Ok((digest.hex(), size))
}

/// One line of `winimg doctor --json`.
#[derive(Deserialize)]
struct Check {
    about: String,
    state: String,
    found: String,
    cure: Option<String>,
}

impl Check {
    fn is_missing(&self) -> bool {
        self.state == "missing"
    }

    /// As `winimg doctor` prints it.
    fn line(&self) -> String {
        let state = match self.state.as_str() {
            "good" => String::new(),
            state => format!("{state}: "),
        };
        let cure = self.cure.as_ref().map(|cure| format!("; {cure}"));
        format!("{state}{}{}", self.found, cure.unwrap_or_default())
    }
}

#[derive(Deserialize)]
struct Checks {
    checks: Vec<Check>,
}

/// The host's side of a run.
pub struct Site<'a> {
    pub options: &'a Options,
    /// Of the rows, and of winimg's cache.
    pub work: PathBuf,
}

impl Site<'_> {
    pub fn winimg(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(&self.options.winimg);
        command.args(["--log-format", "json"]).args(arguments);
        // Its own: a layer of it is of this run or of one before it.
        command.env("WINIMG_CACHE_DIR", self.cache());
        command
    }

    pub fn cache(&self) -> PathBuf {
        self.work.join("cache")
    }

    /// Standard output of a short command that has to end well.
    fn output(&self, arguments: &[&str]) -> Done<String> {
        let done = self.winimg(arguments).output();
        let done = at(&self.options.winimg, done)?;
        if !done.status.success() {
            let said = String::from_utf8_lossy(&done.stderr);
            return Err(format!("winimg {}: {said}", arguments.join(" ")));
        }
        Ok(String::from_utf8_lossy(&done.stdout).into_owned())
    }

    pub fn version(&self) -> Done<String> {
        Ok(self.output(&["--version"])?.trim().to_owned())
    }

    /// SHA-256 of the program, lower-case hex.
    pub fn program(&self) -> Done<String> {
        Ok(digest(&self.options.winimg)?.0)
    }

    /// The commit of the source tree, as git describes it; nothing where there is no git or no repository.
    pub fn commit(&self) -> Option<String> {
        let mut git = Command::new("git");
        git.arg("-C").arg(&self.options.tree);
        git.args([
            "describe",
            "--always",
            "--dirty",
            "--abbrev=40",
            "--exclude=*",
        ]);
        let done = git.output().ok().filter(|done| done.status.success())?;
        let said = String::from_utf8(done.stdout).ok()?;
        Some(said.trim().to_owned()).filter(|said| !said.is_empty())
    }

    /// The accelerator without which no row is begun: what was asked for, and on Linux KVM.
    fn wanted(&self) -> Option<&str> {
        let is_linux = cfg!(target_os = "linux") && self.options.hypervisor == "qemu";
        self.options.accel.as_deref().or(is_linux.then_some("kvm"))
    }

    /// What doctor found of this host and of the folder that rows are made in, a line each. Other things that are missing are for the rows to say.
    ///
    /// # Errors
    /// No machine starts with the accelerator that is wanted.
    pub fn host(&self) -> Done<Vec<String>> {
        let folder = self.work.to_str().ok_or("the folder's name is not UTF-8")?;
        let mut arguments = vec!["doctor", "--json", "--output", folder];
        arguments.extend(["--hypervisor", &self.options.hypervisor]);
        let wanted = self.wanted();
        arguments.extend(wanted.into_iter().flat_map(|accel| ["--accel", accel]));
        let done = at(&self.options.winimg, self.winimg(&arguments).output())?;
        let found: Checks = serde_json::from_slice(&done.stdout).map_err(|e| {
            format!(
                "winimg doctor: {e}\n{}",
                String::from_utf8_lossy(&done.stderr)
            )
        })?;
        let lines: Vec<String> = found.checks.iter().map(Check::line).collect();
        for line in &lines {
            println!("host {line}");
        }
        // With each firmware: one that is not installed keeps the rows of the other from nothing.
        let machines = found.checks.iter().filter(|check| check.about == "qemu");
        let machines: Vec<&Check> = machines.collect();
        if machines.iter().all(|check| check.is_missing()) {
            if !machines.is_empty() {
                Err(no_machine(&found.checks, machines[0], wanted))
            } else {
                Ok(lines)
            }
        } else {
            Ok(lines)
        }
    }

    pub fn medium(&self, ledger: &Ledger) -> Done<Medium> {
        let iso = &self.options.iso;
        let (sha256, size) = digest(iso)?;
        let name = iso.to_str().ok_or("the ISO's name is not UTF-8")?;
        let (build, images) = seen::medium(&self.output(&["inspect", "--json", name])?)?;
        let known = ledger.medium(&sha256).map(|medium| medium.name.clone());
        let file = iso
            .file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        Ok(Medium {
            file,
            size,
            sha256,
            build,
            images,
            known,
        })
    }

    /// What each build is given beside the recipe.
    pub fn values(&self, medium: &Medium) -> Done<Vec<String>> {
        let mut vars = vec![
            format!("iso_url={}", self.options.iso.display()),
            format!("iso_checksum={}", medium.sha256),
        ];
        if let Some(virtio) = &self.options.virtio {
            vars.push(format!("virtio_url={}", virtio.display()));
            vars.push(format!("virtio_sha256={}", digest(virtio)?.0));
        }
        vars.extend(self.options.vars.iter().cloned());
        let vars = vars.into_iter().flat_map(|var| ["--var".to_owned(), var]);
        let sets = self.options.sets.iter().cloned();
        Ok(vars
            .chain(sets.flat_map(|set| ["--set".to_owned(), set]))
            .collect())
    }
}

fn no_machine(checks: &[Check], first: &Check, wanted: Option<&str>) -> String {
    let with = wanted.map(|accel| format!(" with {accel}"));
    let mut said = format!(
        "no machine starts{} on this host\n  found: {}",
        with.unwrap_or_default(),
        first.found
    );
    // KVM's own first; that of the machine names the other accelerator.
    let kvm = checks.iter().find(|check| check.about == "kvm");
    let cures = [kvm, Some(first)].into_iter().flatten();
    let cures = cures.filter_map(|check| check.cure.as_ref());
    said.extend(cures.map(|cure| format!("\n  cure: {cure}")));
    said
}
