//! What QEMU's events add up to (QEMU: docs/interop/qmp-spec, run-state and char schemas).
//!
//! Pure: one event goes in, the sum changes. Knows nothing of sockets.

use std::time::{Duration, Instant};

use serde_json::Value;

use crate::guest::agent::Port;
use crate::vm::bugcheck::Panic;

/// The id of the agent's port, by which `VSERPORT_CHANGE` names it.
pub const AGENT_PORT: &str = "agent0";

/// One restart is told as up to three `RESET`s in a row.
const ONE_RESTART: Duration = Duration::from_secs(1);

/// Why the machine went off by itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shutdown {
    /// The guest asked for it.
    pub guest: bool,
    /// QEMU's word for it: `guest-shutdown`, `host-qmp-quit`, `guest-panic` …
    pub reason: String,
}

/// The sum of all events so far.
#[derive(Clone, Debug, Default)]
pub struct Seen {
    /// Restarts that the guest asked for.
    pub restarts: u32,
    pub port: Port,
    /// `STOP` without a `RESUME` after it.
    pub stopped: bool,
    /// `STOP` because a write found no room on the host, without a `RESUME` after it.
    pub no_room: bool,
    /// What was told about a fault of a drive, in words.
    pub faults: Vec<String>,
    /// What the guest's kernel told when it crashed.
    pub panic: Option<Panic>,
    /// When the port opened or closed, or the guest restarted.
    pub port_changed: Option<Instant>,
    pub shutdown: Option<Shutdown>,
    /// When the guest's last restart began.
    restarted: Option<Instant>,
}

impl Seen {
    pub fn add(&mut self, event: &Value, now: Instant) {
        let data = &event["data"];
        match event["event"].as_str().unwrap_or_default() {
            "RESET" => self.reset(data, now),
            "VSERPORT_CHANGE" if data["id"] == AGENT_PORT => {
                self.port.change(data["open"] == true);
                self.port_changed = Some(now);
            }
            "STOP" => self.stopped = true,
            "RESUME" => {
                self.stopped = false;
                self.no_room = false;
            }
            "SHUTDOWN" => {
                let guest = data["guest"] == true;
                self.port.off |= guest;
                self.shutdown = Some(Shutdown {
                    guest,
                    reason: text(&data["reason"]),
                });
            }
            "BLOCK_IO_ERROR" if data["action"] == "stop" && data["nospace"] == true => {
                self.no_room = true;
            }
            "BLOCK_IO_ERROR" if data["action"] == "stop" => self.faults.push(format!(
                "{} of drive {} failed: {}",
                text(&data["operation"]),
                text(&data["device"]),
                text(&data["reason"])
            )),
            "GUEST_PANICKED" => self.panic = Some(Panic::of(&data["info"])),
            _ => {}
        }
    }

    /// A reset from the host (`system_reset`) is ours and no restart of the guest.
    fn reset(&mut self, data: &Value, now: Instant) {
        if data["guest"] != true {
            return;
        }
        self.port.downs += 1;
        self.port_changed = Some(now);
        // From its beginning, not from the last `RESET`: a guest that restarts without a pause must add up to a loop.
        let again = self
            .restarted
            .is_some_and(|began| now.saturating_duration_since(began) < ONE_RESTART);
        if !again {
            self.restarted = Some(now);
            self.restarts += 1;
        }
    }
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or("unknown").to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn resets_in_a_row_are_one_restart_and_the_hosts_are_none() {
        let start = Instant::now();
        let guest = json!({"event": "RESET", "data": {"guest": true, "reason": "guest-reset"}});
        let host =
            json!({"event": "RESET", "data": {"guest": false, "reason": "host-qmp-system-reset"}});
        let mut seen = Seen::default();
        for ms in [0, 10, 30, 20_000, 20_900] {
            seen.add(&guest, start + Duration::from_millis(ms));
        }
        seen.add(&host, start + Duration::from_millis(40_000));
        assert_eq!(seen.restarts, 2);
    }

    #[test]
    fn restarts_without_a_pause_add_up() {
        let start = Instant::now();
        let guest = json!({"event": "RESET", "data": {"guest": true, "reason": "guest-reset"}});
        let mut seen = Seen::default();
        for n in 0..40 {
            seen.add(&guest, start + Duration::from_millis(n * 300));
        }
        // 0, 1.2, 2.4 … 10.8 s: more than any Setup needs.
        assert_eq!(seen.restarts, 10);
    }

    #[test]
    fn the_port_counts_openings_and_only_its_own() {
        let change = |id: &str, open: bool| json!({"event": "VSERPORT_CHANGE", "data": {"id": id, "open": open}});
        let mut seen = Seen::default();
        for event in [
            change(AGENT_PORT, true),
            change("other", false),
            change(AGENT_PORT, false),
            change(AGENT_PORT, true),
        ] {
            seen.add(&event, Instant::now());
        }
        let expected = Port {
            open: true,
            opened: 2,
            downs: 1,
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
        let mut seen = Seen::default();
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
        let panic = Panic {
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
}
