//! `*-VHD`.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::{Context, Outcome};
use crate::engine::Power;
use crate::object::{Object, Thing};
use crate::refusal::Refusal;
use crate::syntax::Bound;
use crate::vhdx::{self, Fault};

/// The least disk that Hyper-V makes (Microsoft: [MS-VHDX], VirtualDiskSize; New-VHD refuses less than 3 MiB).
const LEAST: u64 = 3 << 20;
const BLOCK: u64 = 32 << 20;

fn refused(call: &Bound, fault: &Fault) -> Refusal {
    let of =
        |id: &str, category: &str, text: String| Refusal::new(&call.cmdlet, id, category, text);
    match fault {
        Fault::Io(text) => of("OperationFailed", "NotSpecified", text.clone()),
        Fault::Broken(text) => of(
            "InvalidData",
            "InvalidData",
            format!("The file or directory is corrupted and unreadable. (0x80070570). {text}"),
        ),
        Fault::NoParent(path) => Refusal::no_file(&call.cmdlet, &path.display().to_string()),
        // The words are a guess after Windows' system error 0xC03A000E.
        Fault::Mismatch(path) => of(
            "InvalidData",
            "InvalidData",
            format!(
                "The chain of virtual hard disks is corrupted. There is a mismatch in the identifiers of the parent virtual hard disk and \
                 differencing disk. (0xC03A000E). '{}'",
                path.display()
            ),
        ),
    }
}

fn existing(call: &Bound, name: &str) -> Result<PathBuf, Refusal> {
    let text = call.text(name);
    let path = PathBuf::from(&text);
    if path.is_file() {
        Ok(path)
    } else {
        Err(Refusal::no_file(&call.cmdlet, &text))
    }
}

/// Whether a running machine or the host has it, itself or below another.
pub fn in_use(context: &mut Context<'_>, path: &Path, host_too: bool) -> Result<bool, Refusal> {
    if host_too && context.held.state.mounts.contains_key(path) {
        return Ok(true);
    }
    let ids: Vec<String> = context.held.state.vms.keys().cloned().collect();
    for id in ids {
        if context.power(&id)? == Power::Off {
            continue;
        }
        let disk = context.held.state.vms.get(&id).and_then(|v| v.disk.clone());
        let Some(disk) = disk else { continue };
        let chain = vhdx::Chain::open(&disk).map(|c| c.paths());
        if chain
            .unwrap_or_else(|_| vec![disk])
            .iter()
            .any(|p| p == path)
        {
            return Ok(true);
        }
    }
    Ok(false)
}

pub fn new(_context: &mut Context<'_>, call: &Bound) -> Outcome {
    let text = call.text("Path");
    let path = PathBuf::from(&text);
    let wrong = |why: String| {
        Refusal::argument(
            "New-VHD",
            format!("Failed to create the virtual hard disk.\n{why}"),
        )
    };
    if path
        .extension()
        .is_none_or(|e| !e.eq_ignore_ascii_case("vhdx"))
    {
        return Err(Refusal::stand_in(format!(
            "New-VHD makes VHDX files here, not {text}"
        )));
    }
    if call.flag("Fixed") {
        return Err(Refusal::stand_in("New-VHD -Fixed"));
    }
    if path.exists() {
        return Err(wrong(format!(
            "The system failed to create '{text}': The file exists. (0x80070050)."
        )));
    }
    if !path.parent().is_some_and(Path::is_dir) {
        return Err(wrong(format!(
            "The system failed to create '{text}': The system cannot find the path specified. (0x80070003)."
        )));
    }
    let block = call.number("BlockSizeBytes").unwrap_or(BLOCK);
    if !block.is_power_of_two() || !(1 << 20..=256 << 20).contains(&block) {
        return Err(wrong(format!("{block} is not a valid block size.")));
    }
    let made = if call.has("ParentPath") {
        let parent = existing(call, "ParentPath")?;
        vhdx::create_over(
            &path,
            &parent,
            call.number("BlockSizeBytes").map(|_| block as u32),
        )
    } else {
        if !call.flag("Dynamic") {
            return Err(Refusal::stand_in(
                "say -Dynamic: what New-VHD makes otherwise depends on the file's name",
            ));
        }
        let size = call.number("SizeBytes").unwrap_or(0);
        if size < LEAST || !size.is_multiple_of(512) {
            return Err(wrong(format!(
                "{size} is not a valid size of a virtual hard disk."
            )));
        }
        vhdx::create(&path, size, block as u32)
    };
    made.map_err(|fault| refused(call, &fault))?;
    Ok(vec![object(call, &path, false)?])
}

