//! What the cmdlets do to the state, and what they refuse.

mod disks;
mod drives;
mod machines;
mod settings;

use serde_json::{Value, json};

pub use machines::forget;

use crate::config::Config;
use crate::engine::{self, Engine, Power};
use crate::object::{Object, Thing};
use crate::refusal::Refusal;
use crate::state::{Held, Vm};
use crate::syntax::{Argument, Bound};

/// A call's surroundings.
pub struct Context<'a> {
    pub config: &'a Config,
    pub held: &'a mut Held,
}

pub type Outcome = Result<Vec<Object>, Refusal>;

/// Cmdlets of the Hyper-V module.
pub fn carry_out(context: &mut Context<'_>, call: &Bound) -> Outcome {
    match call.cmdlet.as_str() {
        "New-VHD" => disks::new(context, call),
        "Set-VHD" => disks::set(context, call),
        "Test-VHD" => disks::test(context, call),
        "Mount-VHD" => disks::mount(context, call),
        "Dismount-VHD" => disks::dismount(context, call),
        "Optimize-VHD" => disks::optimize(context, call),
        "New-VM" => machines::new(context, call),
        "Get-VM" => machines::get(context, call),
        "Remove-VM" => machines::remove(context, call),
        "Start-VM" => machines::start(context, call),
        "Stop-VM" => machines::stop(context, call),
        "Set-VM" => settings::vm(context, call),
        "Set-VMProcessor" => settings::processor(context, call),
        "Set-VMMemory" => settings::memory(context, call),
        "Set-VMFirmware" => settings::firmware(context, call),
        "Set-VMBios" => settings::bios(context, call),
        "Set-VMComPort" => settings::com_port(context, call),
        "Set-VMKeyProtector" => settings::key_protector(context, call),
        "Enable-VMTPM" => settings::enable_tpm(context, call),
        "Add-VMDvdDrive" => drives::add(context, call),
        "Get-VMDvdDrive" => drives::get(context, call),
        "Set-VMDvdDrive" => drives::set(context, call),
        "Remove-VMDvdDrive" => drives::remove(context, call),
        "Get-VMHardDiskDrive" => drives::hard_disks(context, call),
        "Remove-VMNetworkAdapter" => drives::remove_adapters(context, call),
        "Get-VMHost" => Ok(vec![host()]),
        other => Err(Refusal::stand_in(format!("no {other}"))),
    }
}

fn host() -> Object {
    let properties = json!({
        "Name": "STANDIN", "ComputerName": "STANDIN", "FullyQualifiedDomainName": "STANDIN", "LogicalProcessorCount": 8,
        "MemoryCapacity": 68_719_476_736_u64, "VirtualHardDiskPath": "C:\\ProgramData\\Microsoft\\Windows\\Virtual Hard Disks",
        "VirtualMachinePath": "C:\\ProgramData\\Microsoft\\Windows\\Hyper-V", "EnableEnhancedSessionMode": false,
        "SupportedVmVersions": ["9.0", "10.0"], "Id": Value::Null
    });
    Object::new(Thing::Host, properties)
}

impl Context<'_> {
    /// The machines that `-VM`, or the name in `by`, stands for.
    pub fn vms(&self, call: &Bound, by: &str) -> Result<Vec<String>, Refusal> {
        if call.has("VM") {
            let things = call.things("VM").into_iter();
            let ids = things.filter_map(|t| match t {
                Thing::Vm(id) => Some(id),
                _ => None,
            });
            let ids: Vec<String> = ids.collect();
            return if ids.iter().all(|id| self.held.state.vms.contains_key(id)) {
                Ok(ids)
            } else {
                Err(Refusal::gone(&call.cmdlet))
            };
        }
        let mut ids = Vec::new();
        for name in call.all(by) {
            let Argument::Text(name) = name else { continue };
            let all = self.held.state.vms.values();
            let found: Vec<&Vm> = all.filter(|v| v.name.eq_ignore_ascii_case(&name)).collect();
            match found.as_slice() {
                [one] => ids.push(one.id.clone()),
                [] => return Err(Refusal::no_vm(&call.cmdlet, "name", &name)),
                _ => {
                    return Err(Refusal::stand_in(format!(
                        "{} machines are called {name}: use their ids",
                        found.len()
                    )));
                }
            }
        }
        Ok(ids)
    }

    pub fn vm(&mut self, cmdlet: &str, id: &str) -> Result<&mut Vm, Refusal> {
        let found = self.held.state.vms.get_mut(id);
        found.ok_or_else(|| Refusal::gone(cmdlet))
    }

    /// The engine of a machine that was started.
    pub fn engine(&self, id: &str) -> Result<Box<dyn Engine>, Refusal> {
        engine::open(self.config, &self.held.folder(id)).map_err(Refusal::stand_in)
    }

    pub fn power(&mut self, id: &str) -> Result<Power, Refusal> {
        let Some(vm) = self.held.state.vms.get(id) else {
            return Ok(Power::Off);
        };
        if let Some(forced) = vm.forced {
            return Ok(forced);
        }
        if vm.started {
            Ok(self.engine(id)?.state())
        } else {
            Ok(Power::Off)
        }
    }

    /// Fails unless the machine is off.
    pub fn needs_off(&mut self, call: &Bound, id: &str, what: &str) -> Result<(), Refusal> {
        let power = self.power(id)?;
        let name = self.vm(&call.cmdlet, id)?.name.clone();
        match power {
            Power::Off => Ok(()),
            _ => Err(Refusal::wrong_state(&call.cmdlet, &name, what)),
        }
    }

    pub fn out(&mut self, call: &Bound, ids: &[String]) -> Outcome {
        if call.flag("Passthru") {
            ids.iter().map(|id| machines::object(self, id)).collect()
        } else {
            Ok(Vec::new())
        }
    }
}
