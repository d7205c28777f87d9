//! Interprets the output of `Get-VM` for the judge.
//!
//! Pure. (Microsoft: VMState, VMHeartbeatStatus; Msvm_ComputerSystem.OnTimeInMilliseconds: counted
//! from power-on or the last reset.)

use std::time::Duration;

use serde_json::Value;

use crate::vm::supervisor::driver::{HaltReason, HypervisorFault, MachineState};
use winimg_base::error::{Error, Kind};

/// Properties that are selected from `Get-VM`.
pub const STATUS_PROPERTIES: [&str; 5] = ["State", "Status", "Uptime", "CPUUsage", "Heartbeat"];

/// The last answer, and values accumulated over all answers.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct VmStatus {
    pub state: MachineState,
    /// Hyper-V's name of the state.
    name: String,
    /// `Operating normally`, or Hyper-V's description of a problem.
    status: String,
    pub heartbeat: String,
    pub restarts: u32,
    /// Processor time that the guest has used.
    pub demand: Duration,
    uptime: f64,
}

impl VmStatus {
    /// Updates the status. `since` is the time since the last answer; `processors` is the number of
    /// the host's processors, which `CPUUsage` refers to.
    pub fn take(&mut self, answer: &Value, since: Duration, processors: u64) {
        [self.name, self.status, self.heartbeat] = ["State", "Status", "Heartbeat"]
            .map(|name| answer[name].as_str().unwrap_or_default().to_string());
        self.state = parse_state(&self.name, &self.status);
        let share = answer["CPUUsage"].as_f64().unwrap_or(0.0).clamp(0.0, 100.0) / 100.0;
        self.demand += since.mul_f64(share * processors as f64);
        if let Some(uptime) = answer["Uptime"].as_f64() {
            // One second of tolerance: the value is rounded.
            if self.state == MachineState::Running && uptime + 1.0 < self.uptime {
                self.restarts += 1;
            }
            self.uptime = uptime;
        }
    }

    /// Describes the status in one line.
    pub fn describe(&self) -> String {
        let Self {
            name,
            status,
            heartbeat,
            restarts,
            ..
        } = self;
        format!("{name}, {status}, heartbeat {heartbeat}, {restarts} restarts")
    }

    /// Returns true if the guest's services answer Hyper-V: Windows has started, though Setup may
    /// not have finished.
    pub fn has_heartbeat(&self) -> bool {
        self.heartbeat.starts_with("Ok")
    }
}

fn parse_state(name: &str, status: &str) -> MachineState {
    let fault = match name {
        "Off" | "OffCritical" => return MachineState::Off,
        // A state that cannot be read now is read again two seconds later.
        "" | "Running" | "Starting" | "Stopping" | "Reset" | "Resuming" | "ForceShutdown"
        | "ForceReboot" | "Other" => return MachineState::Running,
        "PausedCritical" | "RunningCritical" => HypervisorFault::NoResources,
        "Paused" | "Pausing" => HypervisorFault::Paused,
        name if name.contains("Sav") => HypervisorFault::Saved,
        _ => HypervisorFault::Other,
    };
    let words = match status {
        "" => name.to_string(),
        status => format!("{name}: {status}"),
    };
    MachineState::Stopped(HaltReason::Hypervisor(fault, words))
}

/// Builds the error for a machine that neither runs nor is off.
pub fn describe_halt(fault: HypervisorFault, words: &str) -> Error {
    match fault {
        HypervisorFault::NoResources => Error::new(
            Kind::Host,
            "the host ran out of disk or memory: Hyper-V paused the machine",
        )
        .found(words)
        .cure(
            "free some space on the machine's disk (`winimg cache prune`), \
             or move the cache to another disk",
        ),
        HypervisorFault::Paused => {
            Error::new(Kind::Machine, "the machine was paused by another program")
                .found(words)
                .cure("do not change machines whose names begin with winimg-")
        }
        HypervisorFault::Saved => Error::new(Kind::Machine, "the machine was saved")
            .found(words)
            .lines(["likely: this host shut down or slept, or another program saved the machine"])
            .cure("build again, and keep the host from sleeping"),
        HypervisorFault::Drive | HypervisorFault::Internal | HypervisorFault::Other => {
            Error::new(Kind::Machine, "the machine stopped").found(words)
        }
    }
}

/// Builds the error for a machine that no longer exists in Hyper-V.
pub fn describe_vanished(name: &str) -> Error {
    Error::new(Kind::Machine, "the VM no longer exists in Hyper-V")
        .at(name)
        .cure("do not change machines whose names begin with winimg-")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn answer(state: &str, uptime: f64, cpu: u64) -> Value {
        json!({"State": state, "Status": "Operating normally", "Uptime": uptime, "CPUUsage": cpu, "Heartbeat": "OkApplicationsUnknown"})
    }

    #[test]
    fn restarts_are_seen_by_the_uptime_and_work_by_the_host_s_processors() {
        let mut figures = VmStatus::default();
        let two = Duration::from_secs(2);
        for (uptime, cpu) in [(2.0, 50), (4.0, 0), (1.0, 25), (3.0, 0), (2.5, 0)] {
            figures.take(&answer("Running", uptime, cpu), two, 4);
        }
        assert_eq!(figures.restarts, 1);
        assert_eq!(figures.demand, Duration::from_secs(6));
        assert!(figures.has_heartbeat());
    }

    #[test]
    fn each_state_that_is_no_running_is_named() {
        let rendered =
            ["Paused", "PausedCritical", "Saved", "FastSavedCritical"].map(
                |name| match parse_state(name, "Critical") {
                    MachineState::Stopped(HaltReason::Hypervisor(fault, words)) => {
                        describe_halt(fault, &words).to_string()
                    }
                    other => format!("{other:?}"),
                },
            );
        assert_eq!(
            rendered[1],
            "the host ran out of disk or memory: Hyper-V paused the machine\n  found: PausedCritical: Critical\n  \
             cure: free some space on the machine's disk (`winimg cache prune`), or move the cache to another disk"
        );
        let facts = rendered.map(|t| t.lines().next().unwrap_or_default().to_string());
        assert_eq!(facts[0], "the machine was paused by another program");
        assert_eq!(facts[2], "the machine was saved");
        assert_eq!(facts[3], "the machine was saved");
        assert_eq!(parse_state("Off", ""), MachineState::Off);
        assert_eq!(parse_state("Starting", ""), MachineState::Running);
    }
}
