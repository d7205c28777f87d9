//! reg.exe. Every failure is exit code 1, as with the real one. What would ask a question fails.

use super::Arguments;
use super::small::unknown;
use crate::windows::process::Process;
use crate::windows::regf::*;
use crate::windows::registry::{
    Fault, Registry, dword, dword_value, expand_sz, multi_sz, sz, text, texts,
};

mod file;

const NOT_FOUND: &str = "ERROR: The system was unable to find the specified registry key or value.";
const SYNTAX: &str = "ERROR: Invalid syntax.\nType \"REG /?\" for usage.";

pub fn run(p: &mut Process, args: &Arguments) -> u32 {
    let Some((verb, rest)) = args.list.split_first() else {
        return fail(p, SYNTAX);
    };
    let done = match verb.to_ascii_lowercase().as_str() {
        "add" => options(rest, "vtds", &["ve", "f"]).and_then(|o| add(p, &o)),
        "delete" => options(rest, "v", &["ve", "va", "f"]).and_then(|o| delete(p, &o)),
        "query" => options(rest, "vt", &["ve", "s", "z"]).and_then(|o| query(p, &o)),
        "copy" => options(rest, "", &["s", "f"]).and_then(|o| copy(p, &o)),
        "import" => options(rest, "", &[]).and_then(|o| file::import(p, &o)),
        "export" => options(rest, "", &["y"]).and_then(|o| file::export(p, &o)),
        "load" => options(rest, "", &[]).and_then(|o| load(p, &o)),
        "unload" => options(rest, "", &[]).and_then(|o| unload(p, &o)),
        other => return unknown(p, "reg", other, 1),
    };
    match done {
        Ok(()) => 0,
        Err(message) => fail(p, &message),
    }
}

fn fail(p: &Process, message: &str) -> u32 {
    p.complain(&format!("{message}\n"));
    1
}

type Done = Result<(), String>;

const FINISHED: &str = "The operation completed successfully.\n";

#[derive(Default)]
pub(super) struct Options {
    operands: Vec<String>,
    values: Vec<(char, String)>,
    flags: Vec<String>,
    /// `/reg:32`: the 32-bit view.
    narrow: bool,
}

impl Options {
    fn value(&self, letter: char) -> Option<&str> {
        self.values
            .iter()
            .find(|(name, _)| *name == letter)
            .map(|(_, value)| value.as_str())
    }

    fn flag(&self, name: &str) -> bool {
        self.flags.iter().any(|flag| flag == name)
    }

    fn only<const N: usize>(&self) -> Result<[&str; N], String> {
        let list: Vec<&str> = self.operands.iter().map(String::as_str).collect();
        list.try_into().map_err(|_| SYNTAX.to_owned())
    }

    /// The key path in the view that was asked for.
    fn key(&self, path: &str) -> String {
        let lower = path.to_ascii_lowercase();
        for root in [r"hklm\software", r"hkey_local_machine\software"] {
            let below = lower
                .strip_prefix(root)
                .filter(|rest| rest.is_empty() || rest.starts_with('\\'));
            if self.narrow && below.is_some_and(|rest| !rest.starts_with(r"\wow6432node")) {
                return format!(
                    "{}\\WOW6432Node{}",
                    &path[..root.len()],
                    &path[root.len()..]
                );
            }
        }
        path.to_owned()
    }
}

fn options(list: &[String], with_value: &str, flags: &[&str]) -> Result<Options, String> {
    let mut found = Options::default();
    let mut words = list.iter();
    while let Some(word) = words.next() {
        let Some(switch) = word
            .strip_prefix(['/', '-'])
            .filter(|_| !found.operands.is_empty())
        else {
            found.operands.push(word.clone());
            continue;
        };
        let switch = switch.to_ascii_lowercase();
        match switch.as_str() {
            "reg:32" => found.narrow = true,
            "reg:64" => {}
            flag if flags.contains(&flag) => found.flags.push(switch),
            letter if letter.len() == 1 && with_value.contains(letter) => {
                let letter = letter.chars().next().unwrap_or(' ');
                if found.value(letter).is_some() {
                    return Err(SYNTAX.into());
                }
                found
                    .values
                    .push((letter, words.next().ok_or(SYNTAX)?.clone()));
            }
            _ => {
                return Err(format!(
                    "ERROR: Invalid syntax. Unknown option: {word}\nType \"REG /?\" for usage."
                ));
            }
        }
    }
    Ok(found)
}

fn check(registry: &Registry, key: &str) -> Done {
    registry.check(key).map_err(|fault| match fault {
        Fault::Syntax => "ERROR: Invalid key name.\nType \"REG /?\" for usage.".into(),
        Fault::Missing => NOT_FOUND.into(),
    })
}

