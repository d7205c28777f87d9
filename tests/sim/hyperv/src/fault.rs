//! Which faults a call meets, and what they do to the machine.

use crate::cmdlets::{Context, forget};
use crate::config::{Config, Deed, Fault};
use crate::engine::Power;
use crate::refusal::Refusal;
use crate::script::matches;
use crate::state::State;

/// Counts the call, and returns the faults that are due.
pub fn due(config: &Config, state: &mut State, call: &str, text: &str) -> Vec<Fault> {
    state.met.resize(config.fault.len(), 0);
    let mut found = Vec::new();
    for (fault, met) in config.fault.iter().zip(&mut state.met) {
        if fault.at.call != call || !matches(&fault.at.is, text) {
            continue;
        }
        *met += 1;
        let last = fault
            .at
            .nth
            .saturating_add(fault.at.times.saturating_sub(1));
        if *met >= fault.at.nth && (fault.at.times == 0 || *met <= last) {
            found.push(fault.clone());
        }
    }
    found
}

/// What befalls the machines before the call is carried out, and whether the call is refused for it.
pub fn befall(
    context: &mut Context<'_>,
    fault: &Fault,
    cmdlet: &str,
    text: &str,
) -> Result<(), Refusal> {
    match fault.deed {
        Deed::Refuses => {
            let id = if fault.id.is_empty() {
                "OperationFailed"
            } else {
                &fault.id
            };
            return Err(Refusal::new(
                cmdlet,
                id,
                "NotSpecified",
                fault.words.as_str(),
            ));
        }
        Deed::Locked => {
            let path = text.split_whitespace().skip_while(|w| *w != "-Path").nth(1);
            return Err(Refusal::in_use(cmdlet, path.unwrap_or_default()));
        }
        Deed::NoMemory => {
            let vm = context
                .held
                .state
                .vms
                .values()
                .next()
                .ok_or_else(|| Refusal::gone(cmdlet))?;
            return Err(Refusal::no_memory(&vm.name, &vm.id, vm.memory >> 20));
        }
        Deed::CredentialInvalid => return Err(Refusal::credential(cmdlet)),
        Deed::ServiceStops => {
            context.held.state.service_stopped = true;
            return Err(Refusal::gone(cmdlet));
        }
        Deed::ClockJumps => {
            context.held.state.clock_jumped = true;
            return Ok(());
        }
        _ => {}
    }
    let ids: Vec<String> = context.held.state.vms.keys().cloned().collect();
    for id in ids {
        let forced = match fault.deed {
            Deed::VmVanishes => {
                context.engine(&id)?.turn_off();
                forget(context, &id);
                continue;
            }
            Deed::Checkpoint => {
                checkpoint(context, &id)?;
                continue;
            }
            Deed::DiskFull => Power::PausedCritical,
            Deed::Saved => Power::Saved,
            deed if deed.is_of_the_guest() => {
                context
                    .engine(&id)?
                    .suffer(fault, text)
                    .map_err(Refusal::stand_in)?;
                continue;
            }
            _ => continue,
        };
        context.vm(cmdlet, &id)?.forced = Some(forced);
    }
    Ok(())
}

/// The disk becomes the parent of an `.avhdx` that the machine goes on with.
fn checkpoint(context: &mut Context<'_>, id: &str) -> Result<(), Refusal> {
    let vm = context.vm("Checkpoint-VM", id)?;
    let Some(disk) = vm.disk.clone() else {
        return Ok(());
    };
    let stem = disk.file_stem().unwrap_or_default().to_string_lossy();
    let next = disk.with_file_name(format!(
        "{stem}_{}.avhdx",
        uuid::Uuid::new_v4().to_string().to_uppercase()
    ));
    crate::vhdx::create_over(&next, &disk, None).map_err(Refusal::stand_in)?;
    vm.disk = Some(next);
    Ok(())
}
