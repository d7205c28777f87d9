//! Makes a machine, and starts nothing. What fails leaves no machine behind.

use std::sync::Arc;

use serde_json::{Value, json};

use super::call::Call;
use super::host::Host;
use super::making::{self, DISK, INSTALL, NAME, PAYLOAD, VM};
use super::probe::Found;
use super::running::{self, Running};
use crate::vm::MachinePlan;
use winimg_base::error::{Error, Kind, Result};
use winimg_base::event::Cancel;
use winimg_recipe::recipe::Firmware;

pub fn new(
    host: &Arc<Host>,
    plan: &MachinePlan,
    found: &Found,
    cancel: &Cancel,
) -> Result<Running> {
    let unique = uuid::Uuid::new_v4().simple().to_string();
    let name = format!("{NAME}{}", &unique[..8]);
    make(host, plan, &name, found, cancel).inspect_err(|_| remove_by_name(host, &name))
}

fn make(
    host: &Arc<Host>,
    plan: &MachinePlan,
    name: &str,
    found: &Found,
    cancel: &Cancel,
) -> Result<Running> {
    let order = |doing: &str, call: &Call| host.order(doing, call, cancel);
    let made = order("make the machine", &making::create(plan, name))?;
    let id = made.first().and_then(|vm| vm["Id"].as_str());
    let Some(id) = id.map(String::from) else {
        return Err(Error::new(Kind::Machine, "Hyper-V made a machine without an id").at(name));
    };
    host.own(Some(&id));
    order(
        "take the machine as ours",
        &Call::new("script:own").text("VmId", &id),
    )?;
    for call in making::hardware(plan, name, found.checkpoints) {
        order("set the machine up", &call)?;
    }
    let disk = Call::new(r"Hyper-V\Get-VMHardDiskDrive").kept("VM", VM);
    order("find the machine's disk", &disk.keep(DISK))?;
    let drives = add_drives(plan, &order)?;
    for call in making::boot_order(plan) {
        order("set the machine's boot order", &call)?;
    }
    Running::new(
        Arc::clone(host),
        plan,
        (id, name.to_string()),
        drives,
        found.processors,
        cancel.clone(),
    )
}

type Order<'a> = dyn Fn(&str, &Call) -> Result<Vec<Value>> + 'a;

/// The install disc's drive, where there is one, and the answer disc's, which later takes the payload.
fn add_drives(plan: &MachinePlan, order: &Order<'_>) -> Result<Vec<(&'static str, Value)>> {
    let mut wanted = match plan.start.discs() {
        Some((install, answer)) => vec![
            (INSTALL, Some(install.file.as_path())),
            (PAYLOAD, Some(answer)),
        ],
        None => vec![(PAYLOAD, None)],
    };
    let mut ready = Vec::new();
    if plan.firmware == Firmware::Bios {
        // Generation 1 comes with an empty drive, from which its firmware would boot first.
        let (name, disc) = wanted[0];
        let find = Call::new(r"Hyper-V\Get-VMDvdDrive")
            .kept("VM", VM)
            .select(&making::DRIVE);
        let there = order("find the machine's drives", &find)?;
        if let [place] = &there[..] {
            let find = find.keep(name);
            order("find the machine's drives", &find)?;
            if disc.is_some() {
                order(
                    "put a disc into the machine",
                    &making::change_disc(name, disc),
                )?;
            }
            ready.push((name, place.clone()));
            wanted.remove(0);
        }
    }
    for (name, disc) in wanted {
        let made = order("add a drive to the machine", &making::add_drive(disc, name))?;
        ready.push((name, made.into_iter().next().unwrap_or_default()));
    }
    Ok(ready)
}

/// A machine that was made although its id did not reach us.
fn remove_by_name(host: &Host, name: &str) {
    let list = Call::new(r"Hyper-V\Get-VM").select(&["Id", "Name"]);
    let all = host.call(&list, &Cancel::default()).unwrap_or_default();
    for vm in all.iter().filter(|vm| vm["Name"] == json!(name)) {
        if let Some(id) = vm["Id"].as_str() {
            running::remove(host, id);
        }
    }
}
