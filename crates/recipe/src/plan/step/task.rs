//! Compiles `task`: a scheduled task, created from XML by `schtasks.exe /create /xml` (Microsoft:
//! schtasks create; Task Scheduler Schema). The definition is complete, so creating it again
//! changes nothing.

use std::time::Duration;

use super::super::batch::BatchScript;
use super::super::step_compiler::{QUICK, StepCompiler, host_name, on_disc};
use super::super::{ExitRule, PayloadEntry, PlannedCheck};
use super::to_arguments;
use crate::recipe::Encoding;
use crate::recipe::verb::{TaskAction, TaskSpec, TaskTrigger, TaskUser};
use winimg_base::argv;
use winimg_base::markup::escape_xml;

pub(super) const SCHTASKS: &str = r"C:\Windows\System32\schtasks.exe";

pub(super) fn compile_task(site: &mut StepCompiler<'_>, task: &TaskSpec) -> Option<()> {
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

/// Default priority of a task, below that of services (Microsoft: taskSettings.priority).
const BACKGROUND: u32 = 7;
/// Priority of services.
pub(super) const AS_SERVICES: u32 = 4;

/// Renders the definition, with elements in the order that the Task Scheduler uses.
pub(super) fn render_definition(action: &TaskAction, priority: u32) -> String {
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
    let mut xml = XmlLines::default();
    xml.add_line(0, r#"<?xml version="1.0" encoding="UTF-16"?>"#);
    let space = "http://schemas.microsoft.com/windows/2004/02/mit/task";
    xml.add_line(0, &format!(r#"<Task version="1.2" xmlns="{space}">"#));
    xml.add_line(1, "<RegistrationInfo>");
    if let Some(description) = description {
        xml.add_element(2, "Description", description);
    }
    xml.add_line(1, "</RegistrationInfo>");
    xml.add_line(1, "<Triggers>");
    one_trigger(&mut xml, *trigger, *delay);
    xml.add_line(1, "</Triggers>");
    xml.add_line(1, "<Principals>");
    xml.add_line(2, r#"<Principal id="Author">"#);
    let sid = match user {
        TaskUser::System => "S-1-5-18",
        TaskUser::LocalService => "S-1-5-19",
        TaskUser::NetworkService => "S-1-5-20",
    };
    xml.add_element(3, "UserId", sid);
    let level = if *highest {
        "HighestAvailable"
    } else {
        "LeastPrivilege"
    };
    xml.add_element(3, "RunLevel", level);
    xml.add_line(2, "</Principal>");
    xml.add_line(1, "</Principals>");
    render_settings(&mut xml, *time_limit, priority);
    xml.add_line(1, r#"<Actions Context="Author">"#);
    xml.add_line(2, "<Exec>");
    xml.add_element(3, "Command", command.value.as_str());
    if !arguments.is_empty() {
        let quoted: Vec<String> = arguments.iter().map(|a| argv::quote_argument(a)).collect();
        xml.add_element(3, "Arguments", &quoted.join(" "));
    }
    xml.add_line(2, "</Exec>");
    xml.add_line(1, "</Actions>");
    xml.add_line(0, "</Task>");
    xml.0
}

fn one_trigger(xml: &mut XmlLines, trigger: TaskTrigger, delay: Option<Duration>) {
    let (name, start) = match trigger {
        TaskTrigger::None => return,
        TaskTrigger::Startup => ("BootTrigger", None),
        TaskTrigger::Logon => ("LogonTrigger", None),
        TaskTrigger::Daily { hour, minute } => ("CalendarTrigger", Some((hour, minute))),
    };
    xml.add_line(2, &format!("<{name}>"));
    xml.add_element(3, "Enabled", "true");
    if let Some((hour, minute)) = start {
        // A day in the past, in local time; it runs daily from then on.
        let boundary = format!("2020-01-01T{hour:02}:{minute:02}:00");
        xml.add_element(3, "StartBoundary", &boundary);
        xml.add_line(3, "<ScheduleByDay>");
        xml.add_element(4, "DaysInterval", "1");
        xml.add_line(3, "</ScheduleByDay>");
    }
    if let Some(delay) = delay {
        xml.add_element(3, "Delay", &iso_duration(delay));
    }
    xml.add_line(2, &format!("</{name}>"));
}

/// Renders the settings. A server has no battery, and the default is no time limit, unlike the Task
/// Scheduler's default of three days.
fn render_settings(xml: &mut XmlLines, time_limit: Option<Duration>, priority: u32) {
    xml.add_line(1, "<Settings>");
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
        xml.add_element(2, name, value);
    }
    xml.add_line(1, "</Settings>");
}

/// Renders a duration: `PT90S`. `PT0S` means no limit.
fn iso_duration(time: Duration) -> String {
    format!("PT{}S", time.as_secs())
}

/// Text with CRLF, as the Task Scheduler writes it.
#[derive(Default)]
struct XmlLines(String);

impl XmlLines {
    fn add_line(&mut self, depth: usize, text: &str) {
        self.0.push_str(&"  ".repeat(depth));
        self.0.push_str(text);
        self.0.push_str("\r\n");
    }

    fn add_element(&mut self, depth: usize, name: &str, value: &str) {
        self.add_line(depth, &format!("<{name}>{}</{name}>", escape_xml(value)));
    }
}
