//! Guest channel of a Hyper-V machine: PowerShell Direct sessions.

use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;

use super::HyperVMachine;
use crate::guest::Guest;
use crate::guest::direct::{self, DirectGuest, OpenAttempt, SessionFailure};
use crate::vm::hyperv::call::{CallArgument, CmdletCall};
use crate::vm::hyperv::errors::{CallFailure, RefusalSource, explain};
use crate::vm::supervisor::Supervisor;
use crate::vm::supervisor::driver::{GuestChannel, GuestTimeout};
use winimg_base::error::Result;

/// Account of PowerShell Direct; its password is set by the answer file.
const USER: &str = "Administrator";
/// Names of objects kept in the PowerShell process.
const CREDENTIAL: &str = "credential";
const SESSION: &str = "session";
/// Completes "Hyper-V refused to …".
const DOING: &str = "connect to the guest";
/// Interval between two attempts to open a session.
const ATTEMPT: Duration = Duration::from_secs(5);
/// Interval while there is no heartbeat: the guest's services may be disabled.
const BLIND_ATTEMPT: Duration = Duration::from_secs(30);

pub struct SessionChannel {
    machine: Arc<HyperVMachine>,
    oversight: Arc<Supervisor>,
    direct: DirectGuest,
    /// Time since power-on.
    last_attempt: Option<Duration>,
    /// Reason the last attempt failed.
    last_error: String,
}

impl SessionChannel {
    pub fn new(machine: Arc<HyperVMachine>, oversight: &Arc<Supervisor>) -> Self {
        Self {
            direct: DirectGuest::new(build_host(&machine, oversight)),
            machine,
            oversight: Arc::clone(oversight),
            last_attempt: None,
            last_error: String::new(),
        }
    }

    fn is_due(&self) -> bool {
        let beats = self.machine.figures().has_heartbeat();
        let wait = if beats { ATTEMPT } else { BLIND_ATTEMPT };
        match self.last_attempt {
            // The first attempt waits for a heartbeat.
            None => beats || self.oversight.elapsed() >= wait,
            Some(last) => self.oversight.elapsed() >= last + wait,
        }
    }
}

impl GuestChannel for SessionChannel {
    fn try_open(&mut self, left: Duration) -> Result<bool> {
        if !self.is_due() {
            return Ok(false);
        }
        let opened = self.direct.try_open(left);
        self.last_attempt = Some(self.oversight.elapsed());
        match opened? {
            OpenAttempt::Yes => Ok(true),
            OpenAttempt::NotYet(reason) => {
                self.last_error = reason;
                Ok(false)
            }
        }
    }

    fn describe_success(&self) -> &'static str {
        "Windows accepts sessions"
    }

    fn describe_timeout(&self) -> GuestTimeout {
        let heartbeat = match self.machine.figures().heartbeat.as_str() {
            "" => "no heartbeat".to_string(),
            other => format!("heartbeat {other}"),
        };
        let line = format!("the last attempt failed: {}", self.last_error);
        GuestTimeout {
            fact: "Windows accepted no PowerShell Direct session",
            found: Some(heartbeat),
            lines: (!self.last_error.is_empty())
                .then_some(line)
                .into_iter()
                .collect(),
        }
    }

    fn into_guest(self: Box<Self>) -> Box<dyn Guest> {
        Box::new(self.direct)
    }
}

