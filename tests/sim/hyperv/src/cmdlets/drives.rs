//! DVD drives, hard disks and network adapters of machines.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::{Context, Outcome};
use crate::engine::Power;
use crate::object::{Object, Thing};
use crate::refusal::Refusal;
use crate::state::{Dvd, Vm};
use crate::syntax::{Argument, Bound};

fn object(vm: &Vm, dvd: &Dvd) -> Object {
    let properties = json!({
        "Name": format!("DVD Drive on {} controller number {} at location {}", vm.controller(), dvd.number, dvd.location),
        "Id": format!("Microsoft:{}\\DVD\\{}\\{}", vm.id.to_uppercase(), dvd.number, dvd.location),
        "Path": dvd.path.as_ref().map(|p| p.display().to_string()), "DvdMediaType": if dvd.path.is_some() { "ISO" } else { "None" },
        "ControllerType": vm.controller(), "ControllerNumber": dvd.number, "ControllerLocation": dvd.location,
        "VMId": vm.id, "VMName": vm.name, "VMSnapshotId": "00000000-0000-0000-0000-000000000000", "VMSnapshotName": "",
        "IsDeleted": false, "ComputerName": "STANDIN", "PoolName": "Primordial"
    });
    let thing = Thing::Dvd {
        vm: vm.id.clone(),
        number: dvd.number,
        location: dvd.location,
    };
    Object::new(thing, properties)
}

/// A medium has to be an ISO file that is there.
///
/// Source: Microsoft: Set-VMDvdDrive reference. The text of the refusal is the stand-in's guess after Windows' system error.
fn medium(call: &Bound) -> Result<Option<PathBuf>, Refusal> {
    let text = call.text("Path");
    if text.is_empty() {
        return Ok(None);
    }
    let path = PathBuf::from(&text);
    if !path.is_absolute() {
        return Err(Refusal::stand_in(format!(
            "the path of a medium has to be whole: {text}"
        )));
    }
    if !path.is_file() {
        return Err(Refusal::no_file(&call.cmdlet, &text));
    }
    if path
        .extension()
        .is_none_or(|e| !e.eq_ignore_ascii_case("iso"))
    {
        let why = format!(
            "Failed to add device 'Virtual CD/DVD Disk'. The attachment '{text}' is not of a supported type: its name has to end in .iso."
        );
        return Err(Refusal::argument(&call.cmdlet, why));
    }
    Ok(Some(path))
}

pub fn add(context: &mut Context<'_>, call: &Bound) -> Outcome {
    let path = medium(call)?;
    let ids = context.vms(call, "VMName")?;
    let mut out = Vec::new();
    for id in ids {
        let generation = context.vm(&call.cmdlet, &id)?.generation;
        if generation == 1 || context.power(&id)? != Power::Off {
            context.needs_off(call, &id, "Adding a DVD drive")?;
        }
        let vm = context.vm(&call.cmdlet, &id)?;
        let number = call.number("ControllerNumber").map(|n| n as u32);
        let place = match call.number("ControllerLocation") {
            Some(location) => Some((number.unwrap_or(0), location as u32)),
            None => vm.free_place(number),
        };
        let free = place.filter(|(n, l)| {
            vm.has_place(*n, *l)
                && (*n, *l) != (0, 0)
                && !vm.dvds.iter().any(|d| (d.number, d.location) == (*n, *l))
        });
        let Some((number, location)) = free else {
            let text = format!(
                "Failed to add device 'Synthetic DVD Drive' to '{}': the location on the controller is not available.",
                vm.name
            );
            return Err(Refusal::argument(&call.cmdlet, text));
        };
        let dvd = Dvd {
            number,
            location,
            path: path.clone(),
        };
        vm.dvds.push(dvd.clone());
        vm.dvds.sort_by_key(|d| (d.number, d.location));
        if call.flag("Passthru") {
            out.push(object(vm, &dvd));
        }
    }
    Ok(out)
}

pub fn get(context: &mut Context<'_>, call: &Bound) -> Outcome {
    let ids = context.vms(call, "VMName")?;
    let (number, location) = (
        call.number("ControllerNumber"),
        call.number("ControllerLocation"),
    );
    let mut out = Vec::new();
    for id in ids {
        let vm = context.vm(&call.cmdlet, &id)?;
        let wanted = |d: &&Dvd| {
            number.is_none_or(|n| n == u64::from(d.number))
                && location.is_none_or(|l| l == u64::from(d.location))
        };
        out.extend(vm.dvds.iter().filter(wanted).map(|d| object(vm, d)));
    }
    Ok(out)
}

