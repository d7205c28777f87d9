//! Guest channel of a QEMU machine: its guest agent, behind a socket.

use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::Duration;

use super::QemuMachine;
use crate::guest::Guest;
use crate::guest::agent::{AgentGuest, AgentHost};
use crate::vm::supervisor::SAMPLE;
use crate::vm::supervisor::Supervisor;
use crate::vm::supervisor::driver::{GuestChannel, GuestTimeout};
use winimg_base::error::{Error, Result};

/// Limit for the agent's small calls with hardware acceleration: while Windows installs updates it
/// does not answer for half a minute.
const PATIENCE: Duration = Duration::from_secs(90);

pub struct AgentChannel {
    machine: Arc<QemuMachine>,
    agent: AgentGuest,
}

impl AgentChannel {
    /// Connects before the guest runs, so that its port is connected from the start. Sends nothing.
    pub fn new(machine: Arc<QemuMachine>, oversight: &Arc<Supervisor>) -> Result<Self> {
        let path = machine.dir.agent_socket();
        let stream = UnixStream::connect(&path).map_err(|e| Error::io("connect to", &path, e))?;
        let check = Arc::clone(oversight);
        let on_contact = Arc::clone(oversight);
        let clock = Arc::clone(oversight);
        let (port, discs) = (Arc::clone(&machine), Arc::clone(&machine));
        let host = AgentHost {
            check: Box::new(move || Ok(check.check(false)?)),
            port: Box::new(move || port.events().port),
            discs: Box::new(move |iso| discs.change_discs(iso)),
            on_contact: Box::new(move |asked| on_contact.record_contact(asked)),
            now: Box::new(move || clock.now()),
        };
        let agent = AgentGuest::new(stream, host, PATIENCE * machine.slowness)?;
        Ok(Self {
            agent: agent.with_transcript(&machine.dir.agent_log()),
            machine,
        })
    }
}

impl GuestChannel for AgentChannel {
    fn try_open(&mut self, _left: Duration) -> Result<bool> {
        // An open port may still belong to a guest that is shutting down.
        Ok(self.machine.events().port.open && self.agent.try_open(SAMPLE)?)
    }

    fn describe_success(&self) -> &'static str {
        "the guest agent answers"
    }

    fn describe_timeout(&self) -> GuestTimeout {
        GuestTimeout {
            fact: "the guest agent did not answer",
            ..GuestTimeout::default()
        }
    }

    fn into_guest(self: Box<Self>) -> Box<dyn Guest> {
        Box::new(self.agent)
    }
}
