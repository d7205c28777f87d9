//! Creates a machine without starting it. A failure leaves no machine behind.

use std::sync::Arc;

use serde_json::{Value, json};

use super::call::CmdletCall;
use super::host::PowerShellHost;
use super::probe::HyperVHost;
use super::running::{self, HyperVMachine};
use super::setup_calls::{self, DISK, INSTALL, NAME, PAYLOAD, VM};
use crate::vm::MachinePlan;
use winimg_base::error::{Error, Kind, Result};
use winimg_base::event::Cancel;
use winimg_recipe::Firmware;

pub fn new(
    host: &Arc<PowerShellHost>,
    plan: &MachinePlan,
    found: &HyperVHost,
    cancel: &Cancel,
) -> Result<HyperVMachine> {
    let unique = uuid::Uuid::new_v4().simple().to_string();
    let name = format!("{NAME}{}", &unique[..8]);
    make(host, plan, &name, found, cancel).inspect_err(|_| remove_by_name(host, &name))
}

fn make(
    host: &Arc<PowerShellHost>,
    plan: &MachinePlan,
    name: &str,
    found: &HyperVHost,
    cancel: &Cancel,
) -> Result<HyperVMachine> {
    let made = host.order(
        "create the machine",
        &setup_calls::create(plan, name),
        cancel,
    )?;
    let id = made.first().and_then(|vm| vm["Id"].as_str());
    let Some(id) = id.map(String::from) else {
        let fact = "Hyper-V created a machine without an id";
        return Err(Error::new(Kind::Machine, fact).at(name));
    };
    host.set_owned(Some(&id));
    let own = CmdletCall::new("script:own").with_text("VmId", &id);
    host.order("register the machine for removal", &own, cancel)?;
    for call in setup_calls::configure_hardware(plan, name, found.checkpoints) {
        host.order("configure the machine", &call, cancel)?;
    }
    let disk = CmdletCall::new(r"Hyper-V\Get-VMHardDiskDrive").with_kept("VM", VM);
    host.order("find the machine's disk", &disk.keep(DISK), cancel)?;
    let drives = add_drives(plan, &|doing, call| host.order(doing, call, cancel))?;
    for call in setup_calls::boot_order(plan) {
        host.order("set the machine's boot order", &call, cancel)?;
    }
    HyperVMachine::new(
        Arc::clone(host),
        plan,
        id,
        name.to_string(),
        drives,
        found.processors,
        cancel.clone(),
    )
}

type ExecuteCall<'a> = dyn Fn(&str, &CmdletCall) -> Result<Vec<Value>> + 'a;

/// Adds the install disc's drive, if there is one, and the answer disc's, which later gets the
/// payload.
fn add_drives(plan: &MachinePlan, order: &ExecuteCall<'_>) -> Result<Vec<(&'static str, Value)>> {
    let mut wanted = match plan.start.install_discs() {
        Some((install, answer)) => vec![
            (INSTALL, Some(install.file.as_path())),
            (PAYLOAD, Some(answer)),
        ],
        None => vec![(PAYLOAD, None)],
    };
    let mut ready = Vec::new();
    if plan.firmware == Firmware::Bios {
        // Generation 1 has an empty drive from the start, which its firmware would boot first.
        let (name, disc) = wanted[0];
        let find = CmdletCall::new(r"Hyper-V\Get-VMDvdDrive")
            .with_kept("VM", VM)
            .select(&setup_calls::DRIVE);
        let there = order("find the machine's drives", &find)?;
        if let [place] = &there[..] {
            let find = find.keep(name);
            order("find the machine's drives", &find)?;
            if disc.is_some() {
                order(
                    "insert a disc into the machine",
                    &setup_calls::change_disc(name, disc),
                )?;
            }
            ready.push((name, place.clone()));
            wanted.remove(0);
        }
    }
    for (name, disc) in wanted {
        let made = order(
            "add a drive to the machine",
            &setup_calls::add_drive(disc, name),
        )?;
        ready.push((name, made.into_iter().next().unwrap_or_default()));
    }
    Ok(ready)
}

/// Removes a machine that was created although its id was not received.
fn remove_by_name(host: &PowerShellHost, name: &str) {
    let list = CmdletCall::new(r"Hyper-V\Get-VM").select(&["Id", "Name"]);
    let all = host.call(&list, &Cancel::default()).unwrap_or_default();
    for vm in all.iter().filter(|vm| vm["Name"] == json!(name)) {
        if let Some(id) = vm["Id"].as_str() {
            running::remove(host, id);
        }
    }
}