/// Builds the functions that the sessions need from the machine.
fn build_host(machine: &Arc<HyperVMachine>, oversight: &Arc<Supervisor>) -> direct::SessionHost {
    let [look, discs, restarts, connect, invoke] = std::array::from_fn(|_| Arc::clone(machine));
    let (check, on_contact) = (Arc::clone(oversight), Arc::clone(oversight));
    let password = machine.password.clone();
    // Generation of the process that has the credential.
    let mut credential_generation = None;
    direct::SessionHost {
        connect: Box::new(move |patience| {
            let generation = connect.host.generation(&connect.cancel);
            let generation = generation.map_err(|failure| classify_failure(&failure))?;
            if credential_generation != Some(generation) {
                let credential = CmdletCall::new("script:credential")
                    .with_text("User", USER)
                    .with(
                        "Password",
                        CallArgument::Secret(password.expose().to_string()),
                    )
                    .keep(CREDENTIAL);
                call_host(&connect, &credential)?;
                credential_generation = Some(generation);
            }
            let session = CmdletCall::new(r"Microsoft.PowerShell.Core\New-PSSession")
                .with_text("VMId", &connect.id)
                .with_kept("Credential", CREDENTIAL)
                .keep(SESSION)
                .with_patience(patience);
            call_host(&connect, &session).map(|_| ())
        }),
        invoke: Box::new(move |script, arguments, select, patience| {
            let call = CmdletCall::new(r"Microsoft.PowerShell.Core\Invoke-Command")
                .with_kept("Session", SESSION)
                .with("ScriptBlock", CallArgument::Block(script));
            let call = if arguments.is_empty() {
                call
            } else {
                call.with("ArgumentList", CallArgument::List(arguments))
            };
            let done = call_host(&invoke, &call.select(select).with_patience(patience))?;
            Ok(done.into_iter().next().unwrap_or(Value::Null))
        }),
        check: Box::new(move |fresh| check.check(fresh)),
        restarts: Box::new(move || look.refresh().restarts),
        known_restarts: Box::new(move || restarts.figures().restarts),
        discs: Box::new(move |iso| discs.change_discs(iso)),
        on_contact: Box::new(move |asked| on_contact.record_contact(asked)),
    }
}

fn call_host(machine: &HyperVMachine, call: &CmdletCall) -> Result<Vec<Value>, SessionFailure> {
    let done = machine.host.call(call, &machine.cancel);
    done.map_err(|failure| classify_failure(&failure))
}

/// Distinguishes broken sessions from exceptions of a script.
fn classify_failure(failure: &CallFailure) -> SessionFailure {
    match failure {
        CallFailure::Refused(refusal) => match refusal.by {
            RefusalSource::Guest => SessionFailure::Threw(refusal.message.trim().to_string()),
            RefusalSource::LogOn => SessionFailure::Credential(failure.describe()),
            RefusalSource::Host => SessionFailure::Broken(failure.describe()),
        },
        CallFailure::Interrupted | CallFailure::NoPowerShell(_) => {
            SessionFailure::Machine(explain(DOING, failure))
        }
        // The PowerShell process is replaced; the guest keeps running.
        CallFailure::Late { .. } | CallFailure::Died { .. } | CallFailure::Garbled { .. } => {
            SessionFailure::Host(explain(DOING, failure))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::vm::hyperv::errors::CallRefusal;
    use serde_json::json;

    /// The exception types are those of the stand-in for PowerShell; messages may be localized.
    #[test]
    fn a_refusal_is_known_by_its_exception_and_not_by_its_words() {
        let threw = |exception: &str, message: &str| {
            let call = CmdletCall::new(r"Microsoft.PowerShell.Core\New-PSSession");
            let record = json!({"message": message, "id": "PSSessionOpenFailed",
                "category": "OpenError", "type": format!("System.Management.Automation.{exception}")});
            format!(
                "{:?}",
                classify_failure(&CallFailure::Refused(CallRefusal::from_record(
                    &call, &record
                )))
            )
        };
        let german = "Die Anmeldeinformationen sind ungültig.";
        assert_eq!(
            threw("Remoting.PSDirectException", german),
            format!("Credential({german:?})")
        );
        let quoted = "The credential is invalid";
        assert_eq!(
            threw("RemoteException", quoted),
            format!("Threw({quoted:?})")
        );
        assert_eq!(
            threw("Remoting.PSRemotingTransportException", quoted),
            format!("Broken({quoted:?})")
        );
    }
}
