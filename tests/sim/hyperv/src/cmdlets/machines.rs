//! Machines: made, found, started, stopped, removed.

use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};
use uuid::Uuid;

use super::{Context, Outcome, disks, drives};
use crate::engine::{Boot, Figures, Heartbeat, Power, Spec};
use crate::object::{Object, Thing};
use crate::refusal::Refusal;
use crate::state::{Device, Vm};
use crate::syntax::Bound;
use crate::vhdx;

const PAGE: u64 = 2 << 20;

pub fn new(context: &mut Context<'_>, call: &Bound) -> Outcome {
    let wrong = |text: String| Refusal::argument("New-VM", text);
    if call.has("NewVHDPath")
        || call.has("SwitchName")
        || call.has("Version")
        || call.has("BootDevice")
    {
        return Err(Refusal::stand_in(
            "New-VM with a new disk, a switch, a version or a boot device",
        ));
    }
    let name = call.text("Name");
    if name.is_empty()
        || name.len() > 100
        || name.contains(['\\', '/', ':', '*', '?', '"', '<', '>', '|'])
    {
        return Err(wrong(format!(
            "Failed to create a new virtual machine.\nThe name '{name}' is not valid."
        )));
    }
    let generation = call.number("Generation").unwrap_or(1);
    if !(1..=2).contains(&generation) {
        return Err(wrong(format!(
            "The generation {generation} is not supported."
        )));
    }
    let memory = call.number("MemoryStartupBytes").unwrap_or(1 << 30);
    if memory < 32 << 20 || !memory.is_multiple_of(PAGE) {
        return Err(wrong(format!(
            "Failed to modify device 'Memory'.\nInvalid startup memory amount assigned for '{name}': {memory} bytes."
        )));
    }
    let folder = call.text("Path");
    if folder.is_empty() || !Path::new(&folder).is_dir() {
        return Err(Refusal::stand_in(format!(
            "New-VM -Path has to name a folder that is there, not '{folder}'"
        )));
    }
    let disk = match call.text("VHDPath") {
        text if text.is_empty() => None,
        text if Path::new(&text).is_file() => Some(PathBuf::from(text)),
        text => return Err(Refusal::no_file("New-VM", &text)),
    };
    let id = Uuid::new_v4().to_string();
    let path = PathBuf::from(folder).join(&name);
    let files = path.join("Virtual Machines");
    std::fs::create_dir_all(&files)
        .and_then(|()| {
            std::fs::write(
                files.join(format!("{}.vmcx", id.to_uppercase())),
                b"a stand-in's configuration",
            )
        })
        .map_err(|e| wrong(format!("Failed to create a new virtual machine.\n{e}")))?;
    let now = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |d| d.as_secs());
    let mut vm = Vm {
        id: id.clone(),
        name,
        path,
        generation: generation as u32,
        memory,
        cpus: 1,
        notes: String::new(),
        settings: [
            ("AutomaticCheckpointsEnabled", "True"),
            ("CheckpointType", "Production"),
            ("AutomaticStartAction", "StartIfRunning"),
            ("AutomaticStopAction", "Save"),
            ("DynamicMemoryEnabled", "False"),
            ("LockOnDisconnect", "Off"),
        ]
        .map(|(k, v)| (k.to_string(), v.to_string()))
        .into(),
        disk,
        dvds: Vec::new(),
        adapters: 1,
        com1: None,
        secure_boot: generation == 2,
        template: "MicrosoftWindows".into(),
        boot: Vec::new(),
        created: now,
        started: false,
        forced: None,
        key_protector: false,
        tpm: false,
    };
    // A machine of generation 1 comes with a DVD drive; one of generation 2 boots from its adapter first.
    match generation {
        1 => vm.dvds.push(crate::state::Dvd {
            number: 1,
            location: 0,
            path: None,
        }),
        _ => {
            vm.boot = [Device::Adapter, Device::Disk]
                .into_iter()
                .filter(|d| *d != Device::Disk || vm.disk.is_some())
                .collect()
        }
    }
    context.held.state.vms.insert(id.clone(), vm);
    Ok(vec![object(context, &id)?])
}

fn state_name(power: Power) -> &'static str {
    match power {
        Power::Running => "Running",
        Power::Off => "Off",
        Power::Saved => "Saved",
        Power::Paused => "Paused",
        Power::PausedCritical => "PausedCritical",
    }
}

