//! schtasks.exe: tasks as XML files below `System32\Tasks`, listed in the TaskCache. Every failure is exit code 1.
//! `/run` makes a task run, and so does the start of Windows where that is its trigger, at once; no other trigger fires.

mod definition;

use super::Arguments;
use super::small::unknown;
use crate::windows::process::{Process, null};
use crate::windows::regf::utf16;
use crate::windows::registry::{Registry, dword_value, sz, text};
use crate::windows::volume::Cwd;

const CACHE: &str = r"HKLM\SOFTWARE\Microsoft\Windows NT\CurrentVersion\Schedule\TaskCache";
const TREE: &str = r"HKLM\SOFTWARE\Microsoft\Windows NT\CurrentVersion\Schedule\TaskCache\Tree";
const NOT_FOUND: &str = "ERROR: The system cannot find the file specified.";

pub fn run(p: &mut Process, args: &Arguments) -> u32 {
    let mut options: Vec<(String, String)> = Vec::new();
    let mut words = args.list.iter().peekable();
    let Some(verb) = words.next().map(|word| word.to_ascii_lowercase()) else {
        return unknown(p, "schtasks", "no command", 1);
    };
    let known: &[&str] = match verb.as_str() {
        "/create" => &[
            "/tn", "/tr", "/sc", "/ru", "/rp", "/rl", "/xml", "/st", "/sd", "/mo", "/delay", "/f",
            "/np", "/it", "/z",
        ],
        "/delete" => &["/tn", "/f"],
        "/query" => &["/tn", "/fo", "/nh", "/v", "/xml"],
        "/run" | "/end" => &["/tn", "/i"],
        "/change" => &["/tn", "/enable", "/disable", "/ru"],
        _ => return unknown(p, "schtasks", &verb, 1),
    };
    while let Some(word) = words.next() {
        let name = word.to_ascii_lowercase();
        if !known.contains(&name.as_str()) || options.iter().any(|(other, _)| *other == name) {
            p.complain(&format!(
                "ERROR: Invalid argument/option - '{word}'.\nType \"SCHTASKS {} /?\" for usage.\n",
                verb.to_uppercase()
            ));
            return 1;
        }
        let flag = matches!(
            name.as_str(),
            "/f" | "/np" | "/it" | "/z" | "/nh" | "/v" | "/enable" | "/disable" | "/i"
        ) || (verb == "/query" && name == "/xml");
        let value = if flag {
            String::new()
        } else {
            words
                .next_if(|value| !value.starts_with('/') || value.len() > 3)
                .cloned()
                .unwrap_or_default()
        };
        options.push((name, value));
    }
    let get = |name: &str| {
        options
            .iter()
            .find(|(known, _)| known == name)
            .map(|(_, value)| value.as_str())
    };
    let done = match verb.as_str() {
        "/create" => create(p, &get),
        "/delete" => delete(p, &get),
        "/query" => query(p, &get),
        "/run" => start(p, &get),
        "/change" => change(p, &get),
        _ => Err("ERROR: the stand-in can't end a task".into()),
    };
    match done {
        Ok(text) => {
            p.print(&text);
            0
        }
        Err(text) => {
            p.complain(&format!("{text}\n"));
            1
        }
    }
}

/// Names of the tasks that the machine's start triggers.
pub fn at_startup(registry: &Registry) -> Vec<String> {
    let tasks = registry.key(&format!("{CACHE}\\Tasks"));
    let ids = tasks.into_iter().flat_map(|key| key.subkeys.values());
    let paths = ids.filter_map(|key| Some(text(&key.value("Path")?.data)));
    paths
        .filter(|path| {
            let key = format!("{TREE}{path}");
            registry.dword(&key, "Index") == Some(1)
                && registry.dword(&key, "winimg-enabled") != Some(0)
        })
        .collect()
}

type Get<'a> = dyn Fn(&str) -> Option<&'a str> + 'a;
type Done = Result<String, String>;

fn name(get: &Get) -> Result<String, String> {
    let name = get("/tn")
        .map(|name| name.trim_matches('\\'))
        .filter(|name| !name.is_empty());
    name.map(str::to_owned)
        .ok_or_else(|| "ERROR: Invalid syntax. /TN is missing.".into())
}

fn file(name: &str) -> String {
    format!(r"C:\Windows\System32\Tasks\{name}")
}

