//! What each of winimg's guest scripts does, by its name. A script's parameters are typed: other numbers or kinds of arguments are refused.

use serde_json::{Map, Value, json};

use super::{Direct, job};
use crate::windows::agent::{decode, encode};
use crate::windows::error::Win32;
use crate::windows::volume::Located;

type Object = Map<String, Value>;

pub fn run(direct: &mut Direct, name: &str, arguments: &[Value]) -> Result<Object, String> {
    let mut taken = Taken {
        name,
        rest: arguments,
    };
    match name {
        "look" => taken.end().map(|()| Object::new()),
        "start" => {
            let job = job::Job {
                id: taken.text()?,
                program: taken.text()?,
                line: taken.text()?,
                script: taken.text()?,
            };
            taken.end()?;
            let boot = direct.boot.clone();
            direct.jobs.start(&direct.windows, &job, &boot)?;
            Ok(Object::new())
        }
        "poll" => {
            let (id, offset) = (taken.text()?, taken.number()?);
            taken.end()?;
            job::poll(&direct.windows, &id, offset)
        }
        "forget" => {
            let id = taken.text()?;
            taken.end()?;
            direct.jobs.forget(&direct.windows, &id)?;
            Ok(Object::new())
        }
        "put" => {
            let (path, bytes) = (taken.text()?, taken.text()?);
            taken.end()?;
            put(direct, &path, &bytes)
        }
        "get" => {
            let (path, limit) = (taken.text()?, taken.number()?);
            taken.end()?;
            get(direct, &path, limit)
        }
        "restart" => {
            taken.end()?;
            command(direct, r"C:\Windows\System32\shutdown.exe /r /t 0 /f")
        }
        "off" => {
            taken.end()?;
            job::remove_all(&direct.windows)?;
            command(direct, r"C:\Windows\System32\shutdown.exe /s /t 0")
        }
        _ => Err(format!("no script {name:?}")),
    }
}

/// Arguments, taken in order.
struct Taken<'a> {
    name: &'a str,
    rest: &'a [Value],
}

impl Taken<'_> {
    fn next(&mut self) -> Result<&Value, String> {
        let (first, rest) = self
            .rest
            .split_first()
            .ok_or_else(|| format!("{}: an argument is missing", self.name))?;
        self.rest = rest;
        Ok(first)
    }

    fn text(&mut self) -> Result<String, String> {
        let name = self.name;
        let text = self.next()?.as_str().map(str::to_owned);
        text.ok_or_else(|| format!("{name}: Cannot convert value to type System.String"))
    }

    fn number(&mut self) -> Result<u64, String> {
        let name = self.name;
        let number = self.next()?.as_u64();
        number.ok_or_else(|| format!("{name}: Cannot convert value to type System.Int64"))
    }

    fn end(&self) -> Result<(), String> {
        match self.rest {
            [] => Ok(()),
            _ => Err(format!("{}: too many arguments", self.name)),
        }
    }
}

fn command(direct: &Direct, line: &str) -> Result<Object, String> {
    let mut output = Vec::new();
    match direct.windows.run(line, &mut output) {
        0 => Ok(Object::new()),
        code => Err(format!(
            "{line} ended with {code}: {}",
            String::from_utf8_lossy(&output).trim()
        )),
    }
}

/// .NET words an absent folder and the like as Windows does, with the path.
fn worded(path: &str) -> impl Fn(Win32) -> String {
    move |error| format!("{path}: {}", error.text())
}

fn io(path: &str) -> impl Fn(std::io::Error) -> String {
    move |error| worded(path)(Win32::from_io(&error))
}

fn located(direct: &Direct, path: &str) -> Result<Located, Win32> {
    direct.windows.process().locate(path)
}

fn put(direct: &Direct, path: &str, bytes: &str) -> Result<Object, String> {
    let bytes = decode(bytes).map_err(|_| {
        "The input is not a valid Base-64 string as it contains a non-base 64 character".to_owned()
    })?;
    let part = format!("{path}.part");
    let beside = located(direct, &part)
        .and_then(Located::writable)
        .map_err(worded(&part))?;
    std::fs::write(&beside.host, bytes).map_err(io(&part))?;
    let target = located(direct, path)
        .and_then(Located::writable)
        .map_err(worded(path))?;
    std::fs::rename(&beside.host, &target.host).map_err(io(path))?;
    Ok(Object::new())
}

fn get(direct: &Direct, path: &str, limit: u64) -> Result<Object, String> {
    let found = located(direct, path).ok().filter(Located::is_file);
    let (mut size, mut bytes) = (0, Value::Null);
    if let Some(file) = &found {
        size = file.meta.as_ref().map_or(0, std::fs::Metadata::len);
        if size <= limit {
            bytes = json!(encode(&std::fs::read(&file.host).map_err(io(path))?));
        }
    }
    let mut object = Object::new();
    object.insert("there".into(), json!(found.is_some()));
    object.insert("size".into(), json!(size));
    object.insert("base64".into(), bytes);
    Ok(object)
}
