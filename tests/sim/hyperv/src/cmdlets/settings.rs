//! Settings of machines: processors, memory, firmware, ports, services.

use super::{Context, Outcome};
use crate::object::Thing;
use crate::refusal::Refusal;
use crate::state::{Device, Vm};
use crate::syntax::{Argument, Bound};

/// What can be changed while a machine runs (Microsoft: Set-VM reference; the others need it off).
const ANY_TIME: &[&str] = &[
    "VM",
    "Name",
    "Notes",
    "Passthru",
    "LockOnDisconnect",
    "AutomaticStartAction",
    "AutomaticStopAction",
    "AutomaticCheckpointsEnabled",
    "CheckpointType",
    "NewVMName",
];

fn keep(vm: &mut Vm, call: &Bound, names: &[&str]) {
    for name in names {
        let text = match call.get(name) {
            Some(Argument::Text(text)) => text.clone(),
            Some(Argument::Flag(on)) => if *on { "True" } else { "False" }.into(),
            Some(Argument::Number(n)) => n.to_string(),
            _ => continue,
        };
        vm.settings.insert((*name).into(), text);
    }
}

pub fn vm(context: &mut Context<'_>, call: &Bound) -> Outcome {
    let ids = context.vms(call, "Name")?;
    if call.flag("StaticMemory") && call.flag("DynamicMemory") {
        let text = "The parameters DynamicMemory and StaticMemory cannot be specified together.";
        return Err(Refusal::argument("Set-VM", text));
    }
    for id in &ids {
        let only_off = [
            "ProcessorCount",
            "DynamicMemory",
            "StaticMemory",
            "MemoryStartupBytes",
            "SnapshotFileLocation",
            "SmartPagingFilePath",
        ];
        if only_off
            .iter()
            .any(|name| call.has(name) && !ANY_TIME.contains(name))
        {
            context.needs_off(call, id, "Changing the virtual machine's settings")?;
        }
        let vm = context.vm("Set-VM", id)?;
        if call.has("Notes") {
            vm.notes = call.text("Notes");
        }
        if let Some(count) = call.number("ProcessorCount") {
            vm.cpus = processors(call, count)?;
        }
        if call.flag("StaticMemory") || call.flag("DynamicMemory") {
            let on = if call.flag("DynamicMemory") {
                "True"
            } else {
                "False"
            };
            vm.settings.insert("DynamicMemoryEnabled".into(), on.into());
        }
        if let Some(bytes) = call.number("MemoryStartupBytes") {
            vm.memory = bytes;
        }
        keep(
            vm,
            call,
            &[
                "AutomaticCheckpointsEnabled",
                "CheckpointType",
                "AutomaticStartAction",
                "AutomaticStopAction",
                "LockOnDisconnect",
                "AutomaticCriticalErrorAction",
            ],
        );
    }
    context.out(call, &ids)
}

fn processors(call: &Bound, count: u64) -> Result<u32, Refusal> {
    match u32::try_from(count) {
        Ok(n) if (1..=64).contains(&n) => Ok(n),
        _ => {
            let text = format!("The number of processors is invalid: {count}.");
            Err(Refusal::argument(&call.cmdlet, text))
        }
    }
}

pub fn processor(context: &mut Context<'_>, call: &Bound) -> Outcome {
    let ids = context.vms(call, "VMName")?;
    for id in &ids {
        context.needs_off(call, id, "Changing the virtual processors")?;
        let vm = context.vm(&call.cmdlet, id)?;
        if let Some(count) = call.number("Count") {
            vm.cpus = processors(call, count)?;
        }
        keep(vm, call, &["ExposeVirtualizationExtensions"]);
    }
    Ok(Vec::new())
}

pub fn memory(context: &mut Context<'_>, call: &Bound) -> Outcome {
    let ids = context.vms(call, "VMName")?;
    for id in &ids {
        context.needs_off(call, id, "Changing the memory")?;
        let vm = context.vm(&call.cmdlet, id)?;
        if let Some(bytes) = call.number("StartupBytes") {
            vm.memory = bytes;
        }
        keep(vm, call, &["DynamicMemoryEnabled"]);
    }
    Ok(Vec::new())
}

/// Source: Microsoft: Set-VMFirmware and Set-VMBios reference, NOTES: each is for one generation.
fn generation(
    context: &mut Context<'_>,
    call: &Bound,
    id: &str,
    wanted: u32,
) -> Result<(), Refusal> {
    let vm = context.vm(&call.cmdlet, id)?;
    if vm.generation == wanted {
        Ok(())
    } else {
        let text = format!(
            "{} is not supported on generation {} virtual machines: '{}'.",
            call.cmdlet, vm.generation, vm.name
        );
        Err(Refusal::argument(&call.cmdlet, text))
    }
}

const TEMPLATES: &[&str] = &[
    "MicrosoftWindows",
    "MicrosoftUEFICertificateAuthority",
    "OpenSourceShieldedVM",
];

