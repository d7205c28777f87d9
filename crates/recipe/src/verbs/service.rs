//! The verb `service`, compiled to `sc.exe`, which parses its arguments like the C runtime, with
//! each option name as a separate argument (Microsoft: sc.exe create, sc.exe config).
//!
//! `create` may exit with 1073 because the service already exists; `config` then sets the same
//! options, so a step can be repeated. Starting and stopping continue after `sc.exe` exits, so a
//! script waits for them.

use serde::Deserialize;

use crate::document::value::{TomlData, TomlValue};
use crate::fields::{LoweringContext, TableReader};
use crate::ops::batch::{self, BatchScript};
use crate::ops::check::{self, ServiceStartMode, service_key};
use crate::ops::compiler::{QUICK, StepCompiler};
use crate::ops::programs::{FIND, SC, to_arguments};
use crate::ops::{ExitRule, PlannedCheck};
use crate::verbs::absent::nothing_else;
use crate::{GuestPath, RegistryValueData};
use winimg_base::argv;
use winimg_base::text::Located;

#[derive(Clone, Debug)]
pub struct ServiceSpec {
    pub name: Located<String>,
    pub display_name: Option<String>,
    pub description: Option<String>,
    /// The unquoted program; `None` to change an existing service.
    pub program: Option<Located<GuestPath>>,
    pub arguments: Vec<String>,
    pub start: Option<ServiceStartMode>,
    pub depends: Vec<String>,
    pub account: Option<String>,
    /// Delays before each restart after a failure, in milliseconds.
    pub restart_delays: Vec<u32>,
    /// Time without a failure that resets the failure count, in seconds.
    pub failure_reset: u32,
    pub state: Option<ServiceState>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ServiceState {
    Running,
    Stopped,
    Absent,
}

/// Waits a second. A local `ping` needs neither a network nor a console, unlike `timeout.exe`.
const PAUSE: &str = r"C:\Windows\System32\ping.exe -n 2 127.0.0.1 >nul";

/// Limit of the wait. It is not scaled for a slow accelerator, so it is generous.
const SECONDS: u32 = 120;

pub fn read(cx: &LoweringContext<'_>, value: &TomlValue) -> Option<ServiceSpec> {
    let fields = TableReader::open(cx, value, "service")?;
    let name = service_name(&fields);
    let program = fields.guest_path("program");
    let start = fields.read_choice("start");
    let state = fields.read_choice("state");
    let display_name = fields.read_text("display_name");
    let description = fields.read_text("description");
    let arguments = fields.read_texts("arguments");
    let mut depends = fields.read_strings("depends");
    depends.retain(|name| is_service_name(&fields, name));
    let account = fields.read_text("account");
    let restart_delays = restart_delays(&fields);
    let failure_reset = fields.read_duration("failure_reset");
    let service = ServiceSpec {
        name: name?,
        display_name,
        description,
        program,
        arguments,
        start: start.map(|s| s.value),
        depends: depends.into_iter().map(|name| name.value).collect(),
        account,
        restart_delays,
        failure_reset: u32::try_from(failure_reset?.value.as_secs()).unwrap_or(u32::MAX),
        state: state.map(|s| s.value),
    };
    check_service(&fields, &service);
    fields.is_whole().then_some(service)
}

pub fn service_name(fields: &TableReader<'_>) -> Option<Located<String>> {
    let name = fields.read_string("name")?;
    is_service_name(fields, &name).then_some(name)
}

fn is_service_name(fields: &TableReader<'_>, name: &Located<String>) -> bool {
    let text = &name.value;
    let has_bad = text.contains(|c: char| "/\\\"".contains(c) || c.is_control());
    if !text.is_empty() && !has_bad && text.chars().count() <= 256 {
        return true;
    }
    let fact = format!("a service cannot be named \"{text}\"");
    let help = "use 1 to 256 characters, without slashes, backslashes, quotes and control \
                characters";
    fields.cx.error(fact, &name.place, "", help);
    false
}

/// Reads delays such as `["5s", "10s"]`, in milliseconds.
fn restart_delays(fields: &TableReader<'_>) -> Vec<u32> {
    let mut delays = Vec::new();
    for text in fields.read_strings("restart_delays") {
        let Some(time) = fields.duration_of("restart_delays", text) else {
            continue;
        };
        match u32::try_from(time.value.as_millis()) {
            Ok(delay) => delays.push(delay),
            Err(_) => fields.cx.error(
                "the delay is too long",
                &time.place,
                "",
                "the maximum is 49 days",
            ),
        }
    }
    delays
}

fn check_service(fields: &TableReader<'_>, service: &ServiceSpec) {
    let cx = fields.cx;
    let table = fields.table;
    let mut given = fields.table.entries.iter().filter(|e| e.key != "name");
    let sets_nothing =
        given.all(|e| matches!(&e.value.data, TomlData::Array(items) if items.is_empty()));
    if service.state == Some(ServiceState::Absent) {
        nothing_else(fields, "a service");
    } else if sets_nothing {
        let fact = format!("`service` does not change `{}`", service.name.value);
        cx.report_missing(fact, &fields.place, "add `program`, `start`, `state`, …");
    }
    if service.program.is_none()
        && !fields.has("program")
        && let Some(entry) = table.find_entry("arguments")
    {
        let help = "add the program: `program = 'C:\\k\\kubelet.exe'`";
        cx.report_missing("`arguments` without `program`", &entry.key_place, help);
    }
    if service.restart_delays.is_empty()
        && !fields.has("restart_delays")
        && let Some(entry) = table.find_entry("failure_reset")
    {
        let fact = "`failure_reset` without `restart_delays`";
        let help = "set what happens after a failure: `restart_delays = [\"5s\", \"10s\"]`";
        cx.report_missing(fact, &entry.key_place, help);
    }
    if service.state == Some(ServiceState::Running)
        && service.start == Some(ServiceStartMode::Disabled)
        && let Some(entry) = table.find_entry("state")
    {
        let fact = "a disabled service cannot be started";
        cx.error(fact, &entry.key_place, "", "");
    }
    if service.account.as_deref().is_some_and(needs_password)
        && let Some(entry) = table.find_entry("account")
    {
        let fact = "this account needs a password, which a recipe cannot contain";
        let help = "use an account without one: LocalSystem, `NT SERVICE\\name`, or a \
                    group-managed account, `DOMAIN\\name$`";
        cx.error(fact, &entry.key_place, "", help);
    }
}

/// Returns false for Windows' own accounts, virtual ones and group-managed ones (`DOMAIN\name$`).
fn needs_password(account: &str) -> bool {
    let lower = account.to_ascii_lowercase();
    let own = [
        "localsystem",
        r"nt authority\system",
        r"nt authority\localservice",
        r"nt authority\networkservice",
    ];
    !(own.contains(&lower.as_str()) || lower.starts_with(r"nt service\") || lower.ends_with('$'))
}

pub fn compile(site: &mut StepCompiler<'_>, service: &ServiceSpec) -> Option<()> {
    let name = service.name.value.as_str();
    if service.state == Some(ServiceState::Absent) {
        let script = build_delete_script(site, service)?;
        site.put(script);
        site.expect(PlannedCheck::Registry {
            key: service_key(name),
            value: None,
            data: RegistryValueData::Absent,
        });
        return Some(());
    }
    let options = render_options(service);
    if service.program.is_some() {
        let rule = ExitRule::Listed {
            ok: vec![0, 1073],
            reboot: vec![],
        };
        site.run(
            SC,
            [to_arguments(["create", name]), options.clone()].concat(),
            rule,
            QUICK,
        );
    }
    if !options.is_empty() {
        run_sc(site, [to_arguments(["config", name]), options].concat());
    }
    if let Some(text) = &service.description {
        run_sc(site, to_arguments(["description", name, text]));
    }
    if !service.restart_delays.is_empty() {
        run_sc(site, render_restarts(service));
    }
    match service.state {
        Some(ServiceState::Running) => {
            let script = build_state_script(site, service, "start", "RUNNING", 1056)?;
            site.put(script);
        }
        Some(ServiceState::Stopped) => {
            let script = build_state_script(site, service, "stop", "STOPPED", 1062)?;
            site.put(script);
        }
        Some(ServiceState::Absent) | None => {}
    }
    site.expect(PlannedCheck::Service(check::ServiceCheck {
        name: name.to_owned(),
        command_line: image_path(service),
        start: service.start,
        depends: service.depends.clone(),
        account: service.account.clone(),
        restart_delays: service.restart_delays.clone(),
        may_fail: false,
    }));
    Some(())
}

fn run_sc(site: &mut StepCompiler<'_>, arguments: Vec<String>) {
    site.run(SC, arguments, ExitRule::Zero, QUICK);
}

/// `failure NAME reset= 86400 actions= restart/10000/restart/60000`
fn render_restarts(service: &ServiceSpec) -> Vec<String> {
    let actions: Vec<String> = service
        .restart_delays
        .iter()
        .map(|ms| format!("restart/{ms}"))
        .collect();
    let (reset, actions) = (service.failure_reset.to_string(), actions.join("/"));
    let name = service.name.value.as_str();
    to_arguments(["failure", name, "reset=", &reset, "actions=", &actions])
}

fn render_options(service: &ServiceSpec) -> Vec<String> {
    let depends = (!service.depends.is_empty()).then(|| service.depends.join("/"));
    let options = [
        ("binPath=", image_path(service)),
        ("start=", service.start.map(|start| start.name().to_owned())),
        ("depend=", depends),
        ("obj=", service.account.clone()),
        ("DisplayName=", service.display_name.clone()),
    ];
    options
        .into_iter()
        .filter_map(|(name, value)| Some([name.to_owned(), value?]))
        .flatten()
        .collect()
}

/// Returns the command line as one string, with the program and each argument quoted for the C
/// runtime, which splits it when the service starts.
fn image_path(service: &ServiceSpec) -> Option<String> {
    let program = service.program.as_ref()?;
    Some(argv::render_command_line(
        program.value.as_str(),
        &service.arguments,
    ))
}

/// Requests a state and waits for it; `already` is the exit code if the service is already in it
/// (Microsoft: System Error Codes 1000-1299).
fn build_state_script(
    site: &mut StepCompiler<'_>,
    service: &ServiceSpec,
    verb: &str,
    state: &str,
    already: u32,
) -> Option<BatchScript> {
    let name = site.report_error(
        batch::quoted_twice(&service.name.value),
        &service.name.place,
    )?;
    Some(BatchScript::from_lines(format!(
        "{SC} {verb} {name}\n\
         if not %errorlevel%==0 if not %errorlevel%=={already} exit /b %errorlevel%\n\
         for /l %%i in (1,1,{SECONDS}) do (\n  \
         {SC} query {name} | {FIND} \"{state}\" >nul && exit /b 0\n  \
         {PAUSE}\n\
         )\n\
         echo {name} is not {state} after {SECONDS} seconds\n\
         {SC} query {name}\n\
         exit /b 1"
    )))
}

fn build_delete_script(site: &mut StepCompiler<'_>, service: &ServiceSpec) -> Option<BatchScript> {
    let name = site.quote(&service.name.value, &service.name.place)?;
    Some(BatchScript::from_lines(format!(
        "{SC} query {name} >nul 2>&1 || exit /b 0\n\
         {SC} stop {name} >nul 2>&1\n\
         {SC} delete {name} || exit /b %errorlevel%\n\
         for /l %%i in (1,1,{SECONDS}) do (\n  \
         {SC} query {name} >nul 2>&1 || exit /b 0\n  \
         {PAUSE}\n\
         )\n\
         echo {name} is marked for deletion but still there after {SECONDS} seconds\n\
         exit /b 1"
    )))
}
