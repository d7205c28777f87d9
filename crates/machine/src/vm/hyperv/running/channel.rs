//! The way to the guest of a machine of Hyper-V: sessions of PowerShell Direct.

use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;

use super::Running;
use crate::guest::Guest;
use crate::guest::direct::{self, Direct, Opened, Trouble};
use crate::vm::driver::{Channel, Late, Oversight};
use crate::vm::hyperv::call::{Arg, Call};
use crate::vm::hyperv::errors::{Refuser, Trouble as HostTrouble, explain};
use winimg_base::error::Result;

/// The account of PowerShell Direct; the answer file gives it its password.
const USER: &str = "Administrator";
/// Names of kept objects.
const CREDENTIAL: &str = "credential";
const SESSION: &str = "session";
/// Between two attempts at a session.
const ATTEMPT: Duration = Duration::from_secs(5);
/// The same while the guest's own services say nothing to Hyper-V: they may be switched off.
const BLIND_ATTEMPT: Duration = Duration::from_secs(30);

pub struct Sessions {
    running: Arc<Running>,
    oversight: Arc<dyn Oversight>,
    direct: Direct,
    /// Since power-on.
    last_attempt: Option<Duration>,
    /// Why the last attempt failed.
    said: String,
}

impl Sessions {
    pub fn new(running: Arc<Running>, oversight: &Arc<dyn Oversight>) -> Self {
        Self {
            direct: Direct::new(host(&running, oversight)),
            running,
            oversight: Arc::clone(oversight),
            last_attempt: None,
            said: String::new(),
        }
    }

    fn is_due(&self) -> bool {
        let beats = self.running.figures().beats();
        let wait = match beats {
            true => ATTEMPT,
            false => BLIND_ATTEMPT,
        };
        match self.last_attempt {
            // The first attempt waits for a first look.
            None => beats || self.oversight.elapsed() >= wait,
            Some(last) => self.oversight.elapsed() >= last + wait,
        }
    }
}

impl Channel for Sessions {
    fn try_open(&mut self, left: Duration) -> Result<bool> {
        if !self.is_due() {
            return Ok(false);
        }
        let opened = self.direct.try_open(left);
        self.last_attempt = Some(self.oversight.elapsed());
        match opened? {
            Opened::Yes => Ok(true),
            Opened::NotYet(said) => {
                self.said = said;
                Ok(false)
            }
        }
    }

    fn opened(&self) -> &'static str {
        "Windows takes a session"
    }

    fn late(&self) -> Late {
        let heartbeat = match self.running.figures().heartbeat.as_str() {
            "" => "no heartbeat".to_string(),
            other => format!("heartbeat {other}"),
        };
        let said = format!("the last attempt failed: {}", self.said);
        Late {
            fact: "Windows took no session of PowerShell Direct",
            found: Some(heartbeat),
            lines: (!self.said.is_empty())
                .then_some(said)
                .into_iter()
                .collect(),
        }
    }

    fn into_guest(self: Box<Self>) -> Box<dyn Guest> {
        Box::new(self.direct)
    }
}

/// What the sessions need of the machine around them.
fn host(running: &Arc<Running>, oversight: &Arc<dyn Oversight>) -> direct::Host {
    let share = || Arc::clone(running);
    let (look, discs, restarts, connect, invoke) = (share(), share(), share(), share(), share());
    let (check, talked) = (Arc::clone(oversight), Arc::clone(oversight));
    let password = running.password.clone();
    // Which process keeps the credential.
    let mut known_to = None;
    direct::Host {
        connect: Box::new(move |patience| {
            let generation = connect.host.generation(&connect.cancel);
            let generation = generation.map_err(|trouble| rendered(&trouble))?;
            if known_to != Some(generation) {
                let credential = Call::new("script:credential")
                    .text("User", USER)
                    .with("Password", Arg::Secret(password.expose().to_string()))
                    .keep(CREDENTIAL);
                talk(&connect, &credential)?;
                known_to = Some(generation);
            }
            let session = Call::new(r"Microsoft.PowerShell.Core\New-PSSession")
                .text("VMId", &connect.id)
                .kept("Credential", CREDENTIAL)
                .keep(SESSION)
                .within(patience);
            talk(&connect, &session).map(|_| ())
        }),
        invoke: Box::new(move |script, arguments, select, patience| {
            let call = Call::new(r"Microsoft.PowerShell.Core\Invoke-Command")
                .kept("Session", SESSION)
                .with("ScriptBlock", Arg::Block(script));
            let call = match arguments.is_empty() {
                true => call,
                false => call.with("ArgumentList", Arg::List(arguments)),
            };
            let done = talk(&invoke, &call.select(select).within(patience))?;
            Ok(done.into_iter().next().unwrap_or(Value::Null))
        }),
        check: Box::new(move |fresh| check.check(fresh)),
        restarts: Box::new(move || look.look().restarts),
        known_restarts: Box::new(move || restarts.figures().restarts),
        discs: Box::new(move |iso| discs.discs(iso)),
        talked: Box::new(move |asked| talked.talked(asked)),
    }
}

fn talk(running: &Running, call: &Call) -> Result<Vec<Value>, Trouble> {
    let done = running.host.call(call, &running.cancel);
    done.map_err(|trouble| rendered(&trouble))
}

/// Distinguishes what breaks a session from what a script threw.
fn rendered(trouble: &HostTrouble) -> Trouble {
    let failed = || explain("speak to the guest", trouble);
    match trouble {
        HostTrouble::Refused(refusal) => match refusal.by {
            Refuser::Guest => Trouble::Threw(refusal.message.trim().to_string()),
            Refuser::LogOn => Trouble::Credential(trouble.fact()),
            Refuser::Host => Trouble::Broken(trouble.fact()),
        },
        HostTrouble::Interrupted | HostTrouble::NoPowerShell(_) => Trouble::Machine(failed()),
        // Another process takes its place, and the guest continues meanwhile.
        HostTrouble::Late { .. } | HostTrouble::Died { .. } | HostTrouble::Garbled { .. } => {
            Trouble::Host(failed())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::vm::hyperv::errors::Refusal;
    use serde_json::json;

    /// Exceptions' types are those of the stand-in for PowerShell; the words may be in any language.
    #[test]
    fn a_refusal_is_known_by_its_exception_and_not_by_its_words() {
        let threw = |exception: &str, message: &str| {
            let call = Call::new(r"Microsoft.PowerShell.Core\New-PSSession");
            let record = json!({"message": message, "id": "PSSessionOpenFailed",
                "category": "OpenError", "type": format!("System.Management.Automation.{exception}")});
            format!(
                "{:?}",
                rendered(&HostTrouble::Refused(Refusal::of(&call, &record)))
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
