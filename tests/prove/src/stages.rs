//! What is done with one row, from its recipe to its clones: winimg's commands, each with its exit status, its time and its last word.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use winimg_base::text::Secret;

use crate::cluster::Cluster;
use crate::proof::Stage;
use crate::seen;
use crate::site::{Done, Site, at};
use crate::work::{Planned, Work};

/// Longer than any command of winimg takes on a machine without virtualization, which has deadlines of its own.
const LIMIT: Duration = Duration::from_secs(24 * 60 * 60);
/// After an interrupt winimg removes its machine.
const TO_CLEAN_UP: Duration = Duration::from_secs(60);
/// winimg's exit status of a build whose disk is not what it should be (docs/exit-status.md).
const VERIFY: i32 = 10;

impl Site<'_> {
    /// What is planned and not done yet; what follows `pin`, `build` or `verify` that failed is left out, and so is the join of clones that did
    /// not come up.
    ///
    /// # Errors
    /// The host's: a file that cannot be read or written, an interrupt. What winimg says of the image is in the row.
    pub fn stages(
        &self,
        work: &mut Work,
        values: &[String],
        cluster: Option<&Cluster>,
    ) -> Done<()> {
        for what in work.planned.clone() {
            if work.is_done(what) {
                continue;
            }
            let goes_on = match what {
                Planned::Pin => {
                    let recipe = text(&work.folder.join("recipe.toml"))?;
                    let arguments = [vec!["pin".into(), recipe], values.to_vec()].concat();
                    self.stage(work, what, &arguments)?
                }
                Planned::Build => self.built(work, values)?,
                Planned::Verify => self.verified(work)?,
                Planned::Try(target) => {
                    self.tried(work, target)?;
                    true
                }
                Planned::Join(target) => {
                    if let (true, Some(cluster)) = (work.is_done(Planned::Try(target)), cluster) {
                        self.joined(work, target, cluster)?;
                    }
                    true
                }
            };
            if !goes_on {
                break;
            }
        }
        Ok(())
    }

    fn built(&self, work: &mut Work, values: &[String]) -> Done<bool> {
        let recipe = text(&work.folder.join("recipe.toml"))?;
        let output = work.folder.join("out");
        let mut build: Vec<String> = ["build", &recipe, "--no-lock", "--output", &text(&output)?]
            .map(String::from)
            .into();
        build.extend(["--hypervisor".into(), self.options.hypervisor.clone()]);
        build.extend(self.accel());
        build.extend_from_slice(values);
        let stage = self.command(work, Planned::Build, &build, None, &mut || {});
        // After an interrupt, too: what the guest said up to it.
        let events = fs::read_to_string(work.folder.join("build.jsonl")).unwrap_or_default();
        work.row.seen = seen::build(&events);
        work.row.seen.disk_usage = output.join("disk-usage.json").exists();
        let stage = stage?;
        if stage.status == Some(VERIFY) {
            work.row.verified = seen::checked(&events);
        }
        work.push(stage)
    }

    fn verified(&self, work: &mut Work) -> Done<bool> {
        let manifest = text(&work.folder.join("out/manifest.json"))?;
        let verify = ["verify".into(), "--json".into(), manifest];
        let stage = self.command(work, Planned::Verify, &verify, None, &mut || {})?;
        let said = fs::read_to_string(work.folder.join("verify.out")).unwrap_or_default();
        work.row.verified = seen::verified(&said).ok();
        work.push(stage)
    }

    fn tried(&self, work: &mut Work, target: &'static str) -> Done<()> {
        let output = work.folder.join("out");
        let arguments = self.trial(&output, target)?;
        let result = output.join(format!("try/{target}.json"));
        // One of an earlier try would speak for this one. There may be none.
        let _ = fs::remove_file(&result);
        let stage = self.command(work, Planned::Try(target), &arguments, None, &mut || {})?;
        // A host that failed leaves none: that says nothing of the image.
        if let Ok(said) = fs::read_to_string(&result) {
            work.row.trials.push(seen::trial(&said)?);
        }
        work.push(stage).map(drop)
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

    /// One command of winimg that is a stage. Whether it ended well.
    fn stage(&self, work: &mut Work, what: Planned, arguments: &[String]) -> Done<bool> {
        let stage = self.command(work, what, arguments, None, &mut || {})?;
        work.push(stage)
    }

    /// The same, and the stage is not in the row yet: its events are appended to `WHAT.jsonl`, its standard output is `WHAT.out`. `input`: its
    /// standard input. `glance` is called while it runs.
    pub fn command(
        &self,
        work: &Work,
        what: Planned,
        arguments: &[String],
        input: Option<&Secret>,
        glance: &mut dyn FnMut(),
    ) -> Done<Stage> {
        let interrupted = || "interrupted; the next run goes on".to_owned();
        if self.options.cancel.is_cancelled() {
            return Err(interrupted());
        }
        println!("     {} {what} …", work.row.name);
        let began = Instant::now();
        let name = what.to_string().replace(' ', "-");
        let log = work.folder.join(format!("{name}.jsonl"));
        let out = work.folder.join(format!("{name}.out"));
        let before = fs::metadata(&log).map_or(0, |found| found.len());
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        let mut command = self.winimg(&arguments);
        let appended = File::options().create(true).append(true).open(&log);
        command.stderr(at(&log, appended)?);
        command.stdout(at(&out, File::create(&out))?);
        if input.is_some() {
            command.stdin(Stdio::piped());
        }
        alone(&mut command);
        let mut child = at(&self.options.winimg, command.spawn())?;
        if let (Some(input), Some(mut pipe)) = (input, child.stdin.take()) {
            // One that ends before it has read it says why.
            let _ = pipe.write_all(input.expose().as_bytes());
        }
        let ended = self.ended(&mut child, began + LIMIT, glance);
        let status = at(&self.options.winimg, ended)?;
        let is_good = status.is_some_and(|status| status.success());
        if self.options.cancel.is_cancelled() && !is_good {
            return Err(interrupted());
        }
        let events = fs::read(&log).unwrap_or_default();
        let events = events.get(before as usize..).unwrap_or_default();
        Ok(Stage {
            what: what.to_string(),
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
                interrupt(child);
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
}

/// In a process group of its own: Ctrl-C at the terminal would otherwise reach winimg beside what `interrupt` sends, and the second ends it
/// before its machine is gone.
fn alone(command: &mut Command) {
    #[cfg(unix)]
    std::os::unix::process::CommandExt::process_group(command, 0);
    #[cfg(not(unix))]
    let _ = command;
}

/// Asks winimg to stop. On Windows the console has done so.
fn interrupt(child: &Child) {
    #[cfg(unix)]
    {
        use nix::sys::signal::{Signal, kill};
        use nix::unistd::Pid;
        if let Ok(id) = i32::try_from(child.id()) {
            // It may have ended meanwhile.
            let _ = kill(Pid::from_raw(id), Signal::SIGTERM);
        }
    }
    #[cfg(not(unix))]
    let _ = child;
}

pub fn text(path: &Path) -> Done<String> {
    let text = path.to_str().map(str::to_owned);
    text.ok_or_else(|| format!("{}: the path is not UTF-8", path.display()))
}
