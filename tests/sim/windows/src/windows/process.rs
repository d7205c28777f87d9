//! A running program of the stand-in: its environment, directory and streams, and how CreateProcess starts another.

use std::collections::BTreeMap;
use std::io::Write;
use std::sync::{Arc, Mutex, PoisonError};

use super::error::*;
use super::image::MARKER;
use super::volume::{Cwd, Located, Place};
use super::{Machine, cmd, cmdline, program};

/// A stream that several programs write to, in the order they write.
pub type Stream = Arc<Mutex<dyn Write + Send>>;

pub fn null() -> Stream {
    Arc::new(Mutex::new(std::io::sink()))
}

/// A stream kept in memory.
pub fn buffer() -> Arc<Mutex<Vec<u8>>> {
    Arc::new(Mutex::new(Vec::new()))
}

pub fn taken(buffer: &Arc<Mutex<Vec<u8>>>) -> Vec<u8> {
    std::mem::take(&mut *buffer.lock().unwrap_or_else(PoisonError::into_inner))
}

/// Environment variables: found in any case, listed in order, names keep their case.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Env(BTreeMap<String, (String, String)>);

impl Env {
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0
            .get(&name.to_uppercase())
            .map(|(_, value)| value.as_str())
    }

    /// An empty value removes the variable, as `set NAME=` does.
    pub fn set(&mut self, name: &str, value: &str) {
        let key = name.to_uppercase();
        if value.is_empty() {
            self.0.remove(&key);
        } else {
            let name = self
                .0
                .get(&key)
                .map_or_else(|| name.to_owned(), |(name, _)| name.clone());
            self.0.insert(key, (name, value.to_owned()));
        }
    }

    pub fn iter(&self) -> impl Iterator<Item = &(String, String)> {
        self.0.values()
    }

    /// ExpandEnvironmentStrings: unknown names stay as they are.
    pub fn expand(&self, text: &str) -> String {
        let mut out = String::new();
        let mut rest = text;
        while let Some(start) = rest.find('%') {
            out.push_str(&rest[..start]);
            let after = &rest[start + 1..];
            match after
                .find('%')
                .and_then(|end| Some((end, self.get(&after[..end])?)))
            {
                Some((end, value)) => {
                    out.push_str(value);
                    rest = &after[end + 1..];
                }
                None => {
                    out.push('%');
                    rest = after;
                }
            }
        }
        out + rest
    }
}

#[derive(Clone)]
pub struct Process {
    pub(crate) machine: Arc<Machine>,
    pub env: Env,
    pub cwd: Cwd,
    /// What a pipe or `<` gives; empty at once otherwise (no program of a build has a console to read).
    pub stdin: Arc<Vec<u8>>,
    pub out: Stream,
    pub err: Stream,
    /// 437 at start; 65001 after `chcp 65001`.
    pub code_page: u32,
}

impl Process {
    pub fn print(&self, text: &str) {
        self.emit(&self.out, text);
    }

    pub fn complain(&self, text: &str) {
        self.emit(&self.err, text);
    }

    /// Lines end in CR LF on the way out.
    fn emit(&self, stream: &Stream, text: &str) {
        let text = text.replace("\r\n", "\n").replace('\n', "\r\n");
        let bytes = super::codepage::encode(self.code_page, &text);
        // A reader that went away is no fault of the program.
        let _ = stream
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .write_all(&bytes);
    }

    pub fn locate(&self, path: &str) -> Result<Located, Win32> {
        self.machine.volumes().file(&self.cwd, path)
    }

    pub fn place(&self, path: &str) -> Result<Place, Win32> {
        self.machine.volumes().resolve(&self.cwd, path)
    }

