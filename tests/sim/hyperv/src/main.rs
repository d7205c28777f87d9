//! A Windows PowerShell without Windows: it takes the command line that runs `host.ps1`, speaks its lines, and has a Hyper-V whose guests follow a script.
//!
//! Strict where Hyper-V is: unknown cmdlets and parameters, wrong types, files in use and machines in the wrong state are refused. `README.md` describes it.

mod at;
mod calls;
mod cmdlets;
mod config;
mod engine;
mod fault;
mod host;
mod object;
#[cfg(unix)]
mod qemu;
mod refusal;
mod screen;
mod script;
mod state;
mod syntax;
mod tables;
mod trace;
mod vhdx;
mod windows;

use std::io::{BufRead as _, Write as _};
use std::path::{Path, PathBuf};

use serde_json::json;

use config::{Config, Deed};
use host::{Host, Request};

/// How winimg runs PowerShell (Microsoft: about_PowerShell_exe), before the script's path.
const WORDS: [&str; 6] = [
    "-NoLogo",
    "-NoProfile",
    "-NonInteractive",
    "-ExecutionPolicy",
    "Bypass",
    "-File",
];

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let Err(why) = run(&arguments) {
        eprintln!("powershell.exe: {why}");
        std::process::exit(1);
    }
}

fn run(arguments: &[String]) -> Result<(), String> {
    let script = script(arguments)?;
    let config = Config::of_environment()?;
    let folder = script.parent().unwrap_or(Path::new("/")).to_path_buf();
    let mut host = Host::new(config, folder);
    let mut pieces = 0;
    say("{\"ready\":1}\n", 0)?;
    for line in std::io::stdin().lock().lines() {
        let line = line.map_err(|e| e.to_string())?;
        let request: Request =
            serde_json::from_str(&line).map_err(|e| format!("a line that is no request: {e}"))?;
        let answer = host.answer(&request);
        let mut id = request.id;
        for fault in &answer.faults {
            match fault.deed {
                Deed::Dies => {
                    eprintln!("powershell.exe: the stand-in ends here");
                    std::process::exit(3);
                }
                Deed::Hangs => host::hang(),
                Deed::Garbage => say("VERBOSE: something that is no JSON\n", 0)?,
                Deed::OtherId => id += 1000,
                Deed::Splits => pieces = fault.number.max(1) as usize,
                _ => {}
            }
        }
        let reply = match answer.outcome {
            Ok(done) => json!({"id": id, "done": done}),
            Err(refusal) => json!({"id": id, "error": refusal}),
        };
        say(&format!("{reply}\n"), pieces)?;
    }
    host.end()
}

/// The command line, word for word; the script has to lie there.
fn script(arguments: &[String]) -> Result<PathBuf, String> {
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let [flags @ .., path] = words.as_slice() else {
        return Err("this stand-in only runs winimg's host.ps1".into());
    };
    if flags != WORDS || !path.ends_with("host.ps1") {
        return Err(format!(
            "this stand-in only takes {} …/host.ps1, not {arguments:?}",
            WORDS.join(" ")
        ));
    }
    let path = PathBuf::from(path);
    if !path.is_file() {
        // Source: Microsoft: about_PowerShell_exe, -File.
        return Err(format!(
            "The argument '{}' to the -File parameter does not exist.",
            path.display()
        ));
    }
    Ok(path)
}

/// Writes, in pieces of so many bytes unless that is none.
fn say(text: &str, pieces: usize) -> Result<(), String> {
    let mut out = std::io::stdout().lock();
    let size = if pieces == 0 { text.len() } else { pieces };
    for piece in text.as_bytes().chunks(size.max(1)) {
        out.write_all(piece)
            .and_then(|()| out.flush())
            .map_err(|e| e.to_string())?;
    }
    Ok(())
}
