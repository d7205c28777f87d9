//! robocopy.exe: its exit code is a sum: 1 files were copied, 2 the target has extra ones, 8 some failed, 16 nothing
//! could be done.

use std::fs;
use std::time::{Duration, SystemTime};

use super::Arguments;
use crate::windows::attribute;
use crate::windows::cmd::{ReadOnly, copy_file};
use crate::windows::error::Win32;
use crate::windows::process::Process;
use crate::windows::regf::same;
use crate::windows::volume::{Located, fits, list};

#[derive(Default)]
struct Job {
    deep: bool,
    empty: bool,
    purge: bool,
    mover: bool,
    move_dirs: bool,
    list_only: bool,
    same_too: bool,
    skip_older: bool,
    skip_newer: bool,
    skip_changed: bool,
    /// `/A-:RASH` and `/A+:RASH`
    take_off: u32,
    put_on: u32,
    files: Vec<String>,
    not_files: Vec<String>,
    not_dirs: Vec<String>,
    log: Option<(String, bool)>,
    text: String,
    copied: usize,
    extra: usize,
    failed: usize,
}

/// Invalid parameters or no source: nothing was copied.
const ROBOCOPY_FATAL: u32 = 16;

pub fn robocopy(p: &mut Process, args: &Arguments) -> u32 {
    let (mut names, mut job) = (Vec::new(), Job::default());
    if let Err(odd) = job.options(&args.list, &mut names) {
        p.complain(&format!(
            "ERROR : Invalid Parameter #{} : \"{odd}\"\n",
            names.len() + 1
        ));
        return ROBOCOPY_FATAL;
    }
    let [source, target, files @ ..] = &names[..] else {
        p.complain("ERROR : No Destination Directory Specified.\n");
        return ROBOCOPY_FATAL;
    };
    job.files = if files.is_empty() {
        vec!["*".into()]
    } else {
        files.to_vec()
    };
    let ready = p
        .locate(source)
        .and_then(Located::existing)
        .and_then(|found| {
            if found.is_dir() {
                Ok(found)
            } else {
                Err(Win32(267))
            }
        });
    let (source, target) = match (ready, p.locate(target)) {
        (Ok(source), Ok(target)) if !target.read_only => (source, target),
        (Err(error), _) | (_, Err(error)) => {
            p.complain(&format!(
                "ERROR {} (0x{:08X}) Accessing Source Directory {source}\n{}\n",
                error.0,
                error.0,
                error.text()
            ));
            return ROBOCOPY_FATAL;
        }
        (_, Ok(target)) => {
            p.complain(&format!(
                "ERROR 19 (0x00000013) Creating Destination Directory {}\n",
                target.name
            ));
            return ROBOCOPY_FATAL;
        }
    };
    job.directory(p, &source.name, &target.name);
    job.text.push_str(&format!(
        "   Files : {} copied, {} extra, {} failed\n",
        job.copied, job.extra, job.failed
    ));
    if let Some((path, append)) = job.log.take() {
        let Ok(file) = p.locate(&path).and_then(Located::writable) else {
            return ROBOCOPY_FATAL;
        };
        let mut old = if append {
            fs::read(&file.host).unwrap_or_default()
        } else {
            Vec::new()
        };
        old.extend(job.text.replace('\n', "\r\n").bytes());
        if fs::write(&file.host, old).is_err() {
            return ROBOCOPY_FATAL;
        }
    } else {
        p.print(&job.text);
    }
    u32::from(job.copied > 0) | u32::from(job.extra > 0) << 1 | u32::from(job.failed > 0) << 3
}

/// `RASH` in any order; none of them, or another letter, is refused.
fn attribute_bits(letters: &str) -> Option<u32> {
    let bit = |letter| match letter {
        'r' => Some(attribute::READ_ONLY),
        'a' => Some(attribute::ARCHIVE),
        's' => Some(attribute::SYSTEM),
        'h' => Some(attribute::HIDDEN),
        _ => None,
    };
    let bits = letters.chars().map(bit).sum::<Option<u32>>()?;
    (bits != 0).then_some(bits)
}

