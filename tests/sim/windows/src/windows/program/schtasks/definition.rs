//! A task's XML, judged as the Task Scheduler judges it (Microsoft: Task Scheduler schema; MS-TSCH 2.5).
//!
//! The encoding that the text declares has to be the one it is in. Elements are known or refused; those of triggers
//! have an order, those of the task, its settings, principals and actions have not. Only actions that run a program and
//! the triggers of machines (boot, logon, time, calendar, idle, registration, event) are known here.

use roxmltree::Node;

use crate::windows::account;
use crate::windows::registry::Registry;

const SPACE: &str = "http://schemas.microsoft.com/windows/2004/02/mit/task";
const TASK: [&str; 6] = [
    "RegistrationInfo",
    "Triggers",
    "Principals",
    "Settings",
    "Actions",
    "Data",
];
const REGISTRATION: [&str; 8] = [
    "URI",
    "SecurityDescriptor",
    "Source",
    "Date",
    "Author",
    "Version",
    "Description",
    "Documentation",
];
const PRINCIPAL: [&str; 7] = [
    "UserId",
    "GroupId",
    "DisplayName",
    "LogonType",
    "RunLevel",
    "ProcessTokenSidType",
    "RequiredPrivileges",
];
const SETTINGS: [&str; 22] = [
    "AllowStartOnDemand",
    "RestartOnFailure",
    "MultipleInstancesPolicy",
    "DisallowStartIfOnBatteries",
    "StopIfGoingOnBatteries",
    "AllowHardTerminate",
    "StartWhenAvailable",
    "NetworkProfileName",
    "RunOnlyIfNetworkAvailable",
    "WakeToRun",
    "Enabled",
    "Hidden",
    "DeleteExpiredTaskAfter",
    "IdleSettings",
    "NetworkSettings",
    "ExecutionTimeLimit",
    "Priority",
    "RunOnlyIfIdle",
    "UseUnifiedSchedulingEngine",
    "DisallowStartOnRemoteAppSession",
    "MaintenanceSettings",
    "Volatile",
];
const SWITCHES: [&str; 12] = [
    "AllowStartOnDemand",
    "DisallowStartIfOnBatteries",
    "StopIfGoingOnBatteries",
    "AllowHardTerminate",
    "StartWhenAvailable",
    "RunOnlyIfNetworkAvailable",
    "WakeToRun",
    "Enabled",
    "Hidden",
    "RunOnlyIfIdle",
    "UseUnifiedSchedulingEngine",
    "DisallowStartOnRemoteAppSession",
];
/// What every trigger may begin with, in this order.
const TRIGGER: [&str; 5] = [
    "Enabled",
    "StartBoundary",
    "EndBoundary",
    "Repetition",
    "ExecutionTimeLimit",
];
/// Triggers, and what may follow the common elements, in this order.
const TRIGGERS: [(&str, &[&str]); 7] = [
    ("BootTrigger", &["Delay"]),
    ("RegistrationTrigger", &["Delay"]),
    ("IdleTrigger", &[]),
    ("TimeTrigger", &["RandomDelay"]),
    ("EventTrigger", &["Subscription", "Delay"]),
    ("LogonTrigger", &["UserId", "Delay"]),
    (
        "CalendarTrigger",
        &[
            "RandomDelay",
            "ScheduleByDay",
            "ScheduleByWeek",
            "ScheduleByMonth",
            "ScheduleByMonthDayOfWeek",
        ],
    ),
];

/// What the scheduler keeps of a task besides its text.
#[derive(Debug, PartialEq, Eq)]
pub struct Definition {
    /// The command line of the first action.
    pub command: String,
    /// The number of the task's kind in the task cache: 1 boot, 2 logon, 3 others.
    pub index: u32,
}

fn missing<T>(what: &str) -> Result<T, String> {
    Err(format!(
        "ERROR: The task XML is missing a required element or attribute.\n:{what}:"
    ))
}

fn unexpected<T>(node: Node) -> Result<T, String> {
    let at = node.document().text_pos_at(node.range().start);
    Err(format!(
        "ERROR: The task XML contains an unexpected node.\n({},{}):{}:",
        at.row,
        at.col,
        node.tag_name().name()
    ))
}

fn wrong<T>(node: Node) -> Result<T, String> {
    let at = node.document().text_pos_at(node.range().start);
    Err(format!(
        "ERROR: The task XML contains a value which is incorrectly formatted or out of range.\n({},{}):{}:{}",
        at.row,
        at.col,
        node.tag_name().name(),
        node.text().unwrap_or("")
    ))
}