pub fn firmware(context: &mut Context<'_>, call: &Bound) -> Outcome {
    let ids = context.vms(call, "VMName")?;
    if call.has("FirstBootDevice") && call.has("BootOrder") {
        return Err(Refusal::stand_in(
            "Set-VMFirmware with an order and a first device at once",
        ));
    }
    for id in &ids {
        generation(context, call, id, 2)?;
        context.needs_off(call, id, "Changing the firmware's settings")?;
        let template = call.text("SecureBootTemplate");
        if call.has("SecureBootTemplate") && !TEMPLATES.contains(&template.as_str()) {
            let text = format!("The secure boot template '{template}' was not found.");
            return Err(Refusal::new(
                &call.cmdlet,
                "ObjectNotFound",
                "ObjectNotFound",
                text,
            ));
        }
        let order = devices(
            context,
            call,
            id,
            if call.has("BootOrder") {
                "BootOrder"
            } else {
                "FirstBootDevice"
            },
        )?;
        let vm = context.vm(&call.cmdlet, id)?;
        if call.has("EnableSecureBoot") {
            vm.secure_boot = call.text("EnableSecureBoot").eq_ignore_ascii_case("On");
        }
        if call.has("SecureBootTemplate") {
            vm.template = template;
        }
        if call.has("BootOrder") {
            vm.boot = order;
        } else if let Some(first) = order.first() {
            vm.boot.retain(|d| d != first);
            vm.boot.insert(0, *first);
        }
        keep(vm, call, &["PauseAfterBootFailure", "ConsoleMode"]);
    }
    Ok(Vec::new())
}

/// Each has to be the machine's own, and there.
fn devices(
    context: &mut Context<'_>,
    call: &Bound,
    id: &str,
    name: &str,
) -> Result<Vec<Device>, Refusal> {
    let vm = context.vm(&call.cmdlet, id)?;
    let mut all = Vec::new();
    for thing in call.things(name) {
        let (owner, device) = match thing {
            Thing::HardDisk { vm } => (vm, Device::Disk),
            Thing::Dvd {
                vm,
                number,
                location,
            } => (vm, Device::Dvd { number, location }),
            _ => continue,
        };
        let there = match device {
            Device::Disk => vm.disk.is_some(),
            Device::Dvd { number, location } => vm
                .dvds
                .iter()
                .any(|d| (d.number, d.location) == (number, location)),
            Device::Adapter => vm.adapters > 0,
        };
        if owner != id || !there {
            let text = "The boot order contains a device that is not part of the virtual machine.";
            return Err(Refusal::argument(&call.cmdlet, text));
        }
        all.push(device);
    }
    Ok(all)
}

pub fn bios(context: &mut Context<'_>, call: &Bound) -> Outcome {
    let ids = context.vms(call, "VMName")?;
    for id in &ids {
        generation(context, call, id, 1)?;
        context.needs_off(call, id, "Changing the BIOS settings")?;
        let mut order: Vec<String> = call
            .all("StartupOrder")
            .iter()
            .map(Argument::shown)
            .collect();
        order.sort_by_key(|d| d.to_uppercase());
        let whole = ["CD", "FLOPPY", "IDE", "LEGACYNETWORKADAPTER"];
        // Source: Microsoft: Set-VMBios reference, StartupOrder; the order is of all four.
        if call.has("StartupOrder") && !order.iter().map(|d| d.to_uppercase()).eq(whole) {
            let text = format!(
                "The startup order has to name each of {} once.",
                whole.join(", ")
            );
            return Err(Refusal::argument(&call.cmdlet, text));
        }
    }
    Ok(Vec::new())
}

pub fn com_port(context: &mut Context<'_>, call: &Bound) -> Outcome {
    let ids = context.vms(call, "VMName")?;
    let (number, path) = (call.number("Number").unwrap_or(0), call.text("Path"));
    for id in &ids {
        let wrong = |text: String| Refusal::argument(&call.cmdlet, text);
        if !(1..=2).contains(&number) {
            return Err(wrong(format!(
                "The COM port number {number} is not valid. Specify 1 or 2."
            )));
        }
        let is_pipe = path.starts_with("\\\\") && path.contains("\\pipe\\");
        if !path.is_empty() && !is_pipe {
            return Err(wrong(format!(
                "'{path}' is not a valid path of a named pipe."
            )));
        }
        let vm = context.vm(&call.cmdlet, id)?;
        if number == 1 {
            vm.com1 = (!path.is_empty()).then(|| path.clone());
        }
    }
    Ok(Vec::new())
}

pub fn key_protector(context: &mut Context<'_>, call: &Bound) -> Outcome {
    for id in context.vms(call, "VMName")? {
        generation(context, call, &id, 2)?;
        context.needs_off(call, &id, "Changing the key protector")?;
        context.vm(&call.cmdlet, &id)?.key_protector = true;
    }
    Ok(Vec::new())
}

pub fn enable_tpm(context: &mut Context<'_>, call: &Bound) -> Outcome {
    for id in context.vms(call, "VMName")? {
        generation(context, call, &id, 2)?;
        context.needs_off(call, &id, "Changing the TPM")?;
        let vm = context.vm(&call.cmdlet, &id)?;
        if !vm.key_protector {
            return Err(Refusal::no_key_protector(&vm.name, &vm.id));
        }
        vm.tpm = true;
    }
    Ok(Vec::new())
}