impl Job {
    fn options(&mut self, list: &[String], names: &mut Vec<String>) -> Result<(), String> {
        let mut taking: Option<char> = None;
        for arg in list {
            let Some(switch) = arg.strip_prefix('/').map(str::to_ascii_lowercase) else {
                match taking {
                    Some('f') => self.not_files.push(arg.clone()),
                    Some(_) => self.not_dirs.push(arg.clone()),
                    None => names.push(arg.clone()),
                }
                continue;
            };
            taking = None;
            let (name, value) = switch.split_once(':').unwrap_or((&switch, ""));
            match name {
                "s" => self.deep = true,
                "e" => (self.deep, self.empty) = (true, true),
                "mir" => (self.deep, self.empty, self.purge) = (true, true, true),
                "purge" => self.purge = true,
                "mov" => self.mover = true,
                "move" => (self.mover, self.move_dirs) = (true, true),
                "l" => self.list_only = true,
                "is" => self.same_too = true,
                "xo" => self.skip_older = true,
                "xn" => self.skip_newer = true,
                "xc" => self.skip_changed = true,
                "xf" => taking = Some('f'),
                "xd" => taking = Some('d'),
                "log" | "unilog" if arg.len() > 5 => {
                    self.log = Some((arg[name.len() + 2..].to_owned(), false))
                }
                "log+" if arg.len() > 6 => self.log = Some((arg[6..].to_owned(), true)),
                "copy" if !value.is_empty() && value.chars().all(|c| "datsoux".contains(c)) => {}
                "dcopy" if !value.is_empty() && value.chars().all(|c| "date".contains(c)) => {}
                "a-" => self.take_off = attribute_bits(value).ok_or_else(|| arg.clone())?,
                "a+" => self.put_on = attribute_bits(value).ok_or_else(|| arg.clone())?,
                "r" | "w" if value.parse::<u32>().is_ok() => {}
                "mt" if value.is_empty()
                    || value.parse::<u32>().is_ok_and(|n| (1..=128).contains(&n)) => {}
                "nfl" | "ndl" | "njh" | "njs" | "np" | "ns" | "nc" | "tee" | "v" | "z" | "b"
                | "zb" | "j" | "fft" | "xj" | "xjd" | "xjf" | "nooffload" | "bytes" | "copyall"
                | "sec" | "it" | "fp" | "eta" | "nodcopy" | "ts" => {}
                _ => return Err(arg.clone()),
            }
        }
        Ok(())
    }

    fn directory(&mut self, p: &Process, from: &str, to: &str) {
        let (Ok(source), Ok(target)) = (p.locate(from), p.locate(to)) else {
            self.failed += 1;
            return;
        };
        let entries = list(&source.host);
        if !self.list_only && target.meta.is_none() && fs::create_dir_all(&target.host).is_err() {
            self.failed += 1;
            return;
        }
        let wanted = |job: &Job, name: &str| {
            job.files.iter().any(|f| fits(f, name)) && !job.not_files.iter().any(|f| fits(f, name))
        };
        for (name, meta) in &entries {
            let (from, to) = (
                format!("{}\\{name}", from.trim_end_matches('\\')),
                format!("{}\\{name}", to.trim_end_matches('\\')),
            );
            if meta.is_dir() {
                let left_out = self
                    .not_dirs
                    .iter()
                    .any(|d| fits(d, name) || same(d, &from));
                let bare = !self.empty && list(&source.host.join(name)).is_empty();
                if self.deep && !left_out && !bare {
                    self.directory(p, &from, &to);
                }
            } else if wanted(self, name) {
                self.file(p, &from, &to);
            }
        }
        for (name, meta) in list(&target.host)
            .iter()
            .filter(|(name, _)| !entries.iter().any(|(other, _)| same(name, other)))
        {
            self.extra += 1;
            let path = target.host.join(name);
            if self.purge && !self.list_only {
                let gone = if meta.is_dir() {
                    fs::remove_dir_all(path)
                } else {
                    fs::remove_file(path)
                };
                self.failed += usize::from(gone.is_err());
            }
        }
        if self.move_dirs {
            let _ = fs::remove_dir(&source.host);
        }
    }

    fn file(&mut self, p: &Process, from: &str, to: &str) {
        let (Ok(source), Ok(target)) = (p.locate(from), p.locate(to)) else {
            self.failed += 1;
            return;
        };
        if let (Some(mine), Some(theirs)) = (&source.meta, &target.meta) {
            let time = |meta: &fs::Metadata| meta.modified().unwrap_or(SystemTime::UNIX_EPOCH);
            let (mine_at, theirs_at) = (time(mine), time(theirs));
            let apart = mine_at
                .duration_since(theirs_at)
                .or_else(|e| Ok::<_, ()>(e.duration()))
                .unwrap_or_default();
            let same_time = apart < Duration::from_millis(1);
            let skip = match () {
                () if same_time && mine.len() == theirs.len() => !self.same_too,
                () if same_time => self.skip_changed,
                () if mine_at < theirs_at => self.skip_older,
                () => self.skip_newer,
            };
            if skip {
                return;
            }
        }
        self.text.push_str(&format!("\t{from}\n"));
        self.copied += 1;
        if self.list_only {
            return;
        }
        // The attributes come along first, then the switches change them.
        let read_only = ReadOnly {
            keep: true,
            replace: true,
        };
        let moved = copy_file(&source, &target, read_only).and_then(|()| {
            if self.take_off | self.put_on != 0 {
                let bits = (attribute::get(&target.host) & !self.take_off) | self.put_on;
                attribute::set(&target.host, bits).map_err(|_| Win32(5))?;
            }
            if self.mover {
                fs::remove_file(&source.host).map_err(|e| Win32::from_io(&e))
            } else {
                Ok(())
            }
        });
        if let Err(error) = moved {
            self.copied -= 1;
            self.failed += 1;
            self.text.push_str(&format!(
                "ERROR {} (0x{:08X}) Copying File {from}\n{}\n",
                error.0,
                error.0,
                error.text()
            ));
        }
    }
}
