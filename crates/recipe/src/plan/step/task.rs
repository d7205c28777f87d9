//! `task`: a scheduled task, from a definition in XML through `schtasks.exe /create /xml` (Microsoft: schtasks create;
//! Task Scheduler Schema). The definition says all, so registering it again changes nothing.

use std::time::Duration;

use super::super::batch::Script;
use super::super::site::{QUICK, Site, host_name, on_disc};
use super::super::{Entry, ExitRule, Planned};
use super::args;
use crate::recipe::Encoding;
use crate::recipe::verb::{Task, TaskAction, TaskUser, Trigger};
use winimg_base::argv;
use winimg_base::markup::escape_xml;

pub(super) const SCHTASKS: &str = r"C:\Windows\System32\schtasks.exe";

pub(super) fn task(site: &mut Site<'_>, task: &Task) -> Option<()> {
    let name = task.name.value.as_str();
    let present = !matches!(task.action, TaskAction::Absent);
    let mut script = Script::new();
    let from = match &task.action {
        TaskAction::Absent => {
            let name = site.quoted(name, &task.name.place)?;
            script.line(format!(
                "{SCHTASKS} /query /tn {name} >nul 2>&1 || exit /b 0"
            ));
            script.line(format!("{SCHTASKS} /delete /tn {name} /f || exit /b 1"));
            None
        }
        TaskAction::Xml(path) => {
            let file = host_name(&path.value).map(str::to_owned);
            let file = site.judged(
                file.ok_or_else(|| "the file's name is not text".to_owned()),
                &path.place,
            )?;
            site.quoted(&file, &path.place)?;
            let entry = site.entry(Entry::Local {
                path: path.value.clone(),
            });
            Some(on_disc(entry, &file.replace('%', "%%")))
        }
        TaskAction::Run { .. } => {
            let text = definition(&task.action, BACKGROUND);
            Some(site.text_entry("task.xml", text, Encoding::Utf16))
        }
    };
    let file = site.file("xml");
    if let Some(from) = from {
        script.make_folder(r#""C:\winimg\steps""#);
        script.copy(&from, &format!("\"{file}\""));
    }
    site.put(script);
    if present {
        let create = args(["/create", "/tn", name, "/xml", &file, "/f"]);
        site.run(SCHTASKS, create, ExitRule::Zero, QUICK);
    }
    site.expect(Planned::Task {
        name: name.to_owned(),
        present,
    });
    Some(())
}

/// A task's own priority, below that of services (Microsoft: taskSettings.priority).
const BACKGROUND: u32 = 7;
/// That of services.
pub(super) const AS_SERVICES: u32 = 4;

/// Elements in the order in which the Task Scheduler writes them itself.
pub(super) fn definition(action: &TaskAction, priority: u32) -> String {
    let TaskAction::Run {
        command,
        arguments,
        trigger,
        user,
        highest,
        delay,
        time_limit,
        description,
    } = action
    else {
        return String::new();
    };
    let mut xml = Lines::default();
    xml.line(0, r#"<?xml version="1.0" encoding="UTF-16"?>"#);
    let space = "http://schemas.microsoft.com/windows/2004/02/mit/task";
    xml.line(0, &format!(r#"<Task version="1.2" xmlns="{space}">"#));
    xml.line(1, "<RegistrationInfo>");
    if let Some(description) = description {
        xml.element(2, "Description", description);
    }
    xml.line(1, "</RegistrationInfo>");
    xml.line(1, "<Triggers>");
    one_trigger(&mut xml, *trigger, *delay);
    xml.line(1, "</Triggers>");
    xml.line(1, "<Principals>");
    xml.line(2, r#"<Principal id="Author">"#);
    let sid = match user {
        TaskUser::System => "S-1-5-18",
        TaskUser::LocalService => "S-1-5-19",
        TaskUser::NetworkService => "S-1-5-20",
    };
    xml.element(3, "UserId", sid);
    let level = if *highest {
        "HighestAvailable"
    } else {
        "LeastPrivilege"
    };
    xml.element(3, "RunLevel", level);
    xml.line(2, "</Principal>");
    xml.line(1, "</Principals>");
    settings(&mut xml, *time_limit, priority);
    xml.line(1, r#"<Actions Context="Author">"#);
    xml.line(2, "<Exec>");
    xml.element(3, "Command", command.value.as_str());
    if !arguments.is_empty() {
        let quoted: Vec<String> = arguments.iter().map(|a| argv::quoted(a)).collect();
        xml.element(3, "Arguments", &quoted.join(" "));
    }
    xml.line(2, "</Exec>");
    xml.line(1, "</Actions>");
    xml.line(0, "</Task>");
    xml.0
}

fn one_trigger(xml: &mut Lines, trigger: Trigger, delay: Option<Duration>) {
    let (name, start) = match trigger {
        Trigger::None => return,
        Trigger::Startup => ("BootTrigger", None),
        Trigger::Logon => ("LogonTrigger", None),
        Trigger::Daily { hour, minute } => ("CalendarTrigger", Some((hour, minute))),
    };
    xml.line(2, &format!("<{name}>"));
    xml.element(3, "Enabled", "true");
    if let Some((hour, minute)) = start {
        // A day in the past, in local time: from then on, every day.
        let boundary = format!("2020-01-01T{hour:02}:{minute:02}:00");
        xml.element(3, "StartBoundary", &boundary);
        xml.line(3, "<ScheduleByDay>");
        xml.element(4, "DaysInterval", "1");
        xml.line(3, "</ScheduleByDay>");
    }
    if let Some(delay) = delay {
        xml.element(3, "Delay", &iso_duration(delay));
    }
    xml.line(2, &format!("</{name}>"));
}

/// A server runs on no battery, and what is not given a limit has none: the Task Scheduler's own is three days.
fn settings(xml: &mut Lines, time_limit: Option<Duration>, priority: u32) {
    xml.line(1, "<Settings>");
    let limit = iso_duration(time_limit.unwrap_or_default());
    let priority = priority.to_string();
    for (name, value) in [
        ("MultipleInstancesPolicy", "IgnoreNew"),
        ("DisallowStartIfOnBatteries", "false"),
        ("StopIfGoingOnBatteries", "false"),
        ("AllowHardTerminate", "true"),
        ("StartWhenAvailable", "false"),
        ("RunOnlyIfNetworkAvailable", "false"),
        ("AllowStartOnDemand", "true"),
        ("Enabled", "true"),
        ("Hidden", "false"),
        ("RunOnlyIfIdle", "false"),
        ("WakeToRun", "false"),
        ("ExecutionTimeLimit", &limit),
        ("Priority", &priority),
    ] {
        xml.element(2, name, value);
    }
    xml.line(1, "</Settings>");
}

/// `PT90S`; `PT0S` is no limit.
fn iso_duration(time: Duration) -> String {
    format!("PT{}S", time.as_secs())
}

/// CRLF, as the Task Scheduler writes it.
#[derive(Default)]
struct Lines(String);

impl Lines {
    fn line(&mut self, depth: usize, text: &str) {
        self.0.push_str(&"  ".repeat(depth));
        self.0.push_str(text);
        self.0.push_str("\r\n");
    }

    fn element(&mut self, depth: usize, name: &str, value: &str) {
        self.line(depth, &format!("<{name}>{}</{name}>", escape_xml(value)));
    }
}
