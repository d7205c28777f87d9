//! wevtutil.exe: the event logs, and the manifests by which programs make their events known.
//!
//! A manifest's publishers and channels are written where Windows keeps them, below `WINEVT`. Templates, messages and
//! resources are not read. Source: Microsoft, wevtutil; "Writing an Instrumentation Manifest".

use roxmltree::{Document, Node};

use super::Arguments;
use super::settings::written;
use super::small::unknown;
use crate::windows::evtx;
use crate::windows::process::Process;
use crate::windows::registry::{dword_value, expand_sz, sz};

const LOGS: [&str; 6] = [
    "Application",
    "Security",
    "Setup",
    "System",
    "Windows PowerShell",
    "ForwardedEvents",
];
/// "The specified channel could not be found."
const NO_CHANNEL: u32 = 15007;
/// ERROR_EVT_PUBLISHER_METADATA_NOT_FOUND.
const NO_PUBLISHER: u32 = 15002;
const ALREADY_EXISTS: u32 = 183;
const INVALID_DATA: u32 = 13;
const WINEVT: &str = r"HKLM\SOFTWARE\Microsoft\Windows\CurrentVersion\WINEVT";
const EVENTS: &str = "http://schemas.microsoft.com/win/2004/08/events";

pub fn run(p: &mut Process, args: &Arguments) -> u32 {
    let list: Vec<&str> = args.list.iter().map(String::as_str).collect();
    match list[..] {
        ["el" | "enum-logs"] => {
            p.print(&format!("{}\n", LOGS.join("\n")));
            0
        }
        ["cl" | "clear-log", name] => clear(p, name),
        ["im" | "install-manifest", file] => manifest(p, file, install),
        ["um" | "uninstall-manifest", file] => manifest(p, file, remove),
        _ => unknown(p, "wevtutil", &list.join(" "), 87),
    }
}

fn clear(p: &Process, name: &str) -> u32 {
    let Some(log) = LOGS.iter().find(|log| log.eq_ignore_ascii_case(name)) else {
        p.complain(&format!(
            "Failed to clear log {name}.\nThe specified channel could not be found.\n"
        ));
        return NO_CHANNEL;
    };
    let file = p
        .locate(&format!(r"C:\Windows\System32\winevt\Logs\{log}.evtx"))
        .map_err(|error| error.text());
    let emptied =
        file.and_then(|file| std::fs::write(file.host, evtx::empty()).map_err(|e| e.to_string()));
    written(p, emptied)
}

struct Publisher {
    name: String,
    guid: String,
    resources: String,
    messages: String,
    /// Names of those that it brings itself.
    channels: Vec<String>,
}

type Act = fn(&Process, &Publisher) -> Result<(), (u32, String)>;

fn manifest(p: &Process, file: &str, act: Act) -> u32 {
    let read = || {
        let found = p
            .locate(file)
            .and_then(|found| found.existing())
            .map_err(|error| {
                (
                    error.0,
                    format!("Failed to open the manifest: {}", error.text()),
                )
            })?;
        let bytes = std::fs::read(found.host).map_err(|e| (5, e.to_string()))?;
        publishers(&String::from_utf8_lossy(&bytes)).map_err(|why| (INVALID_DATA, why))
    };
    let done = read().and_then(|all| all.iter().try_for_each(|one| act(p, one)));
    match done {
        Ok(()) => 0,
        Err((code, why)) => {
            p.complain(&format!("{why}\n"));
            code
        }
    }
}

fn publishers(text: &str) -> Result<Vec<Publisher>, String> {
    let document = Document::parse(text.trim_start_matches('\u{feff}'))
        .map_err(|e| format!("The manifest is not well-formed: {e}"))?;
    let named = |name: &'static str| move |node: &Node<'_, '_>| node.has_tag_name((EVENTS, name));
    let providers = document.descendants().filter(named("provider"));
    let found: Vec<Publisher> = providers
        .map(|provider| {
            let need = |name: &str| {
                let value = provider.attribute(name).map(str::to_owned);
                value.ok_or_else(|| format!("The manifest's provider has no {name}"))
            };
            let channels = provider.descendants().filter(named("channel"));
            Ok(Publisher {
                name: need("name")?,
                guid: need("guid")?,
                resources: need("resourceFileName")?,
                messages: need("messageFileName")?,
                channels: channels
                    .filter_map(|channel| channel.attribute("name").map(str::to_owned))
                    .collect(),
            })
        })
        .collect::<Result<_, String>>()?;
    if found.is_empty() {
        Err("The manifest has no provider".into())
    } else {
        Ok(found)
    }
}

fn keys(publisher: &Publisher) -> (String, Vec<String>) {
    let channels = publisher.channels.iter();
    (
        format!(r"{WINEVT}\Publishers\{}", publisher.guid),
        channels
            .map(|name| format!(r"{WINEVT}\Channels\{name}"))
            .collect(),
    )
}

fn install(p: &Process, publisher: &Publisher) -> Result<(), (u32, String)> {
    let (key, channels) = keys(publisher);
    let mut registry = p.machine.registry();
    if registry.key(&key).is_some() {
        let why = format!(
            "Provider {} is already installed with GUID {}.",
            publisher.name, publisher.guid
        );
        return Err((ALREADY_EXISTS, why));
    }
    let mut write = || {
        registry.set(&key, "", sz(&publisher.name))?;
        registry.set(&key, "ResourceFileName", expand_sz(&publisher.resources))?;
        registry.set(&key, "MessageFileName", expand_sz(&publisher.messages))?;
        for channel in &channels {
            registry.set(channel, "OwningPublisher", sz(&publisher.guid))?;
            registry.set(channel, "Enabled", dword_value(0))?;
        }
        Ok(())
    };
    write().map_err(|why: String| (5, why))
}

fn remove(p: &Process, publisher: &Publisher) -> Result<(), (u32, String)> {
    let (key, channels) = keys(publisher);
    let mut registry = p.machine.registry();
    if !registry.remove(&key) {
        let why = format!("Provider {} is not installed.", publisher.name);
        return Err((NO_PUBLISHER, why));
    }
    for channel in channels {
        registry.remove(&channel);
    }
    Ok(())
}
