//! Accumulates QEMU's events (QEMU: docs/interop/qmp-spec, run-state and char schemas).
//!
//! Pure. Members are read individually where qapi's event type is too strict: older versions give
//! no reason for a reset, newer ones have more reasons, and no drive error may be lost.

use std::time::{Duration, Instant};

use qapi::qmp::{
    BLOCK_IO_ERROR, BlockErrorAction, GUEST_PANICKED, GuestPanicInformation, RESET, RESUME,
    SHUTDOWN, STOP, VSERPORT_CHANGE,
};
use qapi::{Enum as _, Event as _};
use serde::Deserialize as _;
use serde_json::Value;

use crate::guest::agent::AgentPort;
use crate::vm::bugcheck::KernelCrash;

/// Id of the agent's port in `VSERPORT_CHANGE`.
pub const AGENT_PORT: &str = "agent0";

/// Interval in which a restart may send up to three `RESET`s.
const RESTART_WINDOW: Duration = Duration::from_secs(1);

/// Reason the machine powered off by itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QemuShutdown {
    /// Requested by the guest.
    pub guest: bool,
    /// QEMU's name: `guest-shutdown`, `host-qmp-quit`, `guest-panic` …
    pub reason: String,
}

/// Accumulated state of all events so far.
#[derive(Clone, Debug, Default)]
pub struct QemuEvents {
    /// Restarts requested by the guest.
    pub restarts: u32,
    pub port: AgentPort,
    /// `STOP` without a `RESUME` after it.
    pub stopped: bool,
    /// `STOP` because the host's disk was full, without a `RESUME` after it.
    pub no_room: bool,
    /// Descriptions of drive errors.
    pub faults: Vec<String>,
    /// Crash report of the guest's kernel.
    pub panic: Option<KernelCrash>,
    /// Time at which the port opened or closed, or the guest restarted.
    pub port_changed: Option<Instant>,
    pub shutdown: Option<QemuShutdown>,
    /// Start of the guest's last restart.
    restarted: Option<Instant>,
}

impl QemuEvents {
    pub fn add(&mut self, event: &Value, now: Instant) {
        let data = &event["data"];
        match event["event"].as_str().unwrap_or_default() {
            RESET::NAME => self.reset(data, now),
            VSERPORT_CHANGE::NAME => {
                if let Ok(change) = VSERPORT_CHANGE::deserialize(data)
                    && change.id == AGENT_PORT
                {
                    self.port.set_open(change.open);
                    self.port_changed = Some(now);
                }
            }
            STOP::NAME => self.stopped = true,
            RESUME::NAME => {
                self.stopped = false;
                self.no_room = false;
            }
            SHUTDOWN::NAME => {
                let guest = data["guest"] == true;
                self.port.off |= guest;
                self.shutdown = Some(QemuShutdown {
                    guest,
                    reason: read_text(&data["reason"]),
                });
            }
            BLOCK_IO_ERROR::NAME if data["action"] != BlockErrorAction::stop.name() => {}
            BLOCK_IO_ERROR::NAME if data["nospace"] == true => self.no_room = true,
            BLOCK_IO_ERROR::NAME => self.faults.push(format!(
                "{} of drive {} failed: {}",
                read_text(&data["operation"]),
                read_text(&data["device"]),
                read_text(&data["reason"])
            )),
            GUEST_PANICKED::NAME => self.panic = Some(parse_panic(&data["info"])),
            _ => {}
        }
    }

    /// Counts a reset by the guest. One by the host (`system_reset`) comes from winimg.
    fn reset(&mut self, data: &Value, now: Instant) {
        if data["guest"] != true {
            return;
        }
        self.port.disconnects += 1;
        self.port.restarts += 1;
        self.port_changed = Some(now);
        // Measured from the first `RESET`, so that a guest that restarts without a pause is a loop.
        let is_same_restart = self
            .restarted
            .is_some_and(|began| now.saturating_duration_since(began) < RESTART_WINDOW);
        if !is_same_restart {
            self.restarted = Some(now);
            self.restarts += 1;
        }
    }
}

/// Parses a crash report. Only the Hyper-V crash registers contain the stop code and its
/// parameters.
fn parse_panic(info: &Value) -> KernelCrash {
    match GuestPanicInformation::deserialize(info) {
        Ok(GuestPanicInformation::hyper_v(registers)) => KernelCrash {
            code: Some(registers.arg1),
            parameters: vec![
                registers.arg2,
                registers.arg3,
                registers.arg4,
                registers.arg5,
            ],
        },
        _ => KernelCrash::default(),
    }
}