/// The text of a task file: UTF-16 with a byte order mark, or UTF-8, and declared so.
pub fn decode(bytes: &[u8]) -> Result<String, String> {
    let malformed = |why: &str| format!("ERROR: The task XML is malformed.\n(1,40)::{why}");
    let (text, wide) = match bytes.strip_prefix(&[0xff, 0xfe]) {
        Some(wide) => {
            let units: Vec<u16> = wide
                .chunks_exact(2)
                .map(|b| u16::from_le_bytes([b[0], b[1]]))
                .collect();
            let text = String::from_utf16(&units).map_err(|e| malformed(&e.to_string()))?;
            (text, true)
        }
        None => {
            let text = std::str::from_utf8(bytes).map_err(|e| malformed(&e.to_string()))?;
            (text.trim_start_matches('\u{feff}').to_owned(), false)
        }
    };
    let declaration = text
        .strip_prefix("<?xml")
        .and_then(|rest| rest.split_once("?>"))
        .map_or("", |(declaration, _)| declaration);
    let says_wide = declaration.to_ascii_lowercase().contains("utf-16");
    if declaration.contains("encoding") && says_wide != wide {
        return Err(malformed("ERROR: unable to switch the encoding"));
    }
    Ok(text)
}

/// Judges a task; what the scheduler refuses is an error in its words.
pub fn judge(xml: &str, registry: &Registry) -> Result<Definition, String> {
    let document = roxmltree::Document::parse(xml)
        .map_err(|e| format!("ERROR: The task XML is malformed.\n{e}"))?;
    let root = document.root_element();
    if root.tag_name().name() != "Task" || root.tag_name().namespace() != Some(SPACE) {
        return unexpected(root);
    }
    if let Some(version) = root.attribute("version")
        && !["1.0", "1.1", "1.2", "1.3", "1.4", "1.5", "1.6"].contains(&version)
    {
        return wrong(root);
    }
    if let Some(odd) = root
        .descendants()
        .filter(Node::is_element)
        .find(|node| node.tag_name().namespace() != Some(SPACE))
    {
        return unexpected(odd);
    }
    each_once(root, &TASK)?;
    let child = |name| children(root).find(|node| node.tag_name().name() == name);
    if let Some(node) = child("RegistrationInfo") {
        each_once(node, &REGISTRATION)?;
    }
    let mut index = 3;
    if let Some(node) = child("Triggers") {
        for trigger in children(node) {
            judge_trigger(trigger)?;
            match trigger.tag_name().name() {
                "BootTrigger" => index = 1,
                "LogonTrigger" if index == 3 => index = 2,
                _ => {}
            }
        }
    }
    let mut ids = Vec::new();
    if let Some(node) = child("Principals") {
        for principal in children(node) {
            judge_principal(principal, registry)?;
            ids.extend(principal.attribute("id"));
        }
    }
    if let Some(node) = child("Settings") {
        judge_settings(node)?;
    }
    let Some(actions) = child("Actions") else {
        return missing("Actions");
    };
    if let Some(context) = actions.attribute("Context")
        && !ids.contains(&context)
    {
        return wrong(actions);
    }
    let command = first_command(actions)?;
    Ok(Definition { command, index })
}

fn children<'a, 'i>(node: Node<'a, 'i>) -> impl Iterator<Item = Node<'a, 'i>> {
    node.children().filter(Node::is_element)
}

/// Known elements in any order, none twice.
fn each_once(node: Node, known: &[&str]) -> Result<(), String> {
    let mut seen = Vec::new();
    for child in children(node) {
        let name = child.tag_name().name();
        if !known.contains(&name) || seen.contains(&name) {
            return unexpected(child);
        }
        seen.push(name);
    }
    Ok(())
}

fn judge_trigger(trigger: Node) -> Result<(), String> {
    let name = trigger.tag_name().name();
    let Some((_, own)) = TRIGGERS.iter().find(|(known, _)| *known == name) else {
        return unexpected(trigger);
    };
    let order: Vec<&str> = TRIGGER.iter().chain(*own).copied().collect();
    let mut reached = 0;
    for child in children(trigger) {
        let name = child.tag_name().name();
        match order.iter().position(|known| *known == name) {
            Some(at) if at >= reached => reached = at + 1,
            _ => return unexpected(child),
        }
        let text = child.text().unwrap_or("").trim();
        let right = match name {
            "Enabled" => is_boolean(text),
            "StartBoundary" | "EndBoundary" => is_time(text),
            "Delay" | "RandomDelay" | "ExecutionTimeLimit" => is_duration(text),
            _ => true,
        };
        if !right {
            return wrong(child);
        }
    }
    let has = |wanted: &str| children(trigger).any(|child| child.tag_name().name() == wanted);
    if matches!(name, "TimeTrigger" | "CalendarTrigger") && !has("StartBoundary") {
        return missing("StartBoundary");
    }
    if name == "CalendarTrigger" && !own[1..].iter().any(|schedule| has(schedule)) {
        return missing("ScheduleByDay");
    }
    Ok(())
}

