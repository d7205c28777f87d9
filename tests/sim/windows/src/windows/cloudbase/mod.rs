//! A cloudbase-init that obeys its configuration: `cloudbase-init.exe --config-file FILE`, by hand, from Setup's specialize
//! pass and under its service.
//!
//! It follows the order of the real one (`init.py`, version 1.1.9): service password, plugins before metadata, the first
//! metadata service that loads, plugins with their state in the registry, restart. What it does not model ends it and
//! shows a screen of the stand-in's own, whatever the real one would do. A program that fails ends with 1, as Python does.

mod config;
mod http;
mod log;
mod metadata;
mod plugin;
mod script;
mod yaml;

use std::time::Duration;

use config::{Settings, Values};
use log::Log;
use metadata::{Context, Fault, Report, Service};
use plugin::{Plugin, Shared, Stage};

use super::process::Process;
use super::program::Arguments;
use super::registry::dword_value;
use super::{Power, account, service};

const KEY: &str = r"HKLM\SOFTWARE\Cloudbase Solutions\Cloudbase-Init";
const SERVICE: &str = "cloudbase-init";
const SETUP: &str = r"HKLM\SYSTEM\Setup";
const SYSPREP: &str = r"HKLM\SYSTEM\Setup\Status\SysprepStatus";
/// PLUGIN_EXECUTION_DONE and PLUGIN_EXECUTE_ON_NEXT_BOOT.
const DONE: u32 = 1;
const NEXT_BOOT: u32 = 2;

/// Options of the command line.
#[derive(Debug, Default, PartialEq, Eq)]
struct Command {
    files: Vec<String>,
    reset_service_password: Option<bool>,
    debug: Option<bool>,
}

fn command(list: &[String]) -> Result<Command, String> {
    let mut command = Command::default();
    let mut list = list.iter();
    while let Some(word) = list.next() {
        let (name, value) = word
            .split_once('=')
            .map_or((word.as_str(), None), |(name, value)| (name, Some(value)));
        match (name, value) {
            ("--config-file", Some(file)) => command.files.push(file.to_owned()),
            ("--config-file", None) => command.files.push(
                list.next()
                    .ok_or("argument --config-file: expected one argument")?
                    .clone(),
            ),
            ("--reset_service_password", None) => command.reset_service_password = Some(true),
            ("--noreset_service_password", None) => command.reset_service_password = Some(false),
            ("--debug" | "-d", None) => command.debug = Some(true),
            ("--nodebug", None) => command.debug = Some(false),
            _ => return Err(format!("unrecognized arguments: {word}")),
        }
    }
    Ok(command)
}

fn settings(p: &Process, command: &Command) -> Result<Settings, String> {
    let mut values = Values::new();
    for file in &command.files {
        let missing = || format!("Failed to find some config files: {file}");
        let found = p.locate(file).map_err(|_| missing())?;
        if !found.is_file() {
            return Err(missing());
        }
        let bytes = std::fs::read(&found.host).map_err(|e| format!("{file}: {e}"))?;
        let text = String::from_utf8_lossy(&bytes);
        config::read(&text, &mut values).map_err(|why| format!("Failed to parse {file}: {why}"))?;
    }
    let mut settings = Settings::from(&values)?;
    if let Some(reset) = command.reset_service_password {
        settings.reset_service_password = reset;
    }
    if let Some(debug) = command.debug {
        settings.debug = debug;
    }
    Ok(settings)
}

/// `cloudbase-init.exe`
pub fn run(p: &mut Process, args: &Arguments) -> u32 {
    let command = match command(&args.list) {
        Ok(command) => command,
        Err(why) => {
            p.complain(&format!(
                "usage: cloudbase-init [-h] [--config-file PATH] …\ncloudbase-init: error: {why}\n"
            ));
            return 2;
        }
    };
    let opened =
        settings(p, &command).and_then(|settings| Ok((Log::open(p, &settings)?, settings)));
    let (log, settings) = match opened {
        Ok(opened) => opened,
        Err(why) => {
            p.complain(&format!("Traceback (most recent call last):\n{why}\n"));
            return 1;
        }
    };
    let c = Context {
        p,
        settings: &settings,
        log: &log,
    };
    match configure_host(c) {
        Ok(()) => 0,
        Err(fault) => {
            let why = match fault {
                Fault::Missing => "NotExistingMetadataException".to_owned(),
                Fault::Failed(why) => why,
                Fault::NotModelled(why) => {
                    p.machine.halt(&format!("cloudbase-init: {why}"));
                    format!("the stand-in does not model {why}")
                }
            };
            log.error("shell", &why);
            p.complain(&format!("Traceback (most recent call last):\n{why}\n"));
            1
        }
    }
}

