//! Event logs, whole and damaged.

use support::evtx::log;
use winimg_formats::evtx::{EventLog, LogEvent};

const SCM: &str = "Service Control Manager";

fn sample() -> Vec<u8> {
    log(&[
        ("EventLog", 6005, &[]),
        (SCM, 7000, &["containerd", "%%1053"]),
        (SCM, 7036, &["Ger\u{e4}teinstallation", "stopped"]),
    ])
}

#[test]
fn events_say_who_wrote_them_and_with_which_data() {
    let found = EventLog::parse(&sample()).expect("a log");
    let event = |record, provider: &str, id, data: &[&str]| LogEvent {
        record,
        provider: provider.into(),
        id,
        data: data.iter().map(ToString::to_string).collect(),
    };
    assert_eq!(
        found,
        EventLog {
            events: vec![
                event(1, "EventLog", 6005, &[]),
                event(2, SCM, 7000, &["containerd", "%%1053"]),
                event(3, SCM, 7036, &["Ger\u{e4}teinstallation", "stopped"]),
            ],
            damaged: 0,
        }
    );
}

#[test]
fn what_is_no_log_is_refused() {
    let error = EventLog::parse(b"MZ").expect_err("no log");
    assert_eq!(
        error.to_string(),
        "this is not an event log\n  expected: a 4096-byte header that starts with ElfFile"
    );
}

/// Each byte of the records in turn: no panic, no endless reading, and never more events than there
/// are.
#[test]
fn damage_is_counted_and_stops_nothing() {
    let whole = sample();
    let used = 4096 + 512..4096 + 1600;
    let mut counted = 0;
    for at in used {
        for bits in [0xff, 0x80, 0x01] {
            let mut log = whole.clone();
            log[at] ^= bits;
            let found = EventLog::parse(&log).expect("a log");
            assert!(found.events.len() <= 3, "{at}");
            counted += usize::from(found.damaged > 0);
        }
    }
    assert!(counted > 200, "{counted}");
}

/// A template that holds itself would be read for ever.
#[test]
fn a_template_that_holds_itself_ends() {
    let mut log = sample();
    let place = log
        .windows(10)
        .position(|bytes| bytes == [0x0f, 1, 1, 0, 0x0c, 1, 7, 0, 0, 0])
        .expect("a template")
        + 10;
    let head = u32::from_le_bytes(log[place..place + 4].try_into().expect("4 bytes")) as usize;
    let body = 4096 + head + 24;
    let again = [0x0f, 1, 1, 0, 0x0c, 1, 7, 0, 0, 0];
    log[body..body + 10].copy_from_slice(&again);
    log[body + 10..body + 14].copy_from_slice(&(head as u32).to_le_bytes());
    log[body + 14..body + 18].copy_from_slice(&0_u32.to_le_bytes());
    let found = EventLog::parse(&log).expect("a log");
    assert_eq!((found.events.len(), found.damaged), (0, 3));
}