    /// A program file by name: a path is taken as it is, a bare name is looked for in `dirs`. Extensions `tries` are
    /// added in turn ("" means as it is).
    pub fn find(&self, name: &str, dirs: &[String], tries: &[&str]) -> Option<Located> {
        let places: Vec<String> = if name.contains(['\\', '/', ':']) {
            vec![name.to_owned()]
        } else {
            dirs.iter()
                .map(|dir| format!("{}\\{name}", dir.trim_matches('"').trim_end_matches('\\')))
                .collect()
        };
        let candidate = |path: String| self.locate(&path).ok().filter(Located::is_file);
        places.iter().find_map(|place| {
            tries
                .iter()
                .find_map(|ext| candidate(format!("{place}{ext}")))
        })
    }

    pub fn path_dirs(&self) -> Vec<String> {
        self.env
            .get("Path")
            .unwrap_or("")
            .split(';')
            .filter(|dir| !dir.is_empty())
            .map(str::to_owned)
            .collect()
    }

    /// CreateProcess with no application name: the program is cut from the line and searched.
    pub fn create(&self, line: &str) -> Result<u32, Win32> {
        let mut dirs = vec![
            self.cwd.0.clone(),
            r"C:\Windows\System32".into(),
            r"C:\Windows".into(),
        ];
        dirs.extend(self.path_dirs());
        let search = |name: &str| {
            let last = name.rsplit('\\').next().unwrap_or(name);
            let tries: &[&str] = if last.contains('.') { &[""] } else { &[".exe"] };
            self.find(name, &dirs, tries).or_else(|| {
                self.find(name, &dirs, &[""])
                    .filter(|_| !last.contains('.'))
            })
        };
        let trimmed = line.trim_start_matches([' ', '\t']);
        if trimmed.starts_with('"') {
            let (name, _) = cmdline::program(trimmed);
            return search(&name)
                .ok_or(FILE_NOT_FOUND)
                .and_then(|image| self.start(&image, trimmed));
        }
        // Unquoted: the name ends at the first blank where a program of that name exists.
        let blanks = trimmed
            .char_indices()
            .filter(|(_, c)| matches!(c, ' ' | '\t'))
            .map(|(at, _)| at);
        for end in blanks.chain([trimmed.len()]) {
            if let Some(image) = search(&trimmed[..end]) {
                // The name may hold blanks, so the line is given on with the name quoted.
                let line = format!("\"{}\"{}", &trimmed[..end], &trimmed[end..]);
                return self.start(&image, &line);
            }
        }
        Err(FILE_NOT_FOUND)
    }

    /// Runs a program file that was found; `line` begins with its name as typed.
    pub fn start(&self, image: &Located, line: &str) -> Result<u32, Win32> {
        let lower = image.name.to_ascii_lowercase();
        if lower.ends_with(".cmd") || lower.ends_with(".bat") {
            return Ok(cmd::run(self, &format!("cmd.exe /c \"{line}\"")));
        }
        let bytes = std::fs::read(&image.host).map_err(|e| Win32::from_io(&e))?;
        let Some(text) = bytes.strip_prefix(MARKER.as_bytes()) else {
            let known = self.machine.programs.find(&bytes).ok_or(BAD_EXE_FORMAT)?;
            return Ok(known.run(self, cmdline::program(line).1));
        };
        let text = String::from_utf8_lossy(text);
        let (name, rest) = text.split_once('\n').unwrap_or((&text, ""));
        let (name, (_, tail)) = (name.trim_end(), cmdline::program(line));
        if name == "script" {
            let script = cmd::Script {
                file: image.name.clone(),
                text: rest.to_owned(),
            };
            return Ok(cmd::run_script(self, script, &cmdline::split(tail)));
        }
        if name == program::answers::NAME {
            return Ok(program::answers::run(self, &bytes, tail));
        }
        let run = program::named(name).ok_or(BAD_EXE_FORMAT)?;
        // A component's program can bring answers beside what it does, such as its version.
        if let Some(text) = program::answers::of(&bytes, tail) {
            self.print(&text);
            return Ok(0);
        }
        let mut child = self.clone();
        Ok(run(
            &mut child,
            &program::Arguments {
                line: line.to_owned(),
                tail: tail.to_owned(),
                list: cmdline::split(tail),
            },
        ))
    }
}