fn configure_host(c: Context<'_>) -> Result<(), Fault> {
    if c.settings.reset_service_password {
        reset_service_password(c)?;
    }
    c.log
        .info("init", "Cloudbase-Init version: 1.1.9 (winimg stand-in)");
    wait_for_boot_completion(c);
    let mut stage = run_stage(c, None, None, Stage::PreNetworking)?;
    let restarts = |stage: &Outcome| stage.restart && c.settings.allow_reboot;
    if !restarts(&stage) {
        stage = run_stage(c, None, None, Stage::PreMetadataDiscovery)?;
    }
    let mut found = None;
    if !restarts(&stage) {
        found = metadata::find(c)?;
        if found.is_none() {
            c.log.error("init", "No metadata service found");
        }
    }
    if let Some(service) = &found {
        stage = with_metadata(c, service.as_ref())?;
    }
    if restarts(&stage) {
        c.log.info("init", "Rebooting");
        c.p.machine.ask_power(Power::Reboot, Duration::ZERO);
        return Ok(());
    }
    c.log.info("init", "Plugins execution done");
    if let Some(service) = found.filter(|_| c.settings.report_completed && stage.good) {
        report(c, service.as_ref(), Report::Completed)?;
    }
    if c.settings.stop_service_on_exit {
        c.log.info("init", "Stopping Cloudbase-Init service");
        std::thread::sleep(Duration::from_secs(3));
        service::stop(&c.p.machine, SERVICE).map_err(|e| metadata::failed(e.text()))?;
    }
    Ok(())
}

fn with_metadata(c: Context<'_>, service: &dyn Service) -> Result<Outcome, Fault> {
    c.log.info(
        "init",
        &format!("Metadata service loaded: '{}'", service.name()),
    );
    if c.settings.report_started {
        c.log.info("init", "Reporting provisioning started");
        service.report(Report::Started)?;
    }
    let instance = service.instance_id()?;
    c.log.debug(
        "init",
        &format!("Instance id: {}", instance.as_deref().unwrap_or("None")),
    );
    let stage = run_stage(c, Some(service), instance.as_deref(), Stage::Main)?;
    if c.settings.report_completed && !stage.good {
        report(c, service, Report::Failed)?;
    }
    Ok(stage)
}

/// A report at the end: a failure is only logged.
fn report(c: Context<'_>, service: &dyn Service, what: Report) -> Result<(), Fault> {
    let word = if what == Report::Completed {
        "completed"
    } else {
        "failed"
    };
    c.log
        .info("init", &format!("Reporting provisioning {word}"));
    match service.report(what) {
        Err(Fault::NotModelled(why)) => Err(Fault::NotModelled(why)),
        Err(fault) => {
            c.log.error("init", &format!("{fault:?}"));
            Ok(())
        }
        Ok(()) => Ok(()),
    }
}

/// How a stage ended. `restart` is what its last plugin asked for.
#[derive(Clone, Copy)]
struct Outcome {
    good: bool,
    restart: bool,
}

fn run_stage(
    c: Context<'_>,
    service: Option<&dyn Service>,
    instance: Option<&str>,
    stage: Stage,
) -> Result<Outcome, Fault> {
    c.log.info(
        "init",
        &format!("Executing plugins for stage '{}':", stage.name()),
    );
    let mut shared = Shared::default();
    let mut outcome = Outcome {
        good: true,
        restart: false,
    };
    for class in &c.settings.plugins {
        let Some(plugin) = Plugin::named(class)? else {
            c.log.error(
                "plugins.factory",
                &format!("Could not import plugin module '{class}'"),
            );
            continue;
        };
        if plugin.stage() != stage {
            continue;
        }
        outcome.restart = false;
        let key = instance.map(plugins_key);
        let status = key
            .as_ref()
            .and_then(|key| c.p.machine.registry().dword(key, plugin.name()));
        if status == Some(DONE) {
            c.log.debug(
                "init",
                &format!(
                    "Plugin '{}' execution already done, skipping",
                    plugin.name()
                ),
            );
            continue;
        }
        c.log
            .info("init", &format!("Executing plugin '{}'", plugin.name()));
        match plugin.execute(c, service, &mut shared) {
            Ok(ended) => {
                outcome.restart = ended.restart;
                if let Some(key) = key {
                    let status = if ended.again { NEXT_BOOT } else { DONE };
                    let mut registry = c.p.machine.registry();
                    registry
                        .set(&key, plugin.name(), dword_value(status))
                        .map_err(metadata::failed)?;
                }
            }
            Err(Fault::NotModelled(why)) => return Err(Fault::NotModelled(why)),
            Err(fault) => {
                let why = match fault {
                    Fault::Failed(why) => why,
                    Fault::Missing | Fault::NotModelled(_) => {
                        "NotExistingMetadataException".to_owned()
                    }
                };
                c.log.error(
                    "init",
                    &format!("plugin '{}' failed with error '{why}'", plugin.name()),
                );
                outcome.good = false;
            }
        }
        if outcome.restart && c.settings.allow_reboot {
            break;
        }
    }
    Ok(outcome)
}

