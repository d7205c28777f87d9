//! The definition of a scheduled task in XML (Microsoft: Task Scheduler Schema).

use std::path::PathBuf;
use std::time::Duration;

use serde::Deserialize;

use crate::GuestPath;
use winimg_base::argv;
use winimg_base::markup::escape_xml;
use winimg_base::text::Located;

/// State of a task after the step.
#[derive(Clone, Debug)]
pub enum TaskAction {
    Absent,
    /// A task definition in XML.
    Xml(Located<PathBuf>),
    Run {
        command: Located<GuestPath>,
        arguments: Vec<String>,
        trigger: TaskTrigger,
        user: TaskUser,
        highest: bool,
        delay: Option<Duration>,
        time_limit: Option<Duration>,
        description: Option<String>,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TaskTrigger {
    None,
    Startup,
    Logon,
    Daily { hour: u8, minute: u8 },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub enum TaskUser {
    #[serde(rename = "SYSTEM")]
    System,
    LocalService,
    NetworkService,
}

/// Default priority of a task, below that of services (Microsoft: taskSettings.priority).
pub const BACKGROUND: u32 = 7;

/// Priority of services.
pub const AS_SERVICES: u32 = 4;

/// Renders the definition, with elements in the order that the Task Scheduler uses.
pub fn render_definition(action: &TaskAction, priority: u32) -> String {
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
