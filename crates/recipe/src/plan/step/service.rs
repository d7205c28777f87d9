//! Compiles `service` to `sc.exe`, which parses its arguments like the C runtime, with each option
//! name as a separate argument (Microsoft: sc.exe create, sc.exe config).
//!
//! `create` may exit with 1073 because the service already exists; `config` then sets the same
//! options, so a step can be repeated. Starting and stopping continue after `sc.exe` exits, so a
//! script waits for them.

use super::super::batch::{self, BatchScript};
use super::super::expect::service_key;
use super::super::step_compiler::{QUICK, StepCompiler};
use super::super::{ExitRule, PlannedCheck, check};
use super::{FIND, to_arguments};
use crate::recipe::{RegistryValueData, ServiceSpec, ServiceStartMode, ServiceState};
use winimg_base::argv;

pub(super) const SC: &str = r"C:\Windows\System32\sc.exe";
/// Waits a second. A local `ping` needs neither a network nor a console, unlike `timeout.exe`.
const PAUSE: &str = r"C:\Windows\System32\ping.exe -n 2 127.0.0.1 >nul";
/// Limit of the wait. It is not scaled for a slow accelerator, so it is generous.
const SECONDS: u32 = 120;

pub(super) fn compile_service(site: &mut StepCompiler<'_>, service: &ServiceSpec) -> Option<()> {
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
        (
            "start=",
            service.start.map(|start| start_name(start).to_owned()),
        ),
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

pub(in super::super) fn start_name(start: ServiceStartMode) -> &'static str {
    match start {
        ServiceStartMode::Auto => "auto",
        ServiceStartMode::DelayedAuto => "delayed-auto",
        ServiceStartMode::Demand => "demand",
        ServiceStartMode::Disabled => "disabled",
    }
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