/// The drive that a call names, as machine and index.
fn drives(context: &mut Context<'_>, call: &Bound) -> Result<Vec<(String, usize)>, Refusal> {
    let mut places = Vec::new();
    for thing in call.things("VMDvdDrive") {
        if let Thing::Dvd {
            vm,
            number,
            location,
        } = thing
        {
            places.push((vm, number, location));
        }
    }
    if !call.has("VMDvdDrive") {
        for id in context.vms(call, "VMName")? {
            let number = call.number("ControllerNumber").unwrap_or(0) as u32;
            let location = call.number("ControllerLocation");
            let vm = context.vm(&call.cmdlet, &id)?;
            let only = if vm.dvds.len() == 1 {
                vm.dvds.first()
            } else {
                None
            };
            let location = location.map(|l| l as u32).or(only.map(|d| d.location));
            let Some(location) = location else {
                return Err(Refusal::stand_in(
                    "which of the DVD drives? say -ControllerLocation",
                ));
            };
            places.push((id, number, location));
        }
    }
    let mut found = Vec::new();
    for (id, number, location) in places {
        let vm = context.vm(&call.cmdlet, &id)?;
        let at = vm
            .dvds
            .iter()
            .position(|d| (d.number, d.location) == (number, location));
        found.push((id, at.ok_or_else(|| Refusal::gone(&call.cmdlet))?));
    }
    Ok(found)
}

pub fn set(context: &mut Context<'_>, call: &Bound) -> Outcome {
    if call.has("ToControllerNumber") || call.has("ToControllerLocation") {
        return Err(Refusal::stand_in("moving a DVD drive"));
    }
    let mut out = Vec::new();
    for (id, at) in drives(context, call)? {
        if call.has("Path") {
            change(context, call, &id, at)?;
        }
        let vm = context.vm(&call.cmdlet, &id)?;
        if call.flag("Passthru") {
            out.push(object(vm, &vm.dvds[at]));
        }
    }
    Ok(out)
}

fn change(context: &mut Context<'_>, call: &Bound, id: &str, at: usize) -> Result<(), Refusal> {
    let path = match call.get("Path") {
        Some(Argument::Null) => None,
        _ => medium(call)?,
    };
    if context.power(id)? == Power::Running {
        context
            .engine(id)?
            .set_dvd(at, path.as_deref())
            .map_err(|why| Refusal::new(&call.cmdlet, "OperationFailed", "NotSpecified", why))?;
    }
    context.vm(&call.cmdlet, id)?.dvds[at].path = path;
    Ok(())
}

pub fn remove(context: &mut Context<'_>, call: &Bound) -> Outcome {
    let mut found = drives(context, call)?;
    // From behind, so that the places before stay what they are.
    found.sort_by_key(|(_, at)| std::cmp::Reverse(*at));
    for (id, at) in found {
        context.needs_off(call, &id, "Removing a DVD drive")?;
        let vm = context.vm(&call.cmdlet, &id)?;
        let gone = vm.dvds.remove(at);
        vm.boot.retain(|d| {
            *d != crate::state::Device::Dvd {
                number: gone.number,
                location: gone.location,
            }
        });
    }
    Ok(Vec::new())
}

pub fn hard_disks(context: &mut Context<'_>, call: &Bound) -> Outcome {
    let ids = context.vms(call, "VMName")?;
    let mut out = Vec::new();
    for id in ids {
        let vm = context.vm(&call.cmdlet, &id)?;
        let Some(disk) = &vm.disk else { continue };
        let properties = json!({
            "Name": format!("Hard Drive on {} controller number 0 at location 0", vm.controller()),
            "Id": format!("Microsoft:{}\\DISK\\0\\0", vm.id.to_uppercase()), "Path": disk.display().to_string(),
            "DiskNumber": Value::Null, "ControllerType": vm.controller(), "ControllerNumber": 0, "ControllerLocation": 0,
            "VMId": vm.id, "VMName": vm.name, "MaximumIOPS": 0, "MinimumIOPS": 0, "SupportPersistentReservations": false,
            "WriteHardeningMethod": "Default", "IsDeleted": false, "ComputerName": "STANDIN", "PoolName": "Primordial"
        });
        out.push(Object::new(Thing::HardDisk { vm: id.clone() }, properties));
    }
    Ok(out)
}

pub fn remove_adapters(context: &mut Context<'_>, call: &Bound) -> Outcome {
    for id in context.vms(call, "VMName")? {
        if context.vm(&call.cmdlet, &id)?.generation == 1 {
            context.needs_off(call, &id, "Removing a network adapter")?;
        }
        let vm = context.vm(&call.cmdlet, &id)?;
        vm.adapters = 0;
        vm.boot.retain(|d| *d != crate::state::Device::Adapter);
    }
    Ok(Vec::new())
}

/// Whether the medium's path can be read by the machine when it starts.
pub fn all_there(vm: &Vm) -> Option<&Path> {
    let all = vm.dvds.iter().filter_map(|d| d.path.as_deref());
    all.chain(vm.disk.as_deref()).find(|p| !p.is_file())
}
