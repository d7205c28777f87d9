//! What the guest's scripts do: programs as jobs, small files, restart and power-off.

use std::path::PathBuf;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde_json::{Value, json};

use super::{Job, Scripted, Stage, matches, now};
use crate::config::Run;
use crate::engine::SessionError;

/// How much of a job's output one poll brings.
const PIECE: usize = 64 << 10;

impl Scripted {
    /// The program's entry: the first that fits and is not used up.
    fn entry(&mut self, line: &str) -> Option<Run> {
        let files = self.life.windows.as_ref().map(|w| &w.files);
        let there = |path: &String| files.is_some_and(|f| f.contains_key(&path.to_lowercase()));
        let discs: Vec<&PathBuf> = self
            .life
            .spec
            .iter()
            .flat_map(|s| &s.dvds)
            .flatten()
            .collect();
        let lies = |name: &String| {
            discs
                .iter()
                .any(|d| d.to_string_lossy().ends_with(name.as_str()))
        };
        let fits = |(n, run): &(usize, &Run)| {
            matches(&run.command, line)
                && run.times.is_none_or(|times| self.life.used[*n] < times)
                && run.if_file.as_ref().is_none_or(there)
                && run.if_disc.as_ref().is_none_or(lies)
        };
        let (n, run) = self.config.run.iter().enumerate().find(fits)?;
        let run = run.clone();
        self.life.used[n] += 1;
        Some(run)
    }

    /// What programs that have ended leave behind.
    pub(super) fn finish_jobs(&mut self) {
        let Some(found) = &mut self.life.windows else {
            return;
        };
        let time = now();
        for job in self.life.jobs.values_mut() {
            if job.done || job.cut || job.ends > time {
                continue;
            }
            job.done = true;
            let Some(run) = &job.run else { continue };
            if let Some(ms) = run.off_ms {
                self.life.sealing = Some((time + ms / 2, time + ms));
            }
            for pattern in &run.deletes {
                found.files.retain(|path, _| !matches(pattern, path));
            }
            let files = run.files.iter();
            found
                .files
                .extend(files.map(|(path, text)| (path.to_lowercase(), text.clone().into_bytes())));
        }
    }

    fn start_job(&mut self, arguments: &[Value]) -> Result<Value, SessionError> {
        let [id, program, line] = texts(arguments, 3)?;
        let job = id.len() <= 64 && id.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-');
        if !job {
            return Err(SessionError::Threw(format!(
                "the job's name can't be a folder's: {id}"
            )));
        }
        let job = arguments.get(3).and_then(Value::as_str);
        if !job.is_some_and(|text| text.contains("ProcessStartInfo")) {
            return Err(SessionError::Threw(
                "the text of the script that runs the job is missing".into(),
            ));
        }
        if self.life.jobs.contains_key(&id) {
            return Ok(json!({"boot": self.life.boot}));
        }
        let line = format!("{program} {line}").trim_end().to_string();
        let run = self.entry(&line);
        let ends = if self.life.boxed {
            u64::MAX
        } else {
            now() + run.as_ref().map_or(0, |r| r.delay_ms)
        };
        let job = Job {
            line,
            ends,
            run,
            done: false,
            cut: false,
        };
        self.life.jobs.insert(id, job);
        self.finish_jobs();
        Ok(json!({"boot": self.life.boot}))
    }

    fn poll(&self, arguments: &[Value]) -> Result<Value, SessionError> {
        let [id] = texts(arguments, 1)?;
        let offset = number(arguments, 1)?;
        let Some(job) = self.life.jobs.get(&id) else {
            return Ok(
                json!({"boot": self.life.boot, "known": false, "ended": false, "exit": null, "error": null, "output": "", "size": 0}),
            );
        };
        let output = match &job.run {
            Some(run) if job.done => run.output.clone().into_bytes(),
            None if job.done => {
                format!("the script has no reply to: {}\r\n", job.line).into_bytes()
            }
            _ => Vec::new(),
        };
        let rest = output.get(offset.min(output.len())..).unwrap_or_default();
        let piece = &rest[..rest.len().min(PIECE)];
        let exit = job.done.then(|| job.run.as_ref().map_or(9009, |r| r.exit));
        Ok(
            json!({"boot": self.life.boot, "known": true, "ended": job.done, "exit": exit, "error": null, "output": BASE64.encode(piece), "size": output.len()}),
        )
    }