fn create(p: &Process, get: &Get) -> Done {
    let name = name(get)?;
    let target = p
        .locate(&file(&name))
        .map_err(|error| format!("ERROR: {}", error.text()))?;
    if target.meta.is_some() && get("/f").is_none() {
        return Err(format!(
            "WARNING: The task name \"{name}\" already exists. Do you want to replace it (Y/N)? (nobody is there to answer: give /f)"
        ));
    }
    let xml = match (get("/xml"), get("/tr")) {
        (Some(path), None) => read(p, path)?,
        (None, Some(command)) => written(get, command)?,
        _ => return Err("ERROR: Invalid syntax. Give /XML, or /TR with /SC.".into()),
    };
    let definition = definition::judge(&xml, &p.machine.registry())?;
    let dir = target.host.parent().ok_or("ERROR: no directory")?;
    // The scheduler keeps every task in UTF-16, whatever it came in.
    let body = match xml
        .strip_prefix("<?xml")
        .and_then(|rest| rest.split_once("?>"))
    {
        Some((_, body)) => body.trim_start(),
        None => &xml,
    };
    let mut bytes = vec![0xff, 0xfe];
    bytes.extend(utf16("<?xml version=\"1.0\" encoding=\"UTF-16\"?>\r\n"));
    bytes.extend(utf16(body));
    std::fs::create_dir_all(dir)
        .and_then(|()| std::fs::write(&target.host, bytes))
        .map_err(|e| format!("ERROR: {e}"))?;
    let key = format!("{TREE}\\{name}");
    let id = id(&name);
    let mut registry = p.machine.registry();
    registry.set(&key, "Index", dword_value(definition.index))?;
    registry.set(&key, "Id", sz(&id))?;
    registry.set(
        &format!("{CACHE}\\Tasks\\{id}"),
        "Path",
        sz(&format!("\\{name}")),
    )?;
    drop(registry);
    Ok(format!(
        "SUCCESS: The scheduled task \"{name}\" has successfully been created.\n"
    ))
}

fn read(p: &Process, path: &str) -> Result<String, String> {
    let found = p
        .locate(path)
        .and_then(|found| found.existing())
        .map_err(|error| format!("ERROR: {}", error.text()))?;
    let bytes = std::fs::read(found.host).map_err(|e| format!("ERROR: {e}"))?;
    definition::decode(&bytes)
}

/// A task's GUID: always the same for a name, where Windows draws one.
fn id(name: &str) -> String {
    let digest = sha1_smol::Sha1::from(name.to_lowercase())
        .digest()
        .to_string()
        .to_uppercase();
    format!(
        "{{{}-{}-4{}-8{}-{}}}",
        &digest[..8],
        &digest[8..12],
        &digest[13..16],
        &digest[17..20],
        &digest[20..32]
    )
}

fn written(get: &Get, command: &str) -> Result<String, String> {
    let trigger = match get("/sc").map(str::to_ascii_lowercase).as_deref() {
        Some("onstart") => "<BootTrigger><Enabled>true</Enabled></BootTrigger>",
        Some("onlogon") => "<LogonTrigger><Enabled>true</Enabled></LogonTrigger>",
        Some("once") if get("/st").is_some_and(time) => {
            "<TimeTrigger><Enabled>true</Enabled><StartBoundary>2026-01-01T00:00:00</StartBoundary></TimeTrigger>"
        }
        Some("daily") if get("/st").is_none_or(time) => {
            "<CalendarTrigger><Enabled>true</Enabled><StartBoundary>2026-01-01T00:00:00</StartBoundary><ScheduleByDay><DaysInterval>1</DaysInterval></ScheduleByDay></CalendarTrigger>"
        }
        Some(other) => {
            return Err(format!(
                "ERROR: Invalid Schedule Type specified, or /ST is missing: {other}"
            ));
        }
        None => return Err("ERROR: Invalid syntax. Mandatory option 'sc' is missing.".into()),
    };
    let user = match get("/ru").map(str::to_ascii_lowercase).as_deref() {
        None | Some("system" | r"nt authority\system") => "S-1-5-18",
        Some("localservice" | r"nt authority\localservice") => "S-1-5-19",
        Some("networkservice" | r"nt authority\networkservice") => "S-1-5-20",
        Some(other) => {
            return Err(format!(
                "ERROR: No mapping between account names and security IDs was done.\n{other}"
            ));
        }
    };
    let level = match get("/rl").map(str::to_ascii_lowercase).as_deref() {
        None | Some("limited") => "LeastPrivilege",
        Some("highest") => "HighestAvailable",
        Some(other) => return Err(format!("ERROR: Invalid syntax. /RL {other}")),
    };
    let escape = |text: &str| {
        text.replace('&', "&amp;")
            .replace('<', "&lt;")
            .replace('>', "&gt;")
    };
    let (program, rest) = crate::windows::cmdline::program(command);
    Ok(format!(
        "<?xml version=\"1.0\" encoding=\"UTF-16\"?>\r\n<Task version=\"1.2\" xmlns=\"http://schemas.microsoft.com/windows/2004/02/mit/task\"><Triggers>{trigger}</Triggers><Principals><Principal id=\"Author\"><UserId>{user}</UserId><RunLevel>{level}</RunLevel></Principal></Principals><Actions Context=\"Author\"><Exec><Command>{}</Command><Arguments>{}</Arguments></Exec></Actions></Task>",
        escape(&program),
        escape(rest.trim_start())
    ))
}

