//! The sub-commands of sc.exe that only look.

use super::{pairs, report, usage};
use crate::windows::error::Win32;
use crate::windows::process::Process;
use crate::windows::registry::{Registry, dword};
use crate::windows::service::{self, ServiceConfig, key};

fn type_line(kind: u32) -> String {
    let name = match kind {
        1 => "KERNEL_DRIVER",
        2 => "FILE_SYSTEM_DRIVER",
        0x20 => "WIN32_SHARE_PROCESS",
        0x10 => "WIN32_OWN_PROCESS",
        _ => "",
    };
    format!("        TYPE               : {kind:x}  {name}\n")
}

pub(super) fn status(
    registry: &Registry,
    p: &Process,
    name: &str,
    with_pid: bool,
) -> Option<String> {
    let config = service::config(registry, name)?;
    let pid = service::pid(&p.machine, name);
    let state = if pid.is_some() {
        "4  RUNNING"
    } else {
        "1  STOPPED"
    };
    // 1077: never started since boot.
    let code = if pid.is_some() {
        "0  (0x0)"
    } else {
        "1077  (0x435)"
    };
    let mut text = format!(
        "\nSERVICE_NAME: {}\n{}",
        config.name,
        type_line(config.kind)
    );
    text += &format!("        STATE              : {state}\n");
    text +=
        &format!("        WIN32_EXIT_CODE    : {code}\n        SERVICE_EXIT_CODE  : 0  (0x0)\n");
    text += "        CHECKPOINT         : 0x0\n        WAIT_HINT          : 0x0\n";
    if with_pid {
        text += &format!(
            "        PID                : {}\n        FLAGS              : \n",
            pid.unwrap_or(0)
        );
    }
    Some(text)
}

pub(super) fn query(p: &Process, rest: &[&str]) -> u32 {
    let with_pid = false;
    if let [name] = rest
        && !name.ends_with('=')
    {
        let text = status(&p.machine.registry(), p, name, with_pid);
        return report(
            p,
            "EnumQueryServicesStatus:OpenService",
            text.ok_or(Win32(1060)),
        );
    }
    let pairs = match pairs(rest, &["type", "state", "bufsize", "ri", "group"]) {
        Ok(pairs) => pairs,
        Err(_) => return usage(p, &rest.join(" ")),
    };
    let get = |name: &str, other: &'static str| {
        pairs
            .iter()
            .find(|(n, _)| n == name)
            .map_or(other, |(_, v)| v)
            .to_owned()
    };
    let (state, kind) = (get("state", "active"), get("type", "service"));
    let registry = p.machine.registry();
    let mut text = String::new();
    for name in service::names(&registry) {
        let running = service::pid(&p.machine, &name).is_some();
        let driver = service::config(&registry, &name).is_some_and(|config| config.kind & 0xf != 0);
        let right_kind = kind == "all" || (kind == "driver") == driver;
        if right_kind && (state == "all" || (state == "inactive") != running) {
            text += &status(&registry, p, &name, with_pid).unwrap_or_default();
        }
    }
    drop(registry);
    p.print(&text);
    0
}

pub(super) fn show(
    p: &Process,
    name: &str,
    what: &str,
    text: fn(&Registry, &ServiceConfig) -> String,
) -> u32 {
    let registry = p.machine.registry();
    let found = service::config(&registry, name).ok_or(Win32(1060));
    let found = found.map(|config| {
        format!(
            "[SC] {what} SUCCESS\n\nSERVICE_NAME: {}\n{}",
            config.name,
            text(&registry, &config)
        )
    });
    drop(registry);
    report(p, what, found)
}

pub(super) fn configuration(registry: &Registry, config: &ServiceConfig) -> String {
    let at = key(&config.name);
    let start = [
        "BOOT_START",
        "SYSTEM_START",
        "AUTO_START",
        "DEMAND_START",
        "DISABLED",
    ];
    let delayed = if registry.dword(&at, "DelayedAutostart") == Some(1) {
        " (DELAYED)"
    } else {
        ""
    };
    let error = registry.dword(&at, "ErrorControl").unwrap_or(1);
    let errors = ["IGNORE", "NORMAL", "SEVERE", "CRITICAL"];
    let text = |name: &str| registry.text(&at, name).unwrap_or_default();
    let display = registry
        .text(&at, "DisplayName")
        .unwrap_or_else(|| config.name.clone());
    let mut out = type_line(config.kind);
    out += &format!(
        "        START_TYPE         : {}   {}{delayed}\n",
        config.start,
        start.get(config.start as usize).unwrap_or(&"")
    );
    out += &format!(
        "        ERROR_CONTROL      : {error}   {}\n",
        errors.get(error as usize).unwrap_or(&"")
    );
    out += &format!("        BINARY_PATH_NAME   : {}\n", config.image_path);
    out += &format!(
        "        LOAD_ORDER_GROUP   : {}\n        TAG                : 0\n        DISPLAY_NAME       : {display}\n",
        text("Group")
    );
    out += &format!(
        "        DEPENDENCIES       : {}\n",
        config.depends.join("\n                           : ")
    );
    out + &format!("        SERVICE_START_NAME : {}\n", text("ObjectName"))
}

pub(super) fn described(registry: &Registry, config: &ServiceConfig) -> String {
    format!(
        "DESCRIPTION:  {}\n",
        registry
            .text(&key(&config.name), "Description")
            .unwrap_or_default()
    )
}

pub(super) fn failures(registry: &Registry, config: &ServiceConfig) -> String {
    let at = key(&config.name);
    let data = registry
        .get(&at, "FailureActions")
        .map(|value| value.data.clone())
        .unwrap_or_default();
    let words: Vec<u32> = data.chunks_exact(4).filter_map(dword).collect();
    let mut out = format!(
        "        RESET_PERIOD (in seconds)    : {}\n",
        words.first().unwrap_or(&0)
    );
    out += &format!(
        "        REBOOT_MESSAGE               : {}\n",
        registry.text(&at, "RebootMessage").unwrap_or_default()
    );
    out += &format!(
        "        COMMAND_LINE                 : {}\n",
        registry.text(&at, "FailureCommand").unwrap_or_default()
    );
    out += "        FAILURE_ACTIONS              : ";
    let names = ["NONE", "RESTART", "REBOOT", "RUN PROCESS"];
    let lines: Vec<String> = words
        .get(5..)
        .unwrap_or_default()
        .chunks_exact(2)
        .map(|action| {
            format!(
                "{} -- Delay = {} milliseconds.",
                names.get(action[0] as usize).unwrap_or(&""),
                action[1]
            )
        })
        .collect();
    out + &lines.join("\n                                       ") + "\n"
}

pub(super) fn sid_shown(registry: &Registry, config: &ServiceConfig) -> String {
    let kind = match registry.dword(&key(&config.name), "ServiceSidType") {
        Some(1) => "UNRESTRICTED",
        Some(3) => "RESTRICTED",
        _ => "NONE",
    };
    format!("SERVICE_SID_TYPE:  {kind}\n")
}
