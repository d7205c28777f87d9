//! Which services failed, from the System log and the services' keys.
//!
//! Sources: Microsoft, events of the Service Control Manager and their texts; CreateService, start types; event 6005, which the
//! event log writes at each start.

use winimg_formats::evtx::{Event, Log};
use winimg_formats::hive::{Data, Key};
use winimg_recipe::recipe::RegistryKey;

use super::{ServiceFailure, Starts};
use crate::verify::{Answer, Finding, Image};

const SERVICES: RegistryKey = RegistryKey::known(r"HKLM\SYSTEM\CurrentControlSet\Services");
const LOG: &str = r"C:\Windows\System32\winevt\Logs\System.evtx";
const LONGEST: u64 = 256 << 20;
const MANAGER: &str = "Service Control Manager";
/// Events that a service failed with, and which of their data is its name.
const FAILURES: [(u32, usize); 9] = [
    (7000, 0),
    (7001, 0),
    (7009, 1),
    (7023, 0),
    (7024, 0),
    (7031, 0),
    (7034, 0),
    (7038, 0),
    (7041, 0),
];
const STARTED: (&str, u32) = ("EventLog", 6005);

/// A service's key.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Service {
    key: String,
    display_name: String,
    starts: Option<Starts>,
}

pub fn read(image: &Image<'_>) -> Answer<Vec<ServiceFailure>> {
    let Some(bytes) = image.volume.read(LOG, LONGEST)? else {
        return Err(Finding::unknown(format!("{LOG} is missing")));
    };
    let log = Log::parse(&bytes)?;
    if log.damaged > 0 {
        return Err(Finding::unknown(format!(
            "{LOG}: {} of its records can't be read",
            log.damaged
        )));
    }
    let services = match image.key(&SERVICES)? {
        Some(key) => key.keys()?,
        None => Vec::new(),
    };
    let services: Vec<Service> = services.iter().map(service).collect::<Answer<_>>()?;
    Ok(failures(&log, &services))
}

fn service(key: &Key<'_>) -> Answer<Service> {
    let number = |name| {
        Ok::<_, Box<Finding>>(match key.value(name)? {
            Some(Data::Dword(n)) => Some(n),
            _ => None,
        })
    };
    let display_name = match key.value("DisplayName")? {
        Some(Data::Sz(text) | Data::ExpandSz(text)) => text,
        _ => String::new(),
    };
    let delayed = number("DelayedAutostart")? == Some(1);
    Ok(Service {
        key: key.name(),
        display_name,
        starts: match (number("Start")?, delayed) {
            (Some(0), _) => Some(Starts::Boot),
            (Some(1), _) => Some(Starts::System),
            (Some(2), false) => Some(Starts::Auto),
            (Some(2), true) => Some(Starts::DelayedAuto),
            (Some(3), _) => Some(Starts::Demand),
            (Some(4), _) => Some(Starts::Disabled),
            _ => None,
        },
    })
}

fn failures(log: &Log, services: &[Service]) -> Vec<ServiceFailure> {
    let start = |event: &Event| (event.provider.as_str(), event.id) == STARTED;
    let last_start = log.events.iter().rposition(start).unwrap_or(0);
    let mut failures = Vec::new();
    for (number, event) in log.events.iter().enumerate() {
        let known = FAILURES.iter().find(|(id, _)| *id == event.id);
        let Some((_, place)) = known.filter(|_| event.provider == MANAGER) else {
            continue;
        };
        let name = event.data.get(*place).cloned().unwrap_or_default();
        let named = |s: &&Service| {
            s.display_name.eq_ignore_ascii_case(&name) || s.key.eq_ignore_ascii_case(&name)
        };
        let mut found = services.iter().filter(named);
        let service = found.next().filter(|_| found.next().is_none());
        let details = event.data.iter().enumerate();
        failures.push(ServiceFailure {
            event: event.id,
            key: service.map(|s| s.key.clone()),
            starts: service.and_then(|s| s.starts),
            since_last_start: number >= last_start,
            details: details
                .filter(|(at, text)| at != place && !text.is_empty())
                .map(|(_, text)| detail(text))
                .collect(),
            service: name,
        });
    }
    failures
}

/// `%%1053` stands for Windows' text of that error, which is not in the log.
fn detail(text: &str) -> String {
    let number = text.strip_prefix("%%").and_then(|n| n.parse::<u32>().ok());
    match number {
        Some(code @ 0x8000_0000..) => format!("error {code:#x}"),
        Some(code) => format!("error {code}"),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn log(events: &[(&str, u32, &[&str])]) -> Log {
        let events = events.iter().zip(1..);
        let events = events.map(|((provider, id, data), record)| Event {
            record,
            provider: (*provider).to_owned(),
            id: *id,
            data: data.iter().map(ToString::to_string).collect(),
        });
        Log {
            events: events.collect(),
            damaged: 0,
        }
    }

    fn service(key: &str, display_name: &str, starts: Starts) -> Service {
        Service {
            key: key.into(),
            display_name: display_name.into(),
            starts: Some(starts),
        }
    }

    #[test]
    fn a_failure_is_that_of_the_service_with_the_name_that_people_see() {
        let services = [
            service("containerd", "Containerd", Starts::Auto),
            service("one", "Twice", Starts::Auto),
            service("other", "Twice", Starts::Demand),
        ];
        let log = log(&[
            (STARTED.0, STARTED.1, &[]),
            (MANAGER, 7009, &["30000", "Containerd"]),
            (STARTED.0, STARTED.1, &[]),
            (MANAGER, 7000, &["Containerd", "%%1053"]),
            (MANAGER, 7036, &["Containerd", "stopped"]),
            ("Else", 7000, &["Containerd", "%%1"]),
            (MANAGER, 7023, &["Twice", "%%2147942414"]),
        ]);
        let rendered: Vec<String> = failures(&log, &services)
            .iter()
            .map(|f| {
                format!(
                    "{} {} {:?} {:?} {} {:?}",
                    f.event, f.service, f.key, f.starts, f.since_last_start, f.details
                )
            })
            .collect();
        assert_eq!(
            rendered,
            [
                r#"7009 Containerd Some("containerd") Some(Auto) false ["30000"]"#,
                r#"7000 Containerd Some("containerd") Some(Auto) true ["error 1053"]"#,
                r#"7023 Twice None None true ["error 0x8007000e"]"#,
            ]
        );
    }
}