fn judge_principal(principal: Node, registry: &Registry) -> Result<(), String> {
    if principal.tag_name().name() != "Principal" {
        return unexpected(principal);
    }
    each_once(principal, &PRINCIPAL)?;
    for child in children(principal) {
        let text = child.text().unwrap_or("").trim();
        match child.tag_name().name() {
            "UserId" | "GroupId" if account::sid(registry, text).is_none() => {
                return Err(format!(
                    "ERROR: No mapping between account names and security IDs was done.\n{text}"
                ));
            }
            "RunLevel" if !["LeastPrivilege", "HighestAvailable"].contains(&text) => {
                return wrong(child);
            }
            "LogonType"
                if ![
                    "S4U",
                    "Password",
                    "InteractiveToken",
                    "InteractiveTokenOrPassword",
                ]
                .contains(&text) =>
            {
                return wrong(child);
            }
            _ => {}
        }
    }
    Ok(())
}

fn judge_settings(settings: Node) -> Result<(), String> {
    each_once(settings, &SETTINGS)?;
    for child in children(settings) {
        let (name, text) = (child.tag_name().name(), child.text().unwrap_or("").trim());
        let right = match name {
            "Priority" => text.parse::<u8>().is_ok_and(|priority| priority <= 10),
            "ExecutionTimeLimit" | "DeleteExpiredTaskAfter" => is_duration(text),
            "MultipleInstancesPolicy" => {
                ["Parallel", "Queue", "IgnoreNew", "StopExisting"].contains(&text)
            }
            name if SWITCHES.contains(&name) => is_boolean(text),
            _ => true,
        };
        if !right {
            return wrong(child);
        }
    }
    Ok(())
}

fn first_command(actions: Node) -> Result<String, String> {
    let mut first = None;
    for action in children(actions) {
        if action.tag_name().name() != "Exec" {
            return unexpected(action);
        }
        each_once(action, &["Command", "Arguments", "WorkingDirectory"])?;
        let text = |name: &str| {
            children(action)
                .find(|node| node.tag_name().name() == name)
                .and_then(|node| node.text())
                .map(str::trim)
        };
        let Some(program) = text("Command").filter(|program| !program.is_empty()) else {
            return missing("Command");
        };
        let line = format!(
            "\"{}\" {}",
            program.trim_matches('"'),
            text("Arguments").unwrap_or("")
        );
        first.get_or_insert(line);
    }
    first.map_or_else(|| missing("Exec"), Ok)
}

fn is_boolean(text: &str) -> bool {
    ["true", "false", "1", "0"].contains(&text)
}

/// `2026-01-31T03:00:00`, with or without a fraction and a zone.
fn is_time(text: &str) -> bool {
    let shape = "dddd-dd-ddTdd:dd:dd";
    let fits = |(at, c): (usize, char)| match (shape.as_bytes()[at], c) {
        (b'd', c) => c.is_ascii_digit(),
        (other, c) => char::from(other) == c,
    };
    text.is_ascii()
        && text.len() >= shape.len()
        && text[..shape.len()].char_indices().all(fits)
        && text[shape.len()..]
            .chars()
            .all(|c| c.is_ascii_digit() || ".:+-Z".contains(c))
}

/// `P1DT2H30M5S`, each part at most once and in order, at least one of them.
fn is_duration(text: &str) -> bool {
    let Some(rest) = text.strip_prefix('P') else {
        return false;
    };
    let (date, time) = rest
        .split_once('T')
        .map_or((rest, None), |(date, time)| (date, Some(time)));
    let parts = |text: &str, units: &str| {
        let mut last = None;
        text.split_inclusive(|c: char| c.is_ascii_alphabetic())
            .all(|part| {
                let (number, unit) = part.split_at(part.len() - 1);
                let at = units.find(unit).filter(|_| unit.len() == 1);
                let right = at.is_some() && at > last && number.parse::<u32>().is_ok();
                last = at;
                right
            })
    };
    !(date.is_empty() && time.is_none())
        && time != Some("")
        && parts(date, "YMD")
        && time.is_none_or(|time| parts(time, "HMS"))
}