fn object(call: &Bound, path: &Path, attached: bool) -> Result<Object, Refusal> {
    let facts = vhdx::facts(path).map_err(|fault| refused(call, &fault))?;
    let length = std::fs::metadata(path).map(|m| m.len()).unwrap_or(0);
    let parent = facts.parent.as_ref();
    let properties = json!({
        "ComputerName": "STANDIN", "Path": path.display().to_string(), "VhdFormat": "VHDX",
        "VhdType": if parent.is_some() { "Differencing" } else { "Dynamic" },
        "FileSize": length, "Size": facts.size, "MinimumSize": Value::Null, "LogicalSectorSize": 512, "PhysicalSectorSize": 4096,
        "BlockSize": facts.block_size, "ParentPath": parent.map_or(String::new(), |(p, _)| p.display().to_string()),
        "DiskIdentifier": facts.disk_id.to_string().to_uppercase(), "FragmentationPercentage": 0, "Alignment": 1,
        "Attached": attached, "DiskNumber": Value::Null, "Number": Value::Null
    });
    Ok(Object::new(Thing::Disk, properties))
}

pub fn set(context: &mut Context<'_>, call: &Bound) -> Outcome {
    let path = existing(call, "Path")?;
    if in_use(context, &path, true)? {
        return Err(Refusal::in_use("Set-VHD", &path.display().to_string()));
    }
    if !call.has("ParentPath") {
        return Err(Refusal::stand_in("Set-VHD sets parents here"));
    }
    let parent = existing(call, "ParentPath")?;
    vhdx::set_parent(&path, &parent, call.flag("IgnoreIdMismatch"))
        .map_err(|fault| refused(call, &fault))?;
    if call.flag("Passthru") {
        Ok(vec![object(call, &path, false)?])
    } else {
        Ok(Vec::new())
    }
}

pub fn test(context: &mut Context<'_>, call: &Bound) -> Outcome {
    let path = existing(call, "Path")?;
    if in_use(context, &path, false)? {
        return Err(Refusal::in_use("Test-VHD", &path.display().to_string()));
    }
    vhdx::Chain::open(&path).map_err(|fault| refused(call, &fault))?;
    Ok(vec![Object::new(Thing::Plain, json!({}))])
}

pub fn mount(context: &mut Context<'_>, call: &Bound) -> Outcome {
    let path = existing(call, "Path")?;
    if in_use(context, &path, true)? {
        return Err(Refusal::in_use("Mount-VHD", &path.display().to_string()));
    }
    vhdx::Chain::open(&path).map_err(|fault| refused(call, &fault))?;
    let done = if call.flag("Passthru") {
        vec![object(call, &path, true)?]
    } else {
        Vec::new()
    };
    context
        .held
        .state
        .mounts
        .insert(path, call.flag("ReadOnly"));
    Ok(done)
}

pub fn dismount(context: &mut Context<'_>, call: &Bound) -> Outcome {
    let path = existing(call, "Path")?;
    match context.held.state.mounts.remove(&path) {
        Some(_) => Ok(Vec::new()),
        None => {
            let text = format!("The disk '{}' is not mounted.", path.display());
            Err(Refusal::new(
                "Dismount-VHD",
                "InvalidState",
                "InvalidOperation",
                text,
            ))
        }
    }
}

/// Without a read-only mount, `Full` would only look for zeros and say nothing: here that is refused, since a caller can't want it.
pub fn optimize(context: &mut Context<'_>, call: &Bound) -> Outcome {
    let path = existing(call, "Path")?;
    let mounted = context.held.state.mounts.get(&path).copied();
    if in_use(context, &path, false)? || mounted == Some(false) {
        return Err(Refusal::in_use("Optimize-VHD", &path.display().to_string()));
    }
    let mode = call.text("Mode");
    if mounted.is_none()
        && ["Full", "Quick", "Retrim", ""]
            .iter()
            .any(|m| mode.eq_ignore_ascii_case(m))
    {
        return Err(Refusal::stand_in(
            "Optimize-VHD does less than it was asked for, since the disk is not mounted read-only",
        ));
    }
    vhdx::compact(&path).map_err(|fault| refused(call, &fault))?;
    Ok(Vec::new())
}