/// Where the states of an instance's plugins are kept; `/` in the id makes keys below keys.
fn plugins_key(instance: &str) -> String {
    if instance.is_empty() {
        format!(r"{KEY}\Plugins")
    } else {
        format!(r"{KEY}\{}\Plugins", instance.replace('/', r"\"))
    }
}

/// A local user of the service gets another password at every run. Built-in accounts are passed over.
///
/// While Setup works this restarts the computer in the middle of a pass, and the clone stops at "The computer restarted
/// unexpectedly": reported of clones whose first pass lacked `reset_service_password=false` (cofoundry); the MSI's own
/// file for that pass has the line. Elsewhere the real one starts itself again as that user, which changes nothing here.
fn reset_service_password(c: Context<'_>) -> Result<(), Fault> {
    let module = "osutils.windows";
    let mut registry = c.p.machine.registry();
    if service::config(&registry, SERVICE).is_none() {
        c.log
            .info(module, &format!("Service does not exist: {SERVICE}"));
        return Ok(());
    }
    let user = registry
        .text(&service::key(SERVICE), "ObjectName")
        .unwrap_or_else(|| "LocalSystem".to_owned());
    let skipped = |kind: &str| {
        let why = format!("Skipping password reset, service running as a {kind} account: {user}");
        c.log.info(module, &why);
    };
    let Some((domain, name)) = user.split_once('\\') else {
        skipped("built-in");
        return Ok(());
    };
    if domain != "." {
        skipped("domain");
        return Ok(());
    }
    c.log.debug(
        module,
        &format!("Resetting password for service user: {user}"),
    );
    let password = plugin::random_password(20)?;
    if !account::set_password(&mut registry, name, &password) {
        return Err(metadata::failed(format!("User not found: {name}")));
    }
    if registry.dword(SETUP, "SystemSetupInProgress") == Some(1) {
        c.p.machine.ask_power(Power::Reboot, Duration::ZERO);
        return Err(metadata::failed(
            "the service's password was reset while Setup is at work",
        ));
    }
    Ok(())
}

/// Waits until sysprep is through with this machine: `GeneralizationState` 7, or none.
fn wait_for_boot_completion(c: Context<'_>) {
    loop {
        let state = c.p.machine.registry().dword(SYSPREP, "GeneralizationState");
        match state {
            None | Some(7) => return,
            Some(state) => {
                std::thread::sleep(Duration::from_secs(1));
                c.log.info(
                    "osutils.windows",
                    &format!("Waiting for sysprep completion. GeneralizationState: {state}"),
                );
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options() {
        let list = |text: &str| -> Vec<String> { text.split(' ').map(str::to_owned).collect() };
        assert_eq!(
            command(&list(
                "--config-file a --config-file=b --noreset_service_password"
            )),
            Ok(Command {
                files: vec!["a".into(), "b".into()],
                reset_service_password: Some(false),
                debug: None,
            })
        );
        assert_eq!(
            command(&list("--help-me")),
            Err("unrecognized arguments: --help-me".into())
        );
        assert_eq!(
            command(&list("--config-file")),
            Err("argument --config-file: expected one argument".into())
        );
    }

    #[test]
    fn where_states_are_kept() {
        assert_eq!(plugins_key("iid-1"), format!(r"{KEY}\iid-1\Plugins"));
        assert_eq!(plugins_key(""), format!(r"{KEY}\Plugins"));
    }
}
