//! What is done with one row, from its recipe to its clones: winimg's commands, each with its exit status, its time and its last word.

use std::fs::{self, File};
use std::io;
use std::path::Path;
use std::process::{Child, ExitStatus};
use std::time::{Duration, Instant};

use winimg::record::Manifest;

use crate::proof::{Row, Stage};
use crate::seen;
use crate::site::{Done, Site, at};

/// Longer than any command of winimg takes on a machine without virtualization, which has deadlines of its own.
const LIMIT: Duration = Duration::from_secs(24 * 60 * 60);
/// An interrupt at the terminal reaches winimg, too, which then removes its machine.
const TO_CLEAN_UP: Duration = Duration::from_secs(60);

impl Site<'_> {
    /// `pin` of a shipped recipe, `build`, `verify`, and `try` for each target; what follows a stage that failed is left out.
    ///
    /// # Errors
    /// The host's: a file that cannot be read or written, an interrupt. What winimg says of the image is in the row.
    pub fn stages(&self, folder: &Path, values: &[String], row: &mut Row) -> Done<()> {
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
                self.tried(folder, &target, row)?;
            }
        }
        Ok(())
    }

    fn tried(&self, folder: &Path, target: &str, row: &mut Row) -> Done<()> {
        let output = folder.join("out");
        let mut arguments: Vec<String> = ["try", &text(&output)?, "--as", target]
            .map(String::from)
            .into();
        let settle = self.options.settle.iter().cloned();
        arguments.extend(settle.flat_map(|settle| ["--settle".to_owned(), settle]));
        arguments.extend(self.accel());
        let result = output.join(format!("try/{target}.json"));
        // One of an earlier try would speak for this one. There may be none.
        let _ = fs::remove_file(&result);
        self.stage(folder, &format!("try {target}"), &arguments, row)?;
        // A host that failed leaves none: that says nothing of the image.
        if let Ok(said) = fs::read_to_string(&result) {
            row.trials.push(seen::trial(&said)?);
        }
        Ok(())
    }

    fn accel(&self) -> Vec<String> {
        let accel = self.options.accel.iter().cloned();
        accel
            .flat_map(|accel| ["--accel".to_owned(), accel])
            .collect()
    }

    /// One command of winimg; its events are appended to `WHAT.jsonl`, its standard output is `WHAT.out`. Whether it ended well.
    fn stage(&self, folder: &Path, what: &str, arguments: &[String], row: &mut Row) -> Done<bool> {
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
        let mut child = at(&self.options.winimg, command.spawn())?;
        let status = at(&self.options.winimg, self.ended(&mut child, began + LIMIT))?;
        if self.options.cancel.is_cancelled() {
            return Err("interrupted; the next run goes on".into());
        }
        let events = fs::read(&log).unwrap_or_default();
        let events = events.get(before as usize..).unwrap_or_default();
        let stage = Stage {
            what: what.to_owned(),
            status: status.and_then(|status| status.code()),
            seconds: (began.elapsed().as_secs_f64() * 10.0).round() / 10.0,
            said: seen::failure(&String::from_utf8_lossy(events)),
        };
        let is_good = stage.is_good();
        if let (false, Some(said)) = (is_good, &stage.said) {
            println!("     {}", said.replace('\n', "\n     "));
        }
        row.stages.push(stage);
        Ok(is_good)
    }

    /// The end of the process, or nothing where it was killed: at the deadline, or some time after an interrupt.
    fn ended(&self, child: &mut Child, mut deadline: Instant) -> io::Result<Option<ExitStatus>> {
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

fn text(path: &Path) -> Done<String> {
    let text = path.to_str().map(str::to_owned);
    text.ok_or_else(|| format!("{}: the path is not UTF-8", path.display()))
}

fn manifest(path: &Path) -> Done<Manifest> {
    Manifest::read(path).map_err(|e| e.to_string())
}
