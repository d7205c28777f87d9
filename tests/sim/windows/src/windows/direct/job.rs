//! Programs started as SYSTEM by a scheduled task each: they outlive sessions, and what they leave lies in files.
//!
//! The task is registered as the script registers it. What its `job.ps1` does is carried out here; without that script there is no job.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use serde_json::{Map, Value, json};

use crate::windows::agent::encode;
use crate::windows::{Windows, lock, volume};

const FOLDER: &str = r"C:\ProgramData\winimg-jobs";
const TASKS: &str = r"C:\Windows\System32\Tasks";
const SHELL: &str = r"C:\Windows\System32\WindowsPowerShell\v1.0\powershell.exe";
/// Longest piece of output that one poll gives.
const PIECE: u64 = 64 << 10;

pub struct Job {
    pub id: String,
    pub program: String,
    /// The command line after the program, as it is.
    pub line: String,
    /// The text of `job.ps1`.
    pub script: String,
}

/// Where running jobs write; None once they are forgotten.
#[derive(Default)]
pub struct Jobs(BTreeMap<String, Arc<Mutex<Option<File>>>>);

struct Output(Arc<Mutex<Option<File>>>);

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        match lock(&self.0).as_mut() {
            Some(file) => file.write(bytes),
            None => Ok(bytes.len()),
        }
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

fn checked(id: &str) -> Result<(), String> {
    let plain = |c: char| c.is_ascii_alphanumeric() || c == '-';
    if !id.is_empty() && id.len() <= 64 && id.chars().all(plain) {
        Ok(())
    } else {
        Err(format!("job {id:?}: letters, digits and '-' only"))
    }
}

/// The folder on the host, whether it is there or not.
fn folder(windows: &Windows, id: &str) -> Result<PathBuf, String> {
    checked(id)?;
    let path = format!(r"{FOLDER}\{id}");
    let found = windows.process().locate(&path);
    found
        .map(|found| found.host)
        .map_err(|error| format!("{path}: {}", error.text()))
}

fn schtasks(windows: &Windows, arguments: &str) -> Result<(), String> {
    let mut output = Vec::new();
    let line = format!(r"C:\Windows\System32\schtasks.exe {arguments}");
    match windows.run(&line, &mut output) {
        0 => Ok(()),
        _ => Err(String::from_utf8_lossy(&output).trim().to_owned()),
    }
}

impl Jobs {
    pub fn start(&mut self, windows: &Arc<Windows>, job: &Job, boot: &str) -> Result<(), String> {
        let folder = folder(windows, &job.id)?;
        if folder.join("started").exists() {
            return Ok(());
        }
        if !job.script.contains("status.json") || !job.script.contains("output.bin") {
            return Err("start: the job's script writes no status.json and output.bin".into());
        }
        let write = || -> std::io::Result<File> {
            std::fs::create_dir_all(&folder)?;
            std::fs::write(folder.join("job.ps1"), &job.script)?;
            let values = json!({"program": job.program, "line": job.line});
            std::fs::write(folder.join("job.json"), values.to_string())?;
            File::create(folder.join("output.bin"))
        };
        let output = write().map_err(|e| format!("{FOLDER}\\{}: {e}", job.id))?;
        let action = format!(
            r"{SHELL} -NoLogo -NoProfile -NonInteractive -ExecutionPolicy Bypass -File {FOLDER}\{0}\job.ps1 {FOLDER}\{0}",
            job.id
        );
        schtasks(
            windows,
            &format!(
                r#"/create /tn winimg-{} /tr "{action}" /sc once /st 00:00 /ru SYSTEM /rl highest /f"#,
                job.id
            ),
        )?;
        std::fs::write(folder.join("started"), boot).map_err(|e| e.to_string())?;
        let output = Arc::new(Mutex::new(Some(output)));
        self.0.insert(job.id.clone(), output.clone());
        let line = format!("\"{}\" {}", job.program.trim_matches('"'), job.line);
        let windows = windows.clone();
        std::thread::spawn(move || run(&windows, &line, &output, &folder));
        Ok(())
    }

    /// The job's processes are ended with it; here they write into nothing.
    pub fn forget(&mut self, windows: &Windows, id: &str) -> Result<(), String> {
        let folder = folder(windows, id)?;
        if let Some(output) = self.0.remove(id) {
            lock(&output).take();
        }
        let _ = schtasks(windows, &format!("/delete /tn winimg-{id} /f"));
        let _ = std::fs::remove_dir_all(&folder);
        // Only when it is empty.
        let _ = folder.parent().map(std::fs::remove_dir);
        Ok(())
    }
}

fn run(windows: &Windows, line: &str, output: &Arc<Mutex<Option<File>>>, folder: &std::path::Path) {
    let stream = Arc::new(Mutex::new(Output(output.clone())));
    let mut process = windows.process();
    (process.out, process.err) = (stream.clone(), stream);
    let status = match process.create(line) {
        // Process.ExitCode is a signed number of 32 bits.
        Ok(code) => json!({"exit": code as i32, "error": null}),
        Err(error) => json!({"exit": null, "error": error.text()}),
    };
    if lock(output).take().is_none() {
        return;
    }
    let part = folder.join("status.part");
    let _ = std::fs::write(&part, status.to_string())
        .and_then(|()| std::fs::rename(&part, folder.join("status.json")));
}

pub fn poll(windows: &Windows, id: &str, offset: u64) -> Result<Map<String, Value>, String> {
    let folder = folder(windows, id)?;
    let mut object = Map::new();
    for (name, value) in [
        ("known", json!(folder.exists())),
        ("ended", json!(false)),
        ("exit", Value::Null),
        ("error", Value::Null),
        ("output", json!("")),
        ("size", json!(0)),
    ] {
        object.insert(name.into(), value);
    }
    // The end is looked for first: what was written before it is then in the file.
    if let Ok(text) = std::fs::read(folder.join("status.json")) {
        let status: Value = serde_json::from_slice(&text).map_err(|e| e.to_string())?;
        object.insert("ended".into(), json!(true));
        object.insert("exit".into(), status["exit"].clone());
        object.insert("error".into(), status["error"].clone());
    }
    if let Ok(mut file) = File::open(folder.join("output.bin")) {
        let size = file.metadata().map_or(0, |meta| meta.len());
        let mut bytes = Vec::new();
        if offset < size {
            let read = file
                .seek(SeekFrom::Start(offset))
                .and_then(|_| file.take(PIECE).read_to_end(&mut bytes));
            read.map_err(|e| format!("output.bin: {e}"))?;
        }
        object.insert("output".into(), json!(encode(&bytes)));
        object.insert("size".into(), json!(size));
    }
    Ok(object)
}

/// Before Windows is shut down for good: tasks and folders of every job.
pub fn remove_all(windows: &Windows) -> Result<(), String> {
    if let Some(tasks) = windows.host_path(TASKS) {
        for (name, _) in volume::list(&tasks) {
            if name.to_ascii_lowercase().starts_with("winimg-") {
                schtasks(windows, &format!("/delete /tn {name} /f"))?;
            }
        }
    }
    if let Some(folder) = windows.host_path(FOLDER) {
        std::fs::remove_dir_all(folder).map_err(|e| format!("{FOLDER}: {e}"))?;
    }
    Ok(())
}
