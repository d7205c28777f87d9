//! The verb `task`: a scheduled task, a program with a trigger or a definition in XML. It is
//! created by `schtasks.exe /create /xml` (Microsoft: schtasks create; Task Scheduler Schema). The
//! definition is complete, so creating it again changes nothing.

use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::document::value::TomlValue;
use crate::fields::{FileRequirement, LoweringContext, TableReader};
use crate::model::guest_name::{self, NameRefusal, refuse};
use crate::ops::batch::BatchScript;
use crate::ops::compiler::{QUICK, StepCompiler, host_name, on_disc};
use crate::ops::programs::{SCHTASKS, to_arguments};
use crate::ops::{Encoding, ExitRule, PayloadEntry, PlannedCheck};
use crate::verbs::absent::nothing_else;
use crate::verbs::items::RecipeItems;
use crate::verbs::task_definition::{BACKGROUND, TaskAction, TaskTrigger, render_definition};
use winimg_base::io;
use winimg_base::text::Located;

/// `task`: a scheduled task.
#[derive(Clone, Debug)]
pub struct TaskSpec {
    /// `\Folder\Name`
    pub name: Located<String>,
    pub action: TaskAction,
}

/// Keys that a definition replaces.
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

const LONGEST: Duration = Duration::from_secs(31 * 86_400);

pub fn read(
    cx: &LoweringContext<'_>,
    value: &TomlValue,
    items: RecipeItems<'_>,
) -> Option<TaskSpec> {
    let fields = TableReader::open(cx, value, "task")?;
    let name = fields
        .read_string("name")
        .and_then(|name| task_name(&fields, name));
    let present = fields.is("state", "present");
    let xml = fields
        .has("xml")
        .then(|| read_definition(&fields, items.local_files));
    let run = run(&fields, xml.is_none() && present);
    let action = match (present, xml) {
        (false, _) => {
            nothing_else(&fields, "a task");
            TaskAction::Absent
        }
        (true, Some(xml)) => {
            if let Some(entry) = fields.find_first(&RUN) {
                let fact = format!("`xml` and `{}` exclude each other", entry.key);
                cx.error(fact, &entry.key_place, "", "keep one of them");
            }
            TaskAction::Xml(xml?)
        }
        (true, None) => run?,
    };
    Some(TaskSpec {
        name: name?,
        action,
    })
}

/// Checks the name; its parts become folder and file names below `System32\Tasks`.
fn task_name(fields: &TableReader<'_>, name: Located<String>) -> Option<Located<String>> {
    let text = name.value.as_str();
    if let Err((fact, help)) = check_task_name(text) {
        fields.cx.error(fact, &name.place, "", &help);
        return None;
    }
    Some(name)
}

fn check_task_name(text: &str) -> Result<(), NameRefusal> {
    let Some(parts) = text.strip_prefix('\\') else {
        let help = format!("write '\\{text}'");
        return refuse("a task's name starts with a backslash", help);
    };
    if text.chars().count() > 200 {
        return refuse("the task's name has more than 200 characters", "");
    }
    for part in parts.split('\\') {
        if let Err((why, help)) = guest_name::file_name(part) {
            return refuse(format!("invalid task name: {why}"), help);
        }
    }
    if parts
        .to_ascii_lowercase()
        .starts_with("microsoft\\windows\\")
    {
        return refuse(
            "tasks below \\Microsoft\\Windows belong to Windows",
            "use `cmd` with schtasks.exe /change to disable one",
        );
    }
    Ok(())
}