fn read_text(value: &Value) -> String {
    value.as_str().unwrap_or("unknown").to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// Returns the events after guest resets at these times, in ms.
    fn restarts(times: impl IntoIterator<Item = u64>) -> QemuEvents {
        let start = Instant::now();
        let guest = json!({"event": "RESET", "data": {"guest": true, "reason": "guest-reset"}});
        let mut seen = QemuEvents::default();
        for ms in times {
            seen.add(&guest, start + Duration::from_millis(ms));
        }
        seen
    }

    #[test]
    fn resets_in_a_row_are_one_restart_and_the_hosts_are_none() {
        let mut seen = restarts([0, 10, 30, 20_000, 20_900]);
        let host =
            json!({"event": "RESET", "data": {"guest": false, "reason": "host-qmp-system-reset"}});
        seen.add(&host, Instant::now() + Duration::from_secs(40));
        assert_eq!(seen.restarts, 2);
    }

    #[test]
    fn restarts_without_a_pause_add_up() {
        // 0, 1.2, 2.4 … 10.8 s: more than any Setup needs.
        assert_eq!(restarts((0..40).map(|n| n * 300)).restarts, 10);
    }

    #[test]
    fn the_port_counts_closings_and_only_its_own() {
        let change = |id: &str, open: bool| json!({"event": "VSERPORT_CHANGE", "data": {"id": id, "open": open}});
        let mut seen = QemuEvents::default();
        for event in [
            change(AGENT_PORT, true),
            change("other", false),
            change(AGENT_PORT, false),
            change(AGENT_PORT, true),
        ] {
            seen.add(&event, Instant::now());
        }
        let expected = AgentPort {
            open: true,
            disconnects: 1,
            restarts: 0,
            off: false,
        };
        assert_eq!(seen.port, expected);
    }

    #[test]
    fn faults_want_of_room_and_crashes_are_told_apart() {
        let error = |nospace: bool, reason: &str| {
            json!({"event": "BLOCK_IO_ERROR", "data": {"device": "disk0",
            "operation": "write", "action": "stop", "nospace": nospace, "reason": reason}})
        };
        let mut seen = QemuEvents::default();
        seen.add(&error(true, "No space left on device"), Instant::now());
        seen.add(&json!({"event": "STOP"}), Instant::now());
        assert!(seen.no_room && seen.stopped && seen.faults.is_empty());
        seen.add(&json!({"event": "RESUME"}), Instant::now());
        assert!(!seen.no_room && !seen.stopped);
        seen.add(&error(false, "Input/output error"), Instant::now());
        assert_eq!(
            seen.faults,
            ["write of drive disk0 failed: Input/output error"]
        );
        let info =
            json!({"type": "hyper-v", "arg1": 123, "arg2": 1, "arg3": 2, "arg4": 3, "arg5": 4});
        seen.add(
            &json!({"event": "GUEST_PANICKED", "data": {"action": "pause", "info": info}}),
            Instant::now(),
        );
        let panic = KernelCrash {
            code: Some(123),
            parameters: vec![1, 2, 3, 4],
        };
        assert_eq!(seen.panic, Some(panic));
        seen.add(
            &json!({"event": "SHUTDOWN", "data": {"guest": true, "reason": "guest-shutdown"}}),
            Instant::now(),
        );
        assert!(seen.port.off);
    }

    /// Events of QEMU before 4.0, without a reason, and with values newer than qapi's schema.
    #[test]
    fn events_of_other_releases_count() {
        let mut seen = QemuEvents::default();
        for event in [
            json!({"event": "RESET", "data": {"guest": true}}),
            json!({"event": "SHUTDOWN", "data": {"guest": true}}),
            json!({"event": "BLOCK_IO_ERROR", "data": {"action": "stop", "operation": "zone-append", "reason": "gone"}}),
            json!({"event": "GUEST_PANICKED", "data": {"action": "pause", "info": {"type": "tdx", "error-code": 1}}}),
            json!({"event": "GUEST_TICKLED", "data": 7}),
        ] {
            seen.add(&event, Instant::now());
        }
        let shutdown = QemuShutdown {
            guest: true,
            reason: "unknown".into(),
        };
        assert_eq!((seen.restarts, seen.shutdown), (1, Some(shutdown)));
        assert_eq!(seen.faults, ["zone-append of drive unknown failed: gone"]);
        assert_eq!(seen.panic, Some(KernelCrash::default()));
    }
}