pub fn object(context: &mut Context<'_>, id: &str) -> Result<Object, Refusal> {
    let power = context.power(id)?;
    let (mut figures, mut heartbeat) = (Figures::default(), "NoContact");
    if power == Power::Running {
        let mut engine = context.engine(id)?;
        figures = engine.figures();
        heartbeat = match engine.heartbeat() {
            Heartbeat::NoContact => "NoContact",
            Heartbeat::OkApplicationsUnknown => "OkApplicationsUnknown",
        };
    }
    let vm = context.vm("Get-VM", id)?;
    let setting = |name: &str| vm.settings.get(name).cloned();
    let running = power == Power::Running;
    let properties = json!({
        "Name": vm.name, "VMName": vm.name, "Id": vm.id, "VMId": vm.id, "ComputerName": "STANDIN",
        "State": state_name(power), "Status": if power == Power::PausedCritical { "Disk(s) running out of space" } else { "Operating normally" },
        "PrimaryStatusDescription": "Operating normally", "SecondaryStatusDescription": Value::Null,
        "PrimaryOperationalStatus": "Ok", "SecondaryOperationalStatus": Value::Null,
        "Uptime": figures.uptime, "CPUUsage": figures.cpu, "MemoryAssigned": if running { vm.memory } else { 0 },
        "MemoryDemand": 0, "MemoryStartup": vm.memory, "MemoryStatus": "", "Heartbeat": running.then_some(heartbeat),
        "IntegrationServicesState": "", "IntegrationServicesVersion": "0.0", "Generation": vm.generation, "Version": "10.0",
        "Path": vm.path.display().to_string(), "ConfigurationLocation": vm.path.display().to_string(), "Notes": vm.notes,
        "ProcessorCount": vm.cpus, "CreationTime": vm.created, "IsDeleted": false, "IsClustered": false,
        "DynamicMemoryEnabled": setting("DynamicMemoryEnabled").as_deref() == Some("True"),
        "AutomaticCheckpointsEnabled": setting("AutomaticCheckpointsEnabled").as_deref() == Some("True"),
        "CheckpointType": setting("CheckpointType"), "AutomaticStartAction": setting("AutomaticStartAction"),
        "AutomaticStopAction": setting("AutomaticStopAction"), "LockOnDisconnect": setting("LockOnDisconnect"),
        "ParentCheckpointId": Value::Null, "ParentSnapshotId": Value::Null, "SizeOfSystemFiles": 4096
    });
    Ok(Object::new(Thing::Vm(id.into()), properties))
}

pub fn get(context: &mut Context<'_>, call: &Bound) -> Outcome {
    let all: Vec<Vm> = context.held.state.vms.values().cloned().collect();
    let ids: Vec<String> = if call.has("Id") {
        let wanted = call.text("Id").to_lowercase();
        let found: Vec<String> = all
            .iter()
            .filter(|v| v.id == wanted)
            .map(|v| v.id.clone())
            .collect();
        if found.is_empty() {
            return Err(Refusal::no_vm("Get-VM", "ID", &wanted));
        }
        found
    } else if call.has("Name") {
        let pattern = call.text("Name");
        let found: Vec<String> = all
            .iter()
            .filter(|v| crate::script::matches(&pattern, &v.name))
            .map(|v| v.id.clone())
            .collect();
        // A name with a wildcard may find nothing, a plain one may not.
        if found.is_empty() && !pattern.contains('*') {
            return Err(Refusal::no_vm("Get-VM", "name", &pattern));
        }
        found
    } else {
        all.iter().map(|v| v.id.clone()).collect()
    };
    ids.iter().map(|id| object(context, id)).collect()
}

pub fn remove(context: &mut Context<'_>, call: &Bound) -> Outcome {
    let ids = context.vms(call, "Name")?;
    if !call.flag("Force") && !call.has("Confirm") {
        // Source: Microsoft: about_PowerShell_exe, -NonInteractive; the cmdlet asks unless -Force is given.
        let text = "Windows PowerShell is in NonInteractive mode. Read and Prompt functionality is not available.";
        return Err(
            Refusal::new("Remove-VM", "InvalidOperation", "InvalidOperation", text)
                .of("System.Management.Automation.PSInvalidOperationException"),
        );
    }
    for id in &ids {
        // A saved machine can be removed, one that holds memory can't.
        if context.power(id)? != Power::Saved {
            context.needs_off(call, id, "Removing the virtual machine")?;
        }
    }
    for id in &ids {
        forget(context, id);
    }
    Ok(Vec::new())
}

