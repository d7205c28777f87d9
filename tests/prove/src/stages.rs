//! What is done with one row, from its recipe to its clones: winimg's commands, each with its exit status, its time and its last word.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::Path;
use std::process::{Child, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use winimg::record::Manifest;
use winimg_base::text::Secret;

use crate::cluster::Cluster;
use crate::proof::{Row, Stage};
use crate::seen;
use crate::site::{Done, Site, at};

/// Longer than any command of winimg takes on a machine without virtualization, which has deadlines of its own.
const LIMIT: Duration = Duration::from_secs(24 * 60 * 60);
/// An interrupt at the terminal reaches winimg, too, which then removes its machine.
const TO_CLEAN_UP: Duration = Duration::from_secs(60);
/// winimg's exit status of a build whose disk is not what it should be (docs/exit-status.md).
const VERIFY: i32 = 10;

impl Site<'_> {
    /// `pin` of a shipped recipe, `build`, `verify`, and `try` for each target, with `join` where there is a cluster; what follows a stage that failed is left out.
    ///
    /// # Errors
    /// The host's: a file that cannot be read or written, an interrupt. What winimg says of the image is in the row.
    pub fn stages(
        &self,
        folder: &Path,
        values: &[String],
        cluster: Option<&Cluster>,
        row: &mut Row,
    ) -> Done<()> {
        let recipe = text(&folder.join("recipe.toml"))?;
        if row.shipped.is_some() {
            let arguments = [vec!["pin".into(), recipe.clone()], values.to_vec()].concat();
            if !self.stage(folder, "pin", &arguments, row)? {
                return Ok(());
            }
        }
        let output = folder.join("out");
        let mut build: Vec<String> = ["build", &recipe, "--no-lock", "--output", &text(&output)?]
            .map(String::from)
            .into();
        build.extend(["--hypervisor".into(), self.options.hypervisor.clone()]);
        build.extend(self.accel());
        build.extend_from_slice(values);
        let is_built = self.stage(folder, "build", &build, row)?;
        let events = fs::read_to_string(folder.join("build.jsonl")).unwrap_or_default();
        row.seen = seen::build(&events);
        row.seen.disk_usage = output.join("disk-usage.json").exists();
        if row.stages.last().and_then(|stage| stage.status) == Some(VERIFY) {
            row.verified = seen::checked(&events);
        }
        if !is_built {
            return Ok(());
        }
        let manifest = output.join("manifest.json");
        let verify = ["verify".into(), "--json".into(), text(&manifest)?];
        let is_verified = self.stage(folder, "verify", &verify, row)?;
        let said = fs::read_to_string(folder.join("verify.out")).unwrap_or_default();
        row.verified = seen::verified(&said).ok();
        if is_verified && self.options.hypervisor == "qemu" {
            for target in self::manifest(&manifest)?.targets {
                let comes_up = self.tried(folder, &target, row)?;
                if let (true, Some(cluster)) = (comes_up, cluster) {
                    self.joined(folder, &target, cluster, row)?;
                }
            }
        }
        Ok(())
    }

    fn tried(&self, folder: &Path, target: &str, row: &mut Row) -> Done<bool> {
        let output = folder.join("out");
        let arguments = self.trial(&output, target)?;
        let result = output.join(format!("try/{target}.json"));
        // One of an earlier try would speak for this one. There may be none.
        let _ = fs::remove_file(&result);
        let comes_up = self.stage(folder, &format!("try {target}"), &arguments, row)?;
        // A host that failed leaves none: that says nothing of the image.
        if let Ok(said) = fs::read_to_string(&result) {
            row.trials.push(seen::trial(&said)?);
        }
        Ok(comes_up)
    }

    /// The arguments of a trial of what a build left in `output`.
    pub fn trial(&self, output: &Path, target: &str) -> Done<Vec<String>> {
        let mut arguments: Vec<String> = ["try", &text(output)?, "--as", target]
            .map(String::from)
            .into();
        let settle = self.options.settle.iter().cloned();
        arguments.extend(settle.flat_map(|settle| ["--settle".to_owned(), settle]));
        arguments.extend(self.accel());
        Ok(arguments)
    }

    fn accel(&self) -> Vec<String> {
        let accel = self.options.accel.iter().cloned();
        accel
            .flat_map(|accel| ["--accel".to_owned(), accel])
            .collect()
    }

    /// One command of winimg; its events are appended to `WHAT.jsonl`, its standard output is `WHAT.out`. Whether it ended well.
    fn stage(&self, folder: &Path, what: &str, arguments: &[String], row: &mut Row) -> Done<bool> {
        let stage = self.command(folder, what, arguments, row, None, &mut || {})?;
        Ok(push(row, stage))
    }

    /// The same as a stage that is not in the row yet. `input`: its standard input. `glance` is called while it runs.
    pub fn command(
        &self,
        folder: &Path,
        what: &str,
        arguments: &[String],
        row: &Row,
        input: Option<&Secret>,
        glance: &mut dyn FnMut(),
    ) -> Done<Stage> {
        println!("     {} {what} …", row.name);
        let began = Instant::now();
        let name = what.replace(' ', "-");
        let log = folder.join(format!("{name}.jsonl"));
        let out = folder.join(format!("{name}.out"));
        let before = fs::metadata(&log).map_or(0, |found| found.len());
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        let mut command = self.winimg(&arguments);
        let appended = File::options().create(true).append(true).open(&log);
        command.stderr(at(&log, appended)?);
        command.stdout(at(&out, File::create(&out))?);
        if input.is_some() {
            command.stdin(Stdio::piped());
        }
        let mut child = at(&self.options.winimg, command.spawn())?;
        if let (Some(input), Some(mut pipe)) = (input, child.stdin.take()) {
            // One that ends before it has read it says why.
            let _ = pipe.write_all(input.expose().as_bytes());
        }
        let ended = self.ended(&mut child, began + LIMIT, glance);
        let status = at(&self.options.winimg, ended)?;
        if self.options.cancel.is_cancelled() {
            return Err("interrupted; the next run goes on".into());
        }
        let events = fs::read(&log).unwrap_or_default();
        let events = events.get(before as usize..).unwrap_or_default();
        Ok(Stage {
            what: what.to_owned(),
            status: status.and_then(|status| status.code()),
            seconds: (began.elapsed().as_secs_f64() * 10.0).round() / 10.0,
            said: seen::failure(&String::from_utf8_lossy(events)),
        })
    }

    /// The end of the process, or nothing where it was killed: at the deadline, or some time after an interrupt.
    fn ended(
        &self,
        child: &mut Child,
        mut deadline: Instant,
        glance: &mut dyn FnMut(),
    ) -> io::Result<Option<ExitStatus>> {
        let mut is_cancelled = false;
        loop {
            if let Some(status) = child.try_wait()? {
                return Ok(Some(status));
            }
            if self.options.cancel.is_cancelled() && !is_cancelled {
                is_cancelled = true;
                deadline = Instant::now() + TO_CLEAN_UP;
            }
            if Instant::now() > deadline {
                child.kill()?;
                child.wait()?;
                return Ok(None);
            }
            glance();
            std::thread::sleep(Duration::from_millis(200));
        }
    }

    /// Takes the artifacts away, which are large; the records stay.
    ///
    /// # Errors
    /// The manifest cannot be read, or a file not removed.
    pub fn forget(&self, folder: &Path) -> Done<()> {
        let output = folder.join("out");
        for artifact in manifest(&output.join("manifest.json"))?.artifacts {
            let file = output.join(artifact.file);
            if file.starts_with(&output) && file.is_file() {
                at(&file, fs::remove_file(&file))?;
            }
        }
        Ok(())
    }
}

/// Whether the stage ended well; its last word is printed where it did not.
pub fn push(row: &mut Row, stage: Stage) -> bool {
    let is_good = stage.is_good();
    if let (false, Some(said)) = (is_good, &stage.said) {
        println!("     {}", said.replace('\n', "\n     "));
    }
    row.stages.push(stage);
    is_good
}

pub fn text(path: &Path) -> Done<String> {
    let text = path.to_str().map(str::to_owned);
    text.ok_or_else(|| format!("{}: the path is not UTF-8", path.display()))
}

fn manifest(path: &Path) -> Done<Manifest> {
    Manifest::read(path).map_err(|e| e.to_string())
}