fn run(fields: &TableReader<'_>, needed: bool) -> Option<TaskAction> {
    if needed {
        fields.require(
            "command",
            "set the program: `command = 'C:\\k\\clean.exe'`, or `xml`",
        );
    }
    if needed && fields.has("command") {
        fields.require(
            "trigger",
            "set the trigger: `trigger = \"startup\"`; `\"none\"` for on demand only",
        );
    }
    let command = fields.guest_path("command");
    let arguments = fields.read_texts("arguments");
    let trigger = read_trigger(fields);
    let user = fields.read_choice("user");
    let highest = fields.is("run_level", "highest");
    let delay = fields.read_duration("delay");
    let time_limit = fields.read_duration("time_limit");
    let description = fields.read_text("description");
    let trigger = trigger?;
    if let Some(delay) = &delay
        && !matches!(trigger, TaskTrigger::Startup | TaskTrigger::Logon)
    {
        let fact = "`delay` needs the trigger `startup` or `logon`";
        let help = "set the time itself: `trigger = \"daily 03:10\"`";
        fields.cx.error(fact, &delay.place, "", help);
    }
    for time in [&delay, &time_limit].into_iter().flatten() {
        if time.value > LONGEST {
            let fact = "the time is longer than 31 days";
            fields.cx.error(fact, &time.place, "", "use a shorter one");
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

/// Reads the trigger: `startup`, `logon`, `none`, `daily 03:00`.
fn read_trigger(fields: &TableReader<'_>) -> Option<TaskTrigger> {
    let Some(text) = fields.read_string("trigger") else {
        let wrong = fields.has("trigger");
        return (!wrong).then_some(TaskTrigger::None);
    };
    let found = match text.value.as_str() {
        "startup" => Some(TaskTrigger::Startup),
        "logon" => Some(TaskTrigger::Logon),
        "none" => Some(TaskTrigger::None),
        other => other.strip_prefix("daily ").and_then(parse_daily),
    };
    if found.is_none() {
        let fact = format!("`trigger` cannot be \"{}\"", text.value);
        let help = "it is one of: startup, logon, none, or a time such as \"daily 03:00\"";
        fields.cx.error(fact, &text.place, "", help);
    }
    found
}

/// Parses the time of day: `03:00`.
fn parse_daily(time: &str) -> Option<TaskTrigger> {
    let (hour, minute) = time.trim().split_once(':')?;
    let (hour, minute) = (parse_two_digits(hour)?, parse_two_digits(minute)?);
    (hour < 24 && minute < 60).then_some(TaskTrigger::Daily { hour, minute })
}

fn parse_two_digits(text: &str) -> Option<u8> {
    text.parse().ok().filter(|_| text.len() == 2)
}

/// Reads the path of a task definition and checks it roughly: XML with the root `Task` and its
/// actions (Microsoft: Task Scheduler Schema). The file of a skipped step is not read.
fn read_definition(
    fields: &TableReader<'_>,
    requirement: FileRequirement,
) -> Option<Located<PathBuf>> {
    let path = fields.read_local_path("xml", requirement)?;
    if requirement == FileRequirement::MayBeMissing {
        return Some(path);
    }
    match check_definition(&path.value) {
        Ok(()) => Some(path),
        Err(why) => {
            let file = path.value.file_name().unwrap_or_default();
            let fact = format!("{} is not a task: {why}", file.to_string_lossy());
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
            let units: Vec<u16> = wide
                .chunks_exact(2)
                .map(|pair| u16::from_le_bytes([pair[0], pair[1]]))
                .collect();
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
        return Err(format!("its root element is not `Task` of {space}"));
    }
    if root.children().any(|n| n.tag_name().name() == "Actions") {
        Ok(())
    } else {
        Err("it has no `Actions`".to_owned())
    }
}

pub fn compile(site: &mut StepCompiler<'_>, task: &TaskSpec) -> Option<()> {
    let name = task.name.value.as_str();
    let present = !matches!(task.action, TaskAction::Absent);
    let mut script = BatchScript::new();
    let from = match &task.action {
        TaskAction::Absent => {
            let name = site.quote(name, &task.name.place)?;
            script.add_line(format!(
                "{SCHTASKS} /query /tn {name} >nul 2>&1 || exit /b 0"
            ));
            script.add_line(format!("{SCHTASKS} /delete /tn {name} /f || exit /b 1"));
            None
        }
        TaskAction::Xml(path) => {
            let file = host_name(&path.value).map(str::to_owned);
            let file = site.report_error(
                file.ok_or_else(|| "the file's name is not Unicode".to_owned()),
                &path.place,
            )?;
            site.quote(&file, &path.place)?;
            let entry = site.add_entry(PayloadEntry::Local {
                path: path.value.clone(),
            });
            Some(on_disc(entry, &file.replace('%', "%%")))
        }
        TaskAction::Run { .. } => {
            let text = render_definition(&task.action, BACKGROUND);
            Some(site.text_entry("task.xml", text, Encoding::Utf16))
        }
    };
    let file = site.step_file("xml");
    if let Some(from) = from {
        script.make_folder(r#""C:\winimg\steps""#);
        script.copy(&from, &format!("\"{file}\""));
    }
    site.put(script);
    if present {
        let create = to_arguments(["/create", "/tn", name, "/xml", &file, "/f"]);
        site.run(SCHTASKS, create, ExitRule::Zero, QUICK);
    }
    site.expect(PlannedCheck::Task {
        name: name.to_owned(),
        present,
    });
    Some(())
}