    fn put(&mut self, arguments: &[Value]) -> Result<Value, SessionError> {
        let [path, text] = texts(arguments, 2)?;
        let threw = |why: &str| {
            SessionError::Threw(format!(
                "Exception calling \"WriteAllBytes\" with \"2\" argument(s): \"{why}\""
            ))
        };
        let bytes = BASE64
            .decode(text)
            .map_err(|_| SessionError::Threw("The input is not a valid Base-64 string".into()))?;
        let key = path.to_lowercase();
        let folder = key.rsplit_once('\\').map_or("", |(folder, _)| folder);
        let windows = self.life.windows.as_mut().ok_or(SessionError::Ended)?;
        if !windows.has_folder(folder) {
            return Err(threw(&format!(
                "Could not find a part of the path '{path}'."
            )));
        }
        windows.files.insert(key, bytes);
        Ok(json!({"boot": self.life.boot}))
    }

    fn get(&self, arguments: &[Value]) -> Result<Value, SessionError> {
        let [path] = texts(arguments, 1)?;
        let limit = number(arguments, 1)?;
        let windows = self.life.windows.as_ref().ok_or(SessionError::Ended)?;
        let boot = &self.life.boot;
        Ok(match windows.files.get(&path.to_lowercase()) {
            None => json!({"boot": boot, "there": false, "size": 0, "base64": null}),
            Some(bytes) if bytes.len() > limit => {
                json!({"boot": boot, "there": true, "size": bytes.len(), "base64": null})
            }
            Some(bytes) => {
                json!({"boot": boot, "there": true, "size": bytes.len(), "base64": BASE64.encode(bytes)})
            }
        })
    }

    pub(super) fn carry_out(
        &mut self,
        call: &str,
        arguments: &[Value],
    ) -> Result<Value, SessionError> {
        let boot = json!({"boot": self.life.boot});
        match call {
            "look" => Ok(boot),
            "start" => self.start_job(arguments),
            "poll" => self.poll(arguments),
            "forget" => {
                let [id] = texts(arguments, 1)?;
                self.life.jobs.remove(&id);
                Ok(boot)
            }
            "put" => self.put(arguments),
            "get" => self.get(arguments),
            "restart" => {
                self.enter(
                    Stage::Restarting,
                    Some(self.config.install.restart_ms),
                    now(),
                );
                Ok(boot)
            }
            "off" => {
                self.enter(Stage::PoweringOff, Some(self.config.install.off_ms), now());
                Ok(boot)
            }
            other => Err(SessionError::Threw(format!("no script {other}"))),
        }
    }
}

/// The first `N` arguments, as texts.
fn texts<const N: usize>(arguments: &[Value], least: usize) -> Result<[String; N], SessionError> {
    let all: Option<Vec<String>> = arguments
        .iter()
        .take(N)
        .map(|v| v.as_str().map(str::to_owned))
        .collect();
    let all = all.filter(|_| arguments.len() >= least);
    all.and_then(|a| a.try_into().ok()).ok_or_else(|| {
        SessionError::Threw(format!(
            "the script's arguments are not the texts that it takes: {} were given",
            arguments.len()
        ))
    })
}

fn number(arguments: &[Value], at: usize) -> Result<usize, SessionError> {
    let found = arguments.get(at).and_then(Value::as_u64);
    found
        .and_then(|n| usize::try_from(n).ok())
        .ok_or_else(|| SessionError::Threw(format!("argument {at} is no number")))
}
