//! The way to the guest of a machine of QEMU: its guest agent, behind a socket.

use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::Duration;

use super::Running;
use crate::guest::Guest;
use crate::guest::agent::{Agent, Host};
use crate::vm::driver::{Channel, Late, Oversight};
use crate::vm::supervisor::SAMPLE;
use winimg_base::error::{Error, Result};

/// For the agent's small calls, with hardware acceleration: servicing keeps it silent for half a minute.
const PATIENCE: Duration = Duration::from_secs(90);

pub struct AgentChannel {
    running: Arc<Running>,
    agent: Agent,
}

impl AgentChannel {
    /// Connected before the guest runs, so that its port has a host's end from the first moment; nothing is sent.
    pub fn new(running: Arc<Running>, oversight: &Arc<dyn Oversight>) -> Result<Self> {
        let path = running.dir.agent();
        let stream = UnixStream::connect(&path).map_err(|e| Error::io("connect to", &path, e))?;
        let share = || Arc::clone(oversight);
        let (check, talked, clock) = (share(), share(), share());
        let (port, discs) = (Arc::clone(&running), Arc::clone(&running));
        let host = Host {
            check: Box::new(move || Ok(check.check(false)?)),
            port: Box::new(move || port.seen().port),
            discs: Box::new(move |iso| discs.discs(iso)),
            talked: Box::new(move |asked| talked.talked(asked)),
            now: Box::new(move || clock.now()),
        };
        let agent = Agent::new(stream, host, PATIENCE * running.slowness)?;
        Ok(Self {
            agent: agent.written_down(&running.dir.agent_log()),
            running,
        })
    }
}

impl Channel for AgentChannel {
    fn try_open(&mut self, _left: Duration) -> Result<bool> {
        // A port that is open may still belong to a guest that is going down.
        Ok(self.running.seen().port.open && self.agent.try_open(SAMPLE)?)
    }

    fn opened(&self) -> &'static str {
        "the guest agent answers"
    }

    fn late(&self) -> Late {
        Late {
            fact: "the guest agent did not answer",
            ..Late::default()
        }
    }

    fn into_guest(self: Box<Self>) -> Box<dyn Guest> {
        Box::new(self.agent)
    }
}