fn time(text: &str) -> bool {
    text.split_once(':').is_some_and(|(h, m)| {
        h.parse::<u8>().is_ok_and(|h| h < 24)
            && m.get(..2)
                .and_then(|m| m.parse::<u8>().ok())
                .is_some_and(|m| m < 60)
    })
}

fn delete(p: &Process, get: &Get) -> Done {
    let name = name(get)?;
    let target = p
        .locate(&file(&name))
        .map_err(|error| format!("ERROR: {}", error.text()))?;
    if !target.is_file() {
        return Err(NOT_FOUND.into());
    }
    if get("/f").is_none() {
        return Err(format!(
            "WARNING: Are you sure you want to remove the task \"{name}\" (Y/N)? (nobody is there to answer: give /f)"
        ));
    }
    std::fs::remove_file(target.host).map_err(|e| format!("ERROR: {e}"))?;
    let mut registry = p.machine.registry();
    registry.remove(&format!("{TREE}\\{name}"));
    registry.remove(&format!("{CACHE}\\Tasks\\{}", id(&name)));
    Ok(format!(
        "SUCCESS: The scheduled task \"{name}\" was successfully deleted.\n"
    ))
}

fn query(p: &Process, get: &Get) -> Done {
    let registry = p.machine.registry();
    match get("/tn") {
        Some(_) => {
            let name = name(get)?;
            let known = registry.key(&format!("{TREE}\\{name}")).is_some();
            if known {
                Ok(format!("\nFolder: \\\nTaskName: \\{name}\nStatus: Ready\n"))
            } else {
                Err(NOT_FOUND.into())
            }
        }
        None => {
            let names = registry.key(TREE).map(|key| {
                key.subkeys
                    .values()
                    .map(|key| format!("\\{}\n", key.name))
                    .collect::<String>()
            });
            Ok(names.unwrap_or_default())
        }
    }
}

/// The action runs beside the caller, as LocalSystem.
fn start(p: &Process, get: &Get) -> Done {
    let name = name(get)?;
    let target = p
        .locate(&file(&name))
        .map_err(|error| format!("ERROR: {}", error.text()))?;
    if !target.is_file() {
        return Err(NOT_FOUND.into());
    }
    let definition = definition::judge(&read(p, &file(&name))?, &p.machine.registry())?;
    let line = p.env.expand(&definition.command);
    let mut child = p.clone();
    (child.out, child.err, child.env) = (null(), null(), p.machine.env.clone());
    (child.cwd, child.code_page) = (Cwd(r"C:\Windows\System32".into()), 437);
    std::thread::spawn(move || child.create(&line));
    Ok(format!(
        "SUCCESS: Attempted to run the scheduled task \"{name}\".\n"
    ))
}

fn change(p: &Process, get: &Get) -> Done {
    let name = name(get)?;
    let enabled = match (get("/enable"), get("/disable")) {
        (Some(_), None) => 1,
        (None, Some(_)) => 0,
        _ => return Err("ERROR: Invalid syntax: only /ENABLE and /DISABLE are known here.".into()),
    };
    let key = format!("{TREE}\\{name}");
    if p.machine.registry().key(&key).is_none() {
        return Err(NOT_FOUND.into());
    }
    p.machine
        .registry()
        .set(&key, "winimg-enabled", dword_value(enabled))?;
    Ok(format!(
        "SUCCESS: The parameters of scheduled task \"{name}\" have been changed.\n"
    ))
}