const KINDS: [(&str, u32); 7] = [
    ("REG_SZ", REG_SZ),
    ("REG_EXPAND_SZ", REG_EXPAND_SZ),
    ("REG_MULTI_SZ", REG_MULTI_SZ),
    ("REG_DWORD", REG_DWORD),
    ("REG_QWORD", REG_QWORD),
    ("REG_BINARY", REG_BINARY),
    ("REG_NONE", REG_NONE),
];

fn kind_name(kind: u32) -> String {
    KINDS
        .iter()
        .find(|(_, known)| *known == kind)
        .map_or_else(|| format!("REG_{kind}"), |(name, _)| (*name).into())
}

fn number(text: &str) -> Option<u64> {
    let lower = text.to_ascii_lowercase();
    lower.strip_prefix("0x").map_or_else(
        || lower.parse().ok(),
        |hex| u64::from_str_radix(hex, 16).ok(),
    )
}

fn data(kind: &str, text: Option<&str>, separator: &str) -> Result<(u32, Vec<u8>), String> {
    let known = KINDS
        .iter()
        .find(|(name, _)| name.eq_ignore_ascii_case(kind));
    let &(_, kind) =
        known.ok_or_else(|| format!("ERROR: Invalid syntax. Specify valid type: {kind}"))?;
    let given = text.unwrap_or("");
    let bad = || format!("ERROR: Invalid data for {}: {given}", kind_name(kind));
    Ok(match kind {
        REG_SZ => sz(given),
        REG_EXPAND_SZ => expand_sz(given),
        REG_MULTI_SZ => {
            let list: Vec<&str> = given.split(separator).collect();
            let trailing = usize::from(list.last() == Some(&""));
            let list = &list[..list.len() - trailing];
            if list.iter().any(|item| item.is_empty()) {
                return Err(bad());
            }
            multi_sz(list)
        }
        REG_DWORD => {
            let number = number(given)
                .or(text.is_none().then_some(0))
                .and_then(|number| u32::try_from(number).ok());
            dword_value(number.ok_or_else(bad)?)
        }
        REG_QWORD => (
            kind,
            number(given)
                .or(text.is_none().then_some(0))
                .ok_or_else(bad)?
                .to_le_bytes()
                .to_vec(),
        ),
        _ => {
            // An odd count of digits gets a zero before it.
            let digits = if given.len() % 2 == 1 {
                format!("0{given}")
            } else {
                given.to_owned()
            };
            let pair = |at: usize| {
                digits
                    .get(at..at + 2)
                    .and_then(|two| u8::from_str_radix(two, 16).ok())
            };
            (
                kind,
                (0..digits.len())
                    .step_by(2)
                    .map(pair)
                    .collect::<Option<_>>()
                    .ok_or_else(bad)?,
            )
        }
    })
}

fn add(p: &Process, options: &Options) -> Done {
    let [path] = options.only()?;
    let path = options.key(path);
    let name = options.value('v');
    if name.is_some() && options.flag("ve") {
        return Err(SYNTAX.into());
    }
    let value = (name.is_some()
        || options.flag("ve")
        || options.value('d').is_some()
        || options.value('t').is_some())
    .then(|| {
        data(
            options.value('t').unwrap_or("REG_SZ"),
            options.value('d'),
            options.value('s').unwrap_or("\\0"),
        )
    })
    .transpose()?;
    let name = name.unwrap_or("");
    let mut registry = p.machine.registry();
    check(&registry, &path)?;
    if value.is_some() && registry.get(&path, name).is_some() && !options.flag("f") {
        return Err(format!(
            "Value {name} exists, overwrite(Yes/No)? (nobody is there to answer: give /f)"
        ));
    }
    let key = registry.make(&path).map_err(|_| NOT_FOUND)?;
    if let Some((kind, data)) = value {
        key.set(name, kind, data);
    }
    drop(registry);
    p.print(FINISHED);
    Ok(())
}

fn delete(p: &Process, options: &Options) -> Done {
    let [path] = options.only()?;
    let path = options.key(path);
    let name = options.value('v').or(options.flag("ve").then_some(""));
    let mut registry = p.machine.registry();
    check(&registry, &path)?;
    let key = registry.key(&path).ok_or(NOT_FOUND)?;
    if name.is_some_and(|name| key.value(name).is_none()) {
        return Err(NOT_FOUND.into());
    }
    if !options.flag("f") {
        return Err("Permanently delete (Yes/No)? (nobody is there to answer: give /f)".into());
    }
    match (name, registry.key_mut(&path)) {
        (Some(name), Some(key)) => {
            key.unset(name);
        }
        (None, Some(key)) if options.flag("va") => key.values.clear(),
        _ => {
            if !registry.remove(&path) {
                return Err("ERROR: Access is denied.".into());
            }
        }
    }
    drop(registry);
    p.print(FINISHED);
    Ok(())
}

