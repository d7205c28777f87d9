//! The verb `task`: a program at a time, or a definition of the team's own.

use std::path::Path;
use std::time::Duration;

use super::security::nothing_else;
use crate::recipe::Verb;
use crate::recipe::fields::{Context, Fields};
use crate::recipe::value::Value;
use crate::recipe::verb::{Task, TaskAction, Trigger};
use winimg_base::io;
use winimg_base::text::Located;

/// What a definition says itself.
const RUN: [&str; 8] = [
    "command",
    "arguments",
    "trigger",
    "user",
    "run_level",
    "delay",
    "time_limit",
    "description",
];

pub fn task(cx: &Context<'_>, value: &Value) -> Option<Verb> {
    let fields = Fields::open(cx, value, "task")?;
    let name = fields.string("name");
    let name = name.and_then(|n| task_name(&fields, n));
    let present = fields.is("state", "present");
    let xml = match fields.has("xml") {
        true => Some(definition(&fields)),
        false => None,
    };
    let run = run(&fields, xml.is_none() && present);
    let action = match (present, xml) {
        (false, _) => {
            nothing_else(&fields, "a task");
            TaskAction::Absent
        }
        (true, Some(xml)) => {
            if let Some(entry) = fields.first(&RUN) {
                let fact = format!("`xml` is the whole task, and `{}` is given too", entry.key);
                cx.error(fact, &entry.key_place, "", "keep one of them");
            }
            TaskAction::Xml(xml?)
        }
        (true, None) => run?,
    };
    Some(Verb::Task(Task {
        name: name?,
        action,
    }))
}

/// Each part of the name is a folder's or file's name below `System32\Tasks`.
fn task_name(fields: &Fields<'_>, name: Located<String>) -> Option<Located<String>> {
    let text = name.value.as_str();
    let refuse = |fact: &str, help: &str| {
        fields.cx.error(fact, &name.place, "", help);
        None
    };
    let Some(parts) = text.strip_prefix('\\') else {
        let help = format!("write '\\{text}'");
        return refuse("a task's name starts with a backslash", &help);
    };
    if text.chars().count() > 200 {
        return refuse("the task's name has more than 200 characters", "");
    }
    for part in parts.split('\\') {
        if let Err((why, help)) = crate::recipe::guest_name::file_name(part) {
            return refuse(&format!("no task can be called that: {why}"), &help);
        }
    }
    if parts
        .to_ascii_lowercase()
        .starts_with("microsoft\\windows\\")
    {
        return refuse(
            "tasks below \\Microsoft\\Windows belong to Windows",
            "use `cmd` with schtasks.exe /change to switch one off",
        );
    }
    Some(name)
}

fn run(fields: &Fields<'_>, needed: bool) -> Option<TaskAction> {
    if needed {
        fields.need(
            "command",
            "say what it runs: `command = 'C:\\k\\clean.exe'`, or give `xml`",
        );
    }
    if needed && fields.has("command") {
        fields.need(
            "trigger",
            "say when: `trigger = \"startup\"`; `\"none\"` for on demand only",
        );
    }
    let command = fields.guest_path("command");
    let arguments = fields.texts("arguments");
    let trigger = trigger(fields);
    let user = fields.choice("user");
    let highest = fields.is("run_level", "highest");
    let delay = fields.duration("delay");
    let time_limit = fields.duration("time_limit");
    let description = fields.text("description");
    let trigger = trigger?;
    if let Some(delay) = &delay
        && !matches!(trigger, Trigger::Startup | Trigger::Logon)
    {
        let fact = "`delay` goes with the triggers `startup` and `logon`";
        let help = "give the time itself: `trigger = \"daily 03:10\"`";
        fields.cx.error(fact, &delay.place, "", help);
    }
    for time in [&delay, &time_limit].into_iter().flatten() {
        if time.value > LONGEST {
            let fact = "the time is longer than 31 days";
            fields
                .cx
                .error(fact, &time.place, "", "write a shorter one");
        }
    }
    Some(TaskAction::Run {
        command: command?,
        arguments,
        trigger,
        user: user?.value,
        highest,
        delay: delay.map(|d| d.value),
        time_limit: time_limit.map(|t| t.value),
        description,
    })
}

const LONGEST: Duration = Duration::from_secs(31 * 86_400);

/// `startup`, `logon`, `none`, `daily 03:00`
fn trigger(fields: &Fields<'_>) -> Option<Trigger> {
    let Some(text) = fields.string("trigger") else {
        let wrong = fields.has("trigger");
        return (!wrong).then_some(Trigger::None);
    };
    let daily = |time: &str| {
        let (hour, minute) = time.trim().split_once(':')?;
        let two = |text: &str| text.parse::<u8>().ok().filter(|_| text.len() == 2);
        let (hour, minute) = (two(hour)?, two(minute)?);
        (hour < 24 && minute < 60).then_some(Trigger::Daily { hour, minute })
    };
    let found = match text.value.as_str() {
        "startup" => Some(Trigger::Startup),
        "logon" => Some(Trigger::Logon),
        "none" => Some(Trigger::None),
        other => other.strip_prefix("daily ").and_then(daily),
    };
    if found.is_none() {
        let fact = format!("`trigger` cannot be \"{}\"", text.value);
        let help = "it is one of: startup, logon, none, or a time such as \"daily 03:00\"";
        fields.cx.error(fact, &text.place, "", help);
    }
    found
}

/// A file beside the recipe that the Task Scheduler would take at first sight: XML with `Task` outermost and its
/// actions (Microsoft: Task Scheduler Schema). That of a skipped step is not read.
fn definition(fields: &Fields<'_>) -> Option<Located<std::path::PathBuf>> {
    let path = fields.local("xml")?;
    if fields.cx.is_skipped.get() {
        return Some(path);
    }
    match check_definition(&path.value) {
        Ok(()) => Some(path),
        Err(why) => {
            let file = path.value.file_name().unwrap_or_default();
            let fact = format!("{} is no task: {why}", file.to_string_lossy());
            let help = "export one with `schtasks /query /tn NAME /xml`";
            fields.cx.error(fact, &path.place, "", help);
            None
        }
    }
}

fn check_definition(path: &Path) -> Result<(), String> {
    let bytes = io::read_limited(path, io::limit::TEXT).map_err(|e| e.to_string())?;
    let text = match bytes.strip_prefix(&[0xff, 0xfe]) {
        Some(wide) => {
            let units = wide.chunks_exact(2);
            let units: Vec<u16> = units.map(|b| u16::from_le_bytes([b[0], b[1]])).collect();
            String::from_utf16(&units).map_err(|_| "it is not UTF-16".to_owned())?
        }
        None => {
            String::from_utf8(bytes).map_err(|_| "it is neither UTF-16 nor UTF-8".to_owned())?
        }
    };
    let document = roxmltree::Document::parse(text.trim_start_matches('\u{feff}'))
        .map_err(|e| e.to_string())?;
    let root = document.root_element();
    let space = "http://schemas.microsoft.com/windows/2004/02/mit/task";
    if root.tag_name().name() != "Task" || root.tag_name().namespace() != Some(space) {
        return Err(format!("its outermost element is not `Task` of {space}"));
    }
    match root.children().any(|n| n.tag_name().name() == "Actions") {
        true => Ok(()),
        false => Err("it has no `Actions`".to_owned()),
    }
}
