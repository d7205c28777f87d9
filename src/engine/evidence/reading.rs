//! What a disk says of how far Windows got: from the state that was found on it to a sentence.
//!
//! Pure. Refuses to say more than the state shows; where several things lead to one state, all of them are named.
//! Sources: Microsoft, "Windows Setup installation process", "Windows Setup states" (ImageState), "Sysprep overview".

use serde::{Deserialize, Serialize};

use super::logs::{self, Log};
use winimg_recipe::plan::SEALED;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DiskState {
    /// Bytes that may hold something.
    pub written: u64,
    pub table: Table,
    pub volumes: Vec<Volume>,
    pub registry: Registry,
    pub sysprep_tag: bool,
    /// The firmware said that there is nothing to boot.
    pub nothing_boots: bool,
    /// What could not be read, and why.
    pub lacks: Vec<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Table {
    #[default]
    None,
    Unreadable,
    /// In words: `1 EFI system, 100 MiB`.
    Partitions(Vec<String>),
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Volume {
    pub partition: u32,
    /// `\Windows`
    pub windows: bool,
    /// `\Windows\Panther`
    pub panther: bool,
    /// `\$WINDOWS.~BT`
    pub setup: bool,
    /// Not closed in order.
    pub dirty: bool,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Registry {
    pub image_state: Option<String>,
    /// `HKLM\SYSTEM\Setup`: 0 when Setup is over, 2 while its command comes first at each start.
    pub setup_type: Option<u32>,
    pub command: Option<String>,
    /// `HKLM\SYSTEM\Setup\Status\ChildCompletion`, `setup.exe`: 1 while it runs, 3 when it is done.
    pub child: Option<u32>,
    pub generalization: Option<u32>,
    /// Newer values stand in the hives' logs.
    pub stale: bool,
}

/// The sentence that matters, and what it rests on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reading {
    pub headline: String,
    pub lines: Vec<String>,
}

/// `installing`: the build was still waiting for Windows, or for its first answer, to come.
pub fn reading(state: &DiskState, logs: &[Log], installing: bool) -> Reading {
    Reading {
        headline: headline(state, installing),
        lines: lines(state, logs),
    }
}

fn headline(state: &DiskState, installing: bool) -> String {
    if state.written == 0 {
        return match state.nothing_boots {
            true => "Nothing was ever written to the disk, and the firmware found nothing to boot: the install medium was \
                     not started (its prompt for a key was missed, or it is no boot medium)",
            false => "Nothing was ever written to the disk: Windows Setup did not get as far as dividing it",
        }
        .into();
    }
    match &state.table {
        Table::None => {
            return "The disk has no partition table: Setup stopped before it divided the disk. It did not find or did not \
                    take the answer file, or it saw no disk (storage driver)"
                .into();
        }
        Table::Unreadable => {
            return "The disk's partition table can't be read: the machine ended while it was written, or the image is \
                    damaged"
                .into();
        }
        Table::Partitions(_) if state.volumes.is_empty() => {
            return "The disk is divided, but no volume on it is formatted: Setup stopped in Windows PE right after it \
                    divided the disk"
                .into();
        }
        Table::Partitions(_) => {}
    }
    if !state.volumes.iter().any(|v| v.windows) {
        return no_windows(state).into();
    }
    windows(state, installing)
}

fn no_windows(state: &DiskState) -> &'static str {
    match state.volumes.iter().any(|v| v.setup) {
        true => {
            "Setup formatted the disk and copied its own files, but no Windows is there: no image was chosen (edition, \
             image name, product key), or Setup ended early"
        }
        false => {
            "The disk is divided and formatted, but neither Windows nor Setup's logs are there: Windows PE ended early, or \
             no image was chosen (edition, image name, product key)"
        }
    }
}

fn windows(state: &DiskState, installing: bool) -> String {
    let registry = &state.registry;
    let Some(image_state) = registry.image_state.as_deref() else {
        return match state.volumes.iter().any(|v| v.panther) {
            true => "Windows is on the disk, but its registry holds no state of Setup: it was not started yet, or it was \
                     cut off while it wrote",
            false => "Windows was being copied to the disk when Setup stopped: there is a Windows folder, but it never \
                      started",
        }
        .into();
    };
    match image_state {
        "IMAGE_STATE_UNDEPLOYABLE" if registry.child == Some(1) => {
            "Windows restarted in the middle of Setup, without being asked to (\"The computer restarted unexpectedly\"): \
             this installation can't be continued, it has to be built again"
        }
        "IMAGE_STATE_UNDEPLOYABLE" => {
            "Windows stopped in the middle of a pass of Setup (specialize, or generalize): a driver, a command, the \
             computer's name or the product key is what stops it there"
        }
        "IMAGE_STATE_SPECIALIZE_RESEAL_TO_OOBE" => {
            "The specialize pass is done, the out-of-box experience is not: a page of it waits for somebody, or its \
             commands did not end"
        }
        SEALED => {
            "Sysprep has generalized Windows: the image is sealed, what failed came after it"
        }
        "IMAGE_STATE_SPECIALIZE_RESEAL_TO_AUDIT" | "IMAGE_STATE_GENERALIZE_RESEAL_TO_AUDIT" => {
            "Windows is to start in audit mode: nothing of the answer file's out-of-box pass was done"
        }
        "IMAGE_STATE_COMPLETE" if installing => {
            "Windows says that Setup is complete, but it did not answer or its first commands failed: \
             SetupComplete.cmd did not run, or what it installs (drivers, an agent) could not be installed"
        }
        "IMAGE_STATE_COMPLETE" if registry.generalization.is_some_and(|g| g != 7) => {
            "Setup is complete, and sysprep was begun but did not seal the image"
        }
        "IMAGE_STATE_COMPLETE" => "Windows is installed and says that Setup is complete",
        other => return format!("Windows reports an unknown state of Setup: {other}"),
    }
    .into()
}

fn lines(state: &DiskState, found: &[Log]) -> Vec<String> {
    let mut lines = Vec::new();
    if let Table::Partitions(partitions) = &state.table {
        lines.push(format!("partitions: {}", partitions.join("; ")));
    }
    if state.written > 0 {
        let gib = state.written as f64 / f64::from(1 << 30);
        lines.push(match state.written >> 20 {
            0 => "less than 1 MiB was written".into(),
            mib @ 1..1024 => format!("{mib} MiB were written"),
            _ => format!("{gib:.1} GiB were written"),
        });
    }
    for volume in state.volumes.iter().filter(|v| v.dirty) {
        lines.push(format!(
            "partition {} was not closed in order: its newest changes may be missing here",
            volume.partition
        ));
    }
    lines.extend(registry_lines(&state.registry));
    if state.sysprep_tag {
        lines.push("Sysprep_succeeded.tag is there: sysprep ended well".into());
    }
    lines.extend(last_words(found));
    lines.extend(state.lacks.iter().cloned());
    lines
}

fn registry_lines(registry: &Registry) -> Vec<String> {
    let mut lines = Vec::new();
    if let Some(state) = &registry.image_state {
        lines.push(format!("ImageState is {state}"));
    }
    if let Some(kind) = registry.setup_type.filter(|kind| *kind != 0) {
        let command = registry.command.as_deref().unwrap_or("no command");
        lines.push(format!(
            "Setup is to go on at the next start: SetupType {kind}, {command}"
        ));
    }
    if let Some(child) = registry.child {
        let meaning = match child {
            1 => "it was running",
            3 => "it had ended",
            _ => "not known",
        };
        lines.push(format!("setup.exe's ChildCompletion is {child}: {meaning}"));
    }
    if let Some(state) = registry.generalization {
        lines.push(format!("sysprep's GeneralizationState is {state}"));
    }
    if registry.stale {
        lines.push("the registry was not closed in order: newer values are in its logs".into());
    }
    lines
}

fn last_words(found: &[Log]) -> Option<String> {
    let log = logs::last(found)?;
    let words = format!(
        "the log that was written last is {} ({}), at {} by the guest's clock: {}",
        log.path,
        log.phase,
        log.last_time()?,
        log.last_line()?
    );
    Some(words.chars().take(600).collect())
}