fn shown(value: &Value) -> String {
    match value.kind {
        REG_SZ | REG_EXPAND_SZ => text(&value.data),
        REG_MULTI_SZ => texts(&value.data).join("\\0"),
        REG_DWORD => dword(&value.data).map_or_else(String::new, |number| format!("0x{number:x}")),
        REG_QWORD => value.data.as_slice().try_into().map_or_else(
            |_| String::new(),
            |b| format!("0x{:x}", u64::from_le_bytes(b)),
        ),
        _ => value
            .data
            .iter()
            .map(|byte| format!("{byte:02X}"))
            .collect(),
    }
}

/// A key's path with its root spelled out.
pub(super) fn long(path: &str) -> String {
    let (root, rest) = path
        .split_once('\\')
        .map_or((path, None), |(root, rest)| (root, Some(rest)));
    let root = match root.to_ascii_uppercase().as_str() {
        "HKLM" => "HKEY_LOCAL_MACHINE".into(),
        "HKU" => "HKEY_USERS".into(),
        "HKCU" => "HKEY_CURRENT_USER".into(),
        "HKCR" => "HKEY_CLASSES_ROOT".into(),
        other => other.to_owned(),
    };
    rest.map_or(root.clone(), |rest| format!("{root}\\{rest}"))
}

fn query(p: &Process, options: &Options) -> Done {
    let [path] = options.only()?;
    let path = options.key(path.trim_end_matches('\\'));
    let name = options.value('v').or(options.flag("ve").then_some(""));
    let registry = p.machine.registry();
    check(&registry, &path)?;
    let key = registry.key(&path).ok_or(NOT_FOUND)?;
    let mut out = String::new();
    let found = list(key, &long(&path), name, options.flag("s"), &mut out);
    drop(registry);
    if name.is_some() && !found {
        return Err(NOT_FOUND.into());
    }
    p.print(&out);
    Ok(())
}

fn list(key: &Key, path: &str, name: Option<&str>, deep: bool, out: &mut String) -> bool {
    let wanted = |value: &&Value| name.is_none_or(|name| same(name, &value.name));
    let values: Vec<&Value> = key.values.iter().filter(wanted).collect();
    if !values.is_empty() || name.is_none() && deep {
        out.push_str(&format!("\n{path}\n"));
    }
    for value in &values {
        let name = if value.name.is_empty() {
            "(Default)"
        } else {
            &value.name
        };
        out.push_str(&format!(
            "    {name}    {}    {}\n",
            kind_name(value.kind),
            shown(value)
        ));
    }
    let mut found = !values.is_empty();
    if name.is_none() && !deep {
        out.push('\n');
    }
    for child in key.subkeys.values() {
        let path = format!("{path}\\{}", child.name);
        if deep {
            found |= list(child, &path, name, deep, out);
        } else if name.is_none() {
            out.push_str(&format!("{path}\n"));
        }
    }
    found
}

fn copy(p: &Process, options: &Options) -> Done {
    let [from, to] = options.only()?;
    let (from, to) = (options.key(from), options.key(to));
    let mut registry = p.machine.registry();
    check(&registry, &from)?;
    check(&registry, &to)?;
    let source = registry.key(&from).ok_or(NOT_FOUND)?.clone();
    if registry
        .key(&to)
        .is_some_and(|key| source.values.iter().any(|v| key.value(&v.name).is_some()))
        && !options.flag("f")
    {
        return Err(
            "Value exists, overwrite(Yes/No/All)? (nobody is there to answer: give /f)".into(),
        );
    }
    let target = registry.make(&to).map_err(|_| NOT_FOUND)?;
    merge(&source, target, options.flag("s"));
    drop(registry);
    p.print(FINISHED);
    Ok(())
}

fn merge(from: &Key, to: &mut Key, deep: bool) {
    from.values
        .iter()
        .for_each(|value| to.set(&value.name, value.kind, value.data.clone()));
    if deep {
        from.subkeys
            .values()
            .for_each(|child| merge(child, to.make(&[&child.name]), true));
    }
}

fn load(p: &Process, options: &Options) -> Done {
    let [at, path] = options.only()?;
    let found = p
        .locate(path)
        .and_then(|found| found.existing())
        .map_err(|error| format!("ERROR: {}", error.text()))?;
    let at = long(at)
        .replacen("HKEY_LOCAL_MACHINE", "HKLM", 1)
        .replacen("HKEY_USERS", "HKU", 1);
    p.machine
        .registry()
        .load(&at, &found.host)
        .map_err(|e| format!("ERROR: {e}"))?;
    p.print(FINISHED);
    Ok(())
}

fn unload(p: &Process, options: &Options) -> Done {
    let [at] = options.only()?;
    let at = long(at)
        .replacen("HKEY_LOCAL_MACHINE", "HKLM", 1)
        .replacen("HKEY_USERS", "HKU", 1);
    match p.machine.registry().unload(&at) {
        Ok(true) => {}
        Ok(false) => return Err("ERROR: The parameter is incorrect.".into()),
        Err(e) => return Err(format!("ERROR: {e}")),
    }
    p.print(FINISHED);
    Ok(())
}
