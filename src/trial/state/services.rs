//! Reads service failures from the System log and the services' keys.
//!
//! Sources: Microsoft, events of the Service Control Manager and their texts; CreateService, start
//! types; event 6005, which the event log writes at each start.

use winimg_formats::evtx::EventLog;
use winimg_formats::hive::{HiveKey, HiveValueData};
use winimg_recipe::RegistryKey;

use super::{ServiceFailure, ServiceStartType};
use crate::verify::{CheckResult, InspectedImage, VerifyFinding};

const SERVICES: RegistryKey = RegistryKey::from_static(r"HKLM\SYSTEM\CurrentControlSet\Services");
const LOG: &str = r"C:\Windows\System32\winevt\Logs\System.evtx";
const MAX_LOG_SIZE: u64 = 256 << 20;
const MANAGER: &str = "Service Control Manager";
/// Events of failed services, with the index of the service's name in their data.
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
struct ServiceKey {
    key: String,
    display_name: String,
    starts: Option<ServiceStartType>,
}

pub fn read(image: &InspectedImage<'_>) -> CheckResult<Vec<ServiceFailure>> {
    let Some(bytes) = image.volume.read(LOG, MAX_LOG_SIZE)? else {
        return Err(VerifyFinding::unknown(format!("{LOG} is missing")));
    };
    let log = EventLog::parse(&bytes)?;
    if log.damaged > 0 {
        return Err(VerifyFinding::unknown(format!(
            "{LOG}: {} of its records can't be read",
            log.damaged
        )));
    }
    let services = match image.open_key(&SERVICES)? {
        Some(key) => key.read_keys()?,
        None => Vec::new(),
    };
    let services: Vec<ServiceKey> = services
        .iter()
        .map(read_service)
        .collect::<CheckResult<_>>()?;
    Ok(find_failures(&log, &services))
}

fn read_service(key: &HiveKey<'_>) -> CheckResult<ServiceKey> {
    let display_name = match key.find_value("DisplayName")? {
        Some(HiveValueData::Sz(text) | HiveValueData::ExpandSz(text)) => text,
        _ => String::new(),
    };
    let delayed = read_number(key, "DelayedAutostart")? == Some(1);
    Ok(ServiceKey {
        key: key.name(),
        display_name,
        starts: match (read_number(key, "Start")?, delayed) {
            (Some(0), _) => Some(ServiceStartType::Boot),
            (Some(1), _) => Some(ServiceStartType::System),
            (Some(2), false) => Some(ServiceStartType::Auto),
            (Some(2), true) => Some(ServiceStartType::DelayedAuto),
            (Some(3), _) => Some(ServiceStartType::Demand),
            (Some(4), _) => Some(ServiceStartType::Disabled),
            _ => None,
        },
    })
}

fn read_number(key: &HiveKey<'_>, name: &str) -> CheckResult<Option<u32>> {
    Ok(match key.find_value(name)? {
        Some(HiveValueData::Dword(number)) => Some(number),
        _ => None,
    })
}

fn find_failures(log: &EventLog, services: &[ServiceKey]) -> Vec<ServiceFailure> {
    let last_start = log
        .events
        .iter()
        .rposition(|event| (event.provider.as_str(), event.id) == STARTED)
        .unwrap_or(0);
    let mut failures = Vec::new();
    for (number, event) in log.events.iter().enumerate() {
        let known = FAILURES.iter().find(|(id, _)| *id == event.id);
        let Some((_, place)) = known.filter(|_| event.provider == MANAGER) else {
            continue;
        };
        let name = event.data.get(*place).cloned().unwrap_or_default();
        let mut found = services.iter().filter(|service| {
            service.display_name.eq_ignore_ascii_case(&name)
                || service.key.eq_ignore_ascii_case(&name)
        });
        let service = found.next().filter(|_| found.next().is_none());
        let details = event.data.iter().enumerate();
        failures.push(ServiceFailure {
            event: event.id,
            key: service.map(|s| s.key.clone()),
            starts: service.and_then(|s| s.starts),
            since_last_start: number >= last_start,
            details: details
                .filter(|(at, text)| at != place && !text.is_empty())
                .map(|(_, text)| format_detail(text))
                .collect(),
            service: name,
        });
    }
    failures
}

/// Renders an event's data. `%%1053` refers to Windows' text for that error, which is not in the
/// log.
fn format_detail(text: &str) -> String {
    let number = text.strip_prefix("%%").and_then(|n| n.parse::<u32>().ok());
    match number {
        Some(code @ 0x8000_0000..) => format!("error {code:#x}"),
        Some(code) => format!("error {code}"),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use winimg_formats::evtx::LogEvent;

    use super::*;

    fn log(events: &[(&str, u32, &[&str])]) -> EventLog {
        let events = events.iter().zip(1..);
        let events = events.map(|((provider, id, data), record)| LogEvent {
            record,
            provider: (*provider).to_owned(),
            id: *id,
            data: data.iter().map(ToString::to_string).collect(),
        });
        EventLog {
            events: events.collect(),
            damaged: 0,
        }
    }

    fn service(key: &str, display_name: &str, starts: ServiceStartType) -> ServiceKey {
        ServiceKey {
            key: key.into(),
            display_name: display_name.into(),
            starts: Some(starts),
        }
    }

    #[test]
    fn a_failure_is_that_of_the_service_with_the_name_that_people_see() {
        let services = [
            service("containerd", "Containerd", ServiceStartType::Auto),
            service("one", "Twice", ServiceStartType::Auto),
            service("other", "Twice", ServiceStartType::Demand),
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
        let rendered: Vec<String> = find_failures(&log, &services)
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
