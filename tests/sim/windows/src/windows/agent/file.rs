//! `guest-file-*`: handles on files of the stand-in's drives, by full Windows paths.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{Read, Seek, SeekFrom, Write};

use serde_json::{Value, json};

use super::{Agent, Fields, Refusal, decode, encode, refuse};
use crate::windows::error::{ACCESS_DENIED, Win32};
use crate::windows::volume::Place;

/// qemu-ga's limit of one read.
const READ_MAX: i64 = 48 << 20;
const READ_DEFAULT: i64 = 4096;
const FIRST_HANDLE: i64 = 1000;

#[derive(Default)]
pub struct Handles {
    count: i64,
    open: BTreeMap<i64, File>,
}

pub fn run(agent: &mut Agent, name: &str, mut fields: Fields) -> Result<Value, Refusal> {
    if name == "guest-file-open" {
        return open(agent, fields);
    }
    let handle = fields.number("handle")?;
    let handle = fields.required("handle", handle)?;
    match name {
        "guest-file-close" => {
            fields.end()?;
            return match agent.files.open.remove(&handle) {
                Some(_) => Ok(json!({})),
                None => absent(handle),
            };
        }
        "guest-file-flush" => {
            fields.end()?;
            let file = get(agent, handle)?;
            return file
                .sync_all()
                .map(|()| json!({}))
                .or_else(|e| failed("failed to flush file", &e));
        }
        _ => {}
    }
    match name {
        "guest-file-read" => read(agent, handle, fields),
        "guest-file-write" => write(agent, handle, fields),
        _ => seek(agent, handle, fields),
    }
}

fn absent<T>(handle: i64) -> Result<T, Refusal> {
    refuse(format!("handle '{handle}' has not been found"))
}

fn get(agent: &mut Agent, handle: i64) -> Result<&mut File, Refusal> {
    agent
        .files
        .open
        .get_mut(&handle)
        .map_or_else(|| absent(handle), Ok)
}

fn failed<T>(what: &str, e: &std::io::Error) -> Result<T, Refusal> {
    refuse(format!("{what}: {}", Win32::from_io(e).text()))
}

fn open(agent: &mut Agent, mut fields: Fields) -> Result<Value, Refusal> {
    let path = fields.text("path")?;
    let path = fields.required("path", path)?;
    let mode = fields.text("mode")?.unwrap_or_else(|| "r".into());
    fields.end()?;
    let mut options = OpenOptions::new();
    let plain = mode.replace('b', "");
    match plain.as_str() {
        _ if mode.matches('b').count() > 1 || mode.starts_with('b') => return bad_mode(&mode),
        "r" => options.read(true),
        "w" => options.write(true).create(true).truncate(true),
        "a" => options.append(true).create(true),
        "r+" => options.read(true).write(true),
        "w+" => options.read(true).write(true).create(true).truncate(true),
        "a+" => options.read(true).append(true).create(true),
        _ => return bad_mode(&mode),
    };
    let (writes, creates) = (plain != "r", plain.starts_with(['w', 'a']));
    let file = match locate(agent, &path, writes, creates) {
        Ok(None) => OpenOptions::new().read(true).write(true).open("/dev/null"),
        Ok(Some(host)) => options.open(host),
        Err(error) => return refuse(format!("failed to open file '{path}': {}", error.text())),
    };
    match file {
        Ok(file) => {
            let handle = FIRST_HANDLE + agent.files.count;
            agent.files.count += 1;
            agent.files.open.insert(handle, file);
            Ok(json!(handle))
        }
        Err(e) => failed(&format!("failed to open file '{path}'"), &e),
    }
}

fn bad_mode<T>(mode: &str) -> Result<T, Refusal> {
    refuse(format!("invalid file open mode '{mode}'"))
}

/// The host file; None for a device that swallows everything.
fn locate(
    agent: &Agent,
    path: &str,
    writes: bool,
    creates: bool,
) -> Result<Option<std::path::PathBuf>, Win32> {
    let process = agent.windows.process();
    let Place::File(found) = process.place(path)? else {
        return Ok(None);
    };
    match () {
        () if found.is_dir() => Err(ACCESS_DENIED),
        () if found.meta.is_none() && (found.orphan || !creates) => Err(found.missing()),
        () if writes && !found.orphan => found.writable().map(|found| Some(found.host)),

        () => Ok(Some(found.host)),
    }
}

fn read(agent: &mut Agent, handle: i64, mut fields: Fields) -> Result<Value, Refusal> {
    let count = fields.number("count")?.unwrap_or(READ_DEFAULT);
    fields.end()?;
    let file = get(agent, handle)?;
    if !(0..=READ_MAX).contains(&count) {
        return refuse(format!("value '{count}' is invalid for argument count"));
    }
    let mut bytes = Vec::new();
    if let Err(e) = file.take(count as u64).read_to_end(&mut bytes) {
        return failed("failed to read file", &e);
    }
    // On Windows a read that gives nothing is the end.
    Ok(json!({"count": bytes.len(), "buf-b64": encode(&bytes), "eof": bytes.is_empty()}))
}

fn write(agent: &mut Agent, handle: i64, mut fields: Fields) -> Result<Value, Refusal> {
    let text = fields.text("buf-b64")?;
    let text = fields.required("buf-b64", text)?;
    let count = fields.number("count")?;
    fields.end()?;
    let file = get(agent, handle)?;
    let bytes = decode(&text)?;
    let count = count.unwrap_or(bytes.len() as i64);
    let Some(part) = usize::try_from(count)
        .ok()
        .and_then(|count| bytes.get(..count))
    else {
        return refuse(format!("value '{count}' is invalid for argument count"));
    };
    file.write_all(part)
        .map(|()| json!({"count": part.len(), "eof": false}))
        .or_else(|e| failed("failed to write to file", &e))
}

fn seek(agent: &mut Agent, handle: i64, mut fields: Fields) -> Result<Value, Refusal> {
    let offset = fields.number("offset")?;
    let offset = fields.required("offset", offset)?;
    let whence = fields.any("whence");
    let whence = fields.required("whence", whence)?;
    fields.end()?;
    let file = get(agent, handle)?;
    let to = match (whence.as_i64(), whence.as_str()) {
        (Some(0), _) | (_, Some("set")) => SeekFrom::Start(offset as u64),
        (Some(1), _) | (_, Some("cur")) => SeekFrom::Current(offset),
        (Some(2), _) | (_, Some("end")) => SeekFrom::End(offset),
        (Some(code), _) => return refuse(format!("invalid whence code {code}")),
        (_, Some(text)) => {
            return refuse(format!("Parameter 'whence' does not accept value '{text}'"));
        }
        _ => return refuse("Invalid parameter type for 'whence', expected: string"),
    };
    file.seek(to)
        .map(|at| json!({"position": at, "eof": false}))
        .or_else(|e| failed("failed to seek file", &e))
}