/// The machine's configuration goes, its disk stays.
pub fn forget(context: &mut Context<'_>, id: &str) {
    if let Some(vm) = context.held.state.vms.remove(id) {
        let files = vm.path.join("Virtual Machines");
        let _ = std::fs::remove_file(files.join(format!("{}.vmcx", id.to_uppercase())));
        let _ = std::fs::remove_dir(&files);
        let _ = std::fs::remove_dir(&vm.path);
    }
    let _ = std::fs::remove_dir_all(context.held.folder(id));
}

pub fn start(context: &mut Context<'_>, call: &Bound) -> Outcome {
    let ids = context.vms(call, "Name")?;
    for id in &ids {
        match context.power(id)? {
            Power::Running => continue,
            Power::Off => power_on(context, id)?,
            _ => {
                return Err(Refusal::stand_in(
                    "going on with a machine that was saved or paused",
                ));
            }
        }
    }
    context.out(call, &ids)
}

fn power_on(context: &mut Context<'_>, id: &str) -> Result<(), Refusal> {
    let vm = context.vm("Start-VM", id)?.clone();
    let failed = |why: String| {
        let text = format!(
            "'{}' failed to start.\n{why} (Virtual machine ID {})",
            vm.name,
            id.to_uppercase()
        );
        Refusal::new("Start-VM", "OperationFailed", "NotSpecified", text)
    };
    if let Some(path) = drives::all_there(&vm) {
        return Err(failed(format!(
            "Attachment '{}' not found. Error: 'The system cannot find the file specified.' (0x80070002).",
            path.display()
        )));
    }
    let Some(disk) = vm.disk.clone() else {
        return Err(Refusal::stand_in("a machine without a disk"));
    };
    // The chain is opened as it would be for reading the first sector.
    let chain = vhdx::Chain::open(&disk).map_err(|fault| {
        failed(format!(
            "Attachment '{}' failed to open because of error: {fault}",
            disk.display()
        ))
    })?;
    for path in chain.paths().into_iter().take(1) {
        if disks::in_use(context, &path, true)? {
            return Err(failed(format!(
                "Synthetic SCSI Controller: Failed to Power on with Error 'The process cannot access the file because it is being used by another process.' \
                 (0x80070020). Attachment '{}'.",
                path.display()
            )));
        }
    }
    if vm.tpm && !vm.key_protector {
        return Err(failed(
            "The key protector for the virtual machine could not be unwrapped.".into(),
        ));
    }
    let boot = vm.boot.iter().filter_map(|device| match device {
        Device::Disk => Some(Boot::Disk),
        Device::Dvd { number, location } => vm
            .dvds
            .iter()
            .position(|d| (d.number, d.location) == (*number, *location))
            .map(Boot::Dvd),
        Device::Adapter => None,
    });
    let spec = Spec {
        id: id.into(),
        generation: vm.generation,
        memory: vm.memory,
        cpus: vm.cpus,
        disk,
        dvds: vm.dvds.iter().map(|d| d.path.clone()).collect(),
        boot: match vm.generation {
            2 => boot.collect(),
            _ => std::iter::once(Boot::Disk)
                .chain((0..vm.dvds.len()).map(Boot::Dvd))
                .collect(),
        },
        secure_boot: vm.secure_boot,
        com1: vm.com1.clone(),
    };
    let folder = context.held.folder(id);
    std::fs::create_dir_all(&folder).map_err(Refusal::stand_in)?;
    context.engine(id)?.start(&spec).map_err(failed)?;
    context.vm("Start-VM", id)?.started = true;
    Ok(())
}

pub fn stop(context: &mut Context<'_>, call: &Bound) -> Outcome {
    let ids = context.vms(call, "Name")?;
    if !call.flag("TurnOff") {
        return Err(Refusal::stand_in(
            "Stop-VM without -TurnOff: Windows is shut down from inside",
        ));
    }
    for id in &ids {
        if context.vm("Stop-VM", id)?.started {
            context.engine(id)?.turn_off();
        }
        let vm = context.vm("Stop-VM", id)?;
        (vm.started, vm.forced) = (false, None);
    }
    context.out(call, &ids)
}
