//! `service`: through `sc.exe`, which parses its arguments like the C runtime, each option name an argument of its own
//! (Microsoft: sc.exe create, sc.exe config).
//!
//! `create` may end with 1073 because the service is there already; `config` then says the same, so a step can be
//! repeated. Starting and stopping only begin when `sc.exe` ends, so those are a script that waits.

use super::super::batch::{self, Script};
use super::super::expect::service_key;
use super::super::site::{QUICK, Site};
use super::super::{ExitRule, Planned, check};
use super::{FIND, args};
use crate::recipe::{RegistryData, Service, ServiceState, Start};
use winimg_base::argv;

pub(super) const SC: &str = r"C:\Windows\System32\sc.exe";
/// A local `ping` takes a second a time and needs neither a network nor a console, unlike `timeout.exe`.
const PAUSE: &str = r"C:\Windows\System32\ping.exe -n 2 127.0.0.1 >nul";
/// Not stretched for a slow accelerator, so generous.
const SECONDS: u32 = 120;

pub(super) fn service(site: &mut Site<'_>, service: &Service) -> Option<()> {
    let name = service.name.value.as_str();
    if service.state == Some(ServiceState::Absent) {
        let script = absent(site, service)?;
        site.put(script);
        site.expect(Planned::Registry {
            key: service_key(name),
            value: None,
            data: RegistryData::Absent,
        });
        return Some(());
    }
    let options = options(service);
    if service.program.is_some() {
        let rule = ExitRule::Listed {
            ok: vec![0, 1073],
            reboot: vec![],
        };
        site.run(
            SC,
            [args(["create", name]), options.clone()].concat(),
            rule,
            QUICK,
        );
    }
    if !options.is_empty() {
        sc(site, [args(["config", name]), options].concat());
    }
    if let Some(text) = &service.description {
        sc(site, args(["description", name, text]));
    }
    if !service.restart_delays.is_empty() {
        sc(site, restarts(service));
    }
    match service.state {
        Some(ServiceState::Running) => {
            let script = reach(site, service, "start", "RUNNING", 1056)?;
            site.put(script);
        }
        Some(ServiceState::Stopped) => {
            let script = reach(site, service, "stop", "STOPPED", 1062)?;
            site.put(script);
        }
        Some(ServiceState::Absent) | None => {}
    }
    site.expect(Planned::Service(check::Service {
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

fn sc(site: &mut Site<'_>, arguments: Vec<String>) {
    site.run(SC, arguments, ExitRule::Zero, QUICK);
}

/// `failure NAME reset= 86400 actions= restart/10000/restart/60000`
fn restarts(service: &Service) -> Vec<String> {
    let delays = service.restart_delays.iter();
    let actions: Vec<String> = delays.map(|ms| format!("restart/{ms}")).collect();
    let (reset, actions) = (service.failure_reset.to_string(), actions.join("/"));
    let name = service.name.value.as_str();
    args(["failure", name, "reset=", &reset, "actions=", &actions])
}

fn options(service: &Service) -> Vec<String> {
    let mut out = Vec::new();
    let mut option = |name: &str, value: String| out.extend([name.to_owned(), value]);
    if let Some(path) = image_path(service) {
        option("binPath=", path);
    }
    if let Some(start) = service.start {
        option("start=", start_name(start).to_owned());
    }
    if !service.depends.is_empty() {
        option("depend=", service.depends.join("/"));
    }
    if let Some(account) = &service.account {
        option("obj=", account.clone());
    }
    if let Some(name) = &service.display_name {
        option("DisplayName=", name.clone());
    }
    out
}

/// One string, cut up again when the service starts: the program and each argument quoted for the C runtime.
fn image_path(service: &Service) -> Option<String> {
    let program = service.program.as_ref()?;
    Some(argv::display(program.value.as_str(), &service.arguments))
}

pub(in super::super) fn start_name(start: Start) -> &'static str {
    match start {
        Start::Auto => "auto",
        Start::DelayedAuto => "delayed-auto",
        Start::Demand => "demand",
        Start::Disabled => "disabled",
    }
}

/// Asks for a state and waits for it; `already` is the code for being in it (Microsoft: System Error Codes 1000-1299).
fn reach(
    site: &mut Site<'_>,
    service: &Service,
    verb: &str,
    state: &str,
    already: u32,
) -> Option<Script> {
    let name = site.judged(
        batch::quoted_twice(&service.name.value),
        &service.name.place,
    )?;
    Some(Script::of(format!(
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

fn absent(site: &mut Site<'_>, service: &Service) -> Option<Script> {
    let name = site.quoted(&service.name.value, &service.name.place)?;
    Some(Script::of(format!(
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
