//! What Setup does to a sealed system's identity and accounts when it comes up as another machine.
//!
//! Sources: Microsoft, Sysprep (Generalize); GeneralizationState and the rest of the registry are Setup's own part (`os`).

use std::time::{Duration, Instant};

use super::registry::sz;
use super::{Power, Windows, account, service};

const CRYPTOGRAPHY: &str = r"HKLM\SOFTWARE\Microsoft\Cryptography";

impl Windows {
    /// What becomes of a machine at the start of specialize after sysprep: a machine SID and a MachineGuid of its own.
    pub fn become_another(&self) -> Result<(), String> {
        let mut registry = self.machine.registry();
        account::new_machine_sid(&mut registry)?;
        let id = account::random::<16>()?;
        let hex: String = id.iter().map(|byte| format!("{byte:02x}")).collect();
        let guid = [
            &hex[..8],
            &hex[8..12],
            &hex[12..16],
            &hex[16..20],
            &hex[20..],
        ]
        .join("-");
        registry.set(CRYPTOGRAPHY, "MachineGuid", sz(&guid))
    }

    /// A pass of Setup takes minutes, in which services do their work: waits for programs that run as a service. Gives the
    /// restart that one of them asked for, which interrupts the pass.
    pub fn let_services_work(&self, limit: Duration) -> Option<Power> {
        let deadline = Instant::now() + limit;
        while service::programs(&self.machine) > 0 && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(100));
        }
        self.power_asked()
    }

    /// After OOBE: an enabled built-in administrator without a password has to choose one at the next logon.
    pub fn close_administrator(&self) -> Result<(), String> {
        account::close_administrator(&mut self.machine.registry())
    }

    /// The name of the built-in administrator, whatever it is called.
    pub fn administrator(&self) -> Option<String> {
        account::by_rid(&self.machine.registry(), 500)
    }
}
