//! What `Get-VM` says of a machine, read as the judge needs it.
//!
//! Pure. (Microsoft: VMState, VMHeartbeatStatus; Msvm_ComputerSystem.OnTimeInMilliseconds: counted from power-on or the last reset.)

use std::time::Duration;

use serde_json::Value;

use crate::vm::driver::{Fault, Halt, State};
use winimg_base::error::{Error, Kind};

/// What is asked of `Get-VM`.
pub const ASKED: [&str; 5] = ["State", "Status", "Uptime", "CPUUsage", "Heartbeat"];

/// The last answer, and what adds up over all of them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Figures {
    pub state: State,
    /// The state as Hyper-V names it.
    name: String,
    /// `Operating normally`, or what Hyper-V says is wrong.
    status: String,
    pub heartbeat: String,
    pub restarts: u32,
    /// Processor time that the guest has used.
    pub demand: Duration,
    uptime: f64,
}

impl Figures {
    /// `since`: between the last answer and this one. `processors`: of the host, of all of which `CPUUsage` is a share.
    pub fn take(&mut self, answer: &Value, since: Duration, processors: u64) {
        let text = |name: &str| answer[name].as_str().unwrap_or_default().to_string();
        self.state = state(&text("State"), &text("Status"));
        self.name = text("State");
        self.status = text("Status");
        self.heartbeat = text("Heartbeat");
        let share = answer["CPUUsage"].as_f64().unwrap_or(0.0).clamp(0.0, 100.0) / 100.0;
        self.demand += since.mul_f64(share * processors as f64);
        if let Some(uptime) = answer["Uptime"].as_f64() {
            // A second's grace: the figure is rounded.
            if self.state == State::Running && uptime + 1.0 < self.uptime {
                self.restarts += 1;
            }
            self.uptime = uptime;
        }
    }

    /// All that Hyper-V says of it, in a line.
    pub fn words(&self) -> String {
        let Self {
            name,
            status,
            heartbeat,
            restarts,
            ..
        } = self;
        format!("{name}, {status}, heartbeat {heartbeat}, {restarts} restarts")
    }

    /// The guest's own services answer Hyper-V: Windows has started, which says nothing of Setup's end.
    pub fn beats(&self) -> bool {
        self.heartbeat.starts_with("Ok")
    }
}

fn state(name: &str, status: &str) -> State {
    let fault = match name {
        "Off" | "OffCritical" => return State::Off,
        // What cannot be read now is read two seconds later.
        "" | "Running" | "Starting" | "Stopping" | "Reset" | "Resuming" | "ForceShutdown"
        | "ForceReboot" | "Other" => return State::Running,
        "PausedCritical" | "RunningCritical" => Fault::NoResources,
        "Paused" | "Pausing" => Fault::Paused,
        name if name.contains("Sav") => Fault::Saved,
        _ => Fault::Other,
    };
    let words = match status {
        "" => name.to_string(),
        status => format!("{name}: {status}"),
    };
    State::Stopped(Halt::Own(fault, words))
}

/// The error of a machine that neither runs nor is off.
pub fn halted(fault: Fault, words: &str) -> Error {
    match fault {
        Fault::NoResources => Error::new(
            Kind::Host,
            "the host ran out of disk or memory: Hyper-V paused the machine",
        )
        .found(words)
        .cure("make room where the machine's disk lies (`winimg cache prune`), or put the cache elsewhere"),
        Fault::Paused => Error::new(Kind::Machine, "somebody paused the machine")
            .found(words)
            .cure("leave machines whose names begin with winimg- to winimg"),
        Fault::Saved => Error::new(Kind::Machine, "the machine was saved")
            .found(words)
            .lines(["likely: this host shut down or slept, or somebody saved the machine"])
            .cure("build again; a host that builds must not sleep"),
        Fault::Drive | Fault::Internal | Fault::Other => {
            Error::new(Kind::Machine, "the machine stopped").found(words)
        }
    }
}

/// The error of a machine that Hyper-V does not know any more.
pub fn vanished(name: &str) -> Error {
    Error::new(
        Kind::Machine,
        "the VM vanished: Hyper-V does not know it any more",
    )
    .at(name)
    .cure("leave machines whose names begin with winimg- to winimg")
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
        let mut figures = Figures::default();
        let two = Duration::from_secs(2);
        for (uptime, cpu) in [(2.0, 50), (4.0, 0), (1.0, 25), (3.0, 0), (2.5, 0)] {
            figures.take(&answer("Running", uptime, cpu), two, 4);
        }
        assert_eq!(figures.restarts, 1);
        assert_eq!(figures.demand, Duration::from_secs(6));
        assert!(figures.beats());
    }

    #[test]
    fn each_state_that_is_no_running_is_named() {
        let rendered = ["Paused", "PausedCritical", "Saved", "FastSavedCritical"].map(|name| {
            match state(name, "Critical") {
                State::Stopped(Halt::Own(fault, words)) => halted(fault, &words).to_string(),
                other => format!("{other:?}"),
            }
        });
        assert_eq!(
            rendered[1],
            "the host ran out of disk or memory: Hyper-V paused the machine\n  found: PausedCritical: Critical\n  \
             cure: make room where the machine's disk lies (`winimg cache prune`), or put the cache elsewhere"
        );
        let facts = rendered.map(|t| t.lines().next().unwrap_or_default().to_string());
        assert_eq!(facts[0], "somebody paused the machine");
        assert_eq!(facts[2], "the machine was saved");
        assert_eq!(facts[3], "the machine was saved");
        assert_eq!(state("Off", ""), State::Off);
        assert_eq!(state("Starting", ""), State::Running);
    }
}
