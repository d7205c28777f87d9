//! Explains how far Windows got, from the state found on its disk.
//!
//! Pure. States only facts that the disk shows; if a state has several causes, names all of them.
//! Sources: Microsoft, "Windows Setup installation process", "Windows Setup states" (ImageState),
//! "Sysprep overview".

use serde::{Deserialize, Serialize};

use super::logs::{self, WindowsLog};
use winimg_recipe::plan::SEALED;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DiskState {
    /// Number of bytes that are not known to be zero.
    pub written: u64,
    pub table: PartitionTableState,
    pub volumes: Vec<VolumeState>,
    pub registry: SetupRegistry,
    pub sysprep_tag: bool,
    /// The firmware reported that there is nothing to boot.
    pub nothing_boots: bool,
    /// Read errors.
    pub lacks: Vec<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum PartitionTableState {
    #[default]
    None,
    Unreadable,
    /// Descriptions such as `1 EFI system, 100 MiB`.
    Partitions(Vec<String>),
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VolumeState {
    pub partition: u32,
    /// `\Windows`
    pub windows: bool,
    /// `\Windows\Panther`
    pub panther: bool,
    /// `\$WINDOWS.~BT`
    pub setup: bool,
    /// Not cleanly unmounted.
    pub dirty: bool,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SetupRegistry {
    pub image_state: Option<String>,
    /// `HKLM\SYSTEM\Setup`: 0 once Setup is complete, 2 while each start runs its command first.
    pub setup_type: Option<u32>,
    pub command: Option<String>,
    /// `HKLM\SYSTEM\Setup\Status\ChildCompletion`, `setup.exe`: 1 while it runs, 3 when it is done.
    pub child: Option<u32>,
    pub generalization: Option<u32>,
    /// The hives' logs contain newer values.
    pub stale: bool,
}

/// The conclusion, and the facts that it is based on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DiskDiagnosis {
    pub headline: String,
    pub lines: Vec<String>,
}

/// Explains the state. `installing`: the build was still waiting for Windows, or for its first
/// response.
pub fn diagnose(state: &DiskState, logs: &[WindowsLog], installing: bool) -> DiskDiagnosis {
    DiskDiagnosis {
        headline: explain_state(state, installing),
        lines: render_lines(state, logs),
    }
}

fn explain_state(state: &DiskState, installing: bool) -> String {
    if state.written == 0 {
        return if state.nothing_boots {
            "Nothing was written to the disk, and the firmware found nothing to boot: the install \
             medium was not started (its boot prompt was missed, or it is not bootable)"
        } else {
            "Nothing was written to the disk: Windows Setup did not get as far as partitioning it"
        }
        .into();
    }
    match &state.table {
        PartitionTableState::None => {
            return "The disk has no partition table: Setup stopped before it partitioned the disk. \
                    It did not find or accept the answer file, or it found no disk (storage driver)"
                .into();
        }
        PartitionTableState::Unreadable => {
            return "The disk's partition table can't be read: the VM stopped while it was written, \
                    or the image is damaged"
                .into();
        }
        PartitionTableState::Partitions(_) if state.volumes.is_empty() => {
            return "The disk is partitioned, but no volume on it is formatted: Setup stopped in \
                    Windows PE right after it partitioned the disk"
                .into();
        }
        PartitionTableState::Partitions(_) => {}
    }
    if !state.volumes.iter().any(|v| v.windows) {
        return no_windows(state).into();
    }
    explain_windows(state, installing)
}

fn no_windows(state: &DiskState) -> &'static str {
    if state.volumes.iter().any(|v| v.setup) {
        "Setup formatted the disk and copied its own files, but not Windows: no image was selected \
         (edition, image name, product key), or Setup ended early"
    } else {
        "The disk is partitioned and formatted, but has neither Windows nor Setup's logs: Windows \
         PE ended early, or no image was selected (edition, image name, product key)"
    }
}

fn explain_windows(state: &DiskState, installing: bool) -> String {
    let registry = &state.registry;
    let Some(image_state) = registry.image_state.as_deref() else {
        return if state.volumes.iter().any(|v| v.panther) {
            "Windows is on the disk, but its registry has no Setup state: Windows was not started \
             yet, or it was interrupted while it wrote"
        } else {
            "Windows was being copied to the disk when Setup stopped: there is a Windows folder, \
             but Windows never started"
        }
        .into();
    };
    match image_state {
        "IMAGE_STATE_UNDEPLOYABLE" if registry.child == Some(1) => {
            "Windows restarted unexpectedly during Setup (\"The computer restarted \
             unexpectedly\"): this installation cannot continue and has to be built again"
        }
        "IMAGE_STATE_UNDEPLOYABLE" => {
            "Windows stopped during a pass of Setup (specialize, or generalize): the cause is a \
             driver, a command, the computer name or the product key"
        }
        "IMAGE_STATE_SPECIALIZE_RESEAL_TO_OOBE" => {
            "The specialize pass is done, the out-of-box experience is not: one of its pages is \
             waiting for input, or its commands did not finish"
        }
        SEALED => {
            "Sysprep has generalized Windows: the image is sealed, and the failure came later"
        }
        "IMAGE_STATE_SPECIALIZE_RESEAL_TO_AUDIT" | "IMAGE_STATE_GENERALIZE_RESEAL_TO_AUDIT" => {
            "Windows is set to start in audit mode: the answer file's out-of-box pass did not run"
        }
        "IMAGE_STATE_COMPLETE" if installing => {
            "Windows reports that Setup is complete, but it did not respond or its first commands \
             failed: SetupComplete.cmd did not run, or the drivers or the agent that it installs \
             could not be installed"
        }
        "IMAGE_STATE_COMPLETE" if registry.generalization.is_some_and(|g| g != 7) => {
            "Setup is complete, and sysprep was started but did not seal the image"
        }
        "IMAGE_STATE_COMPLETE" => "Windows is installed and reports that Setup is complete",
        other => return format!("Windows reports an unknown Setup state: {other}"),
    }
    .into()
}

fn render_lines(state: &DiskState, found: &[WindowsLog]) -> Vec<String> {
    let mut lines = Vec::new();
    if let PartitionTableState::Partitions(partitions) = &state.table {
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
            "partition {} was not cleanly unmounted: its latest changes may be missing here",
            volume.partition
        ));
    }
    lines.extend(registry_lines(&state.registry));
    if state.sysprep_tag {
        lines.push("Sysprep_succeeded.tag exists: sysprep succeeded".into());
    }
    lines.extend(last_words(found));
    lines.extend(state.lacks.iter().cloned());
    lines
}

fn registry_lines(registry: &SetupRegistry) -> Vec<String> {
    let mut lines = Vec::new();
    if let Some(state) = &registry.image_state {
        lines.push(format!("ImageState is {state}"));
    }
    if let Some(kind) = registry.setup_type.filter(|kind| *kind != 0) {
        let command = registry.command.as_deref().unwrap_or("no command");
        lines.push(format!(
            "Setup continues at the next start: SetupType {kind}, {command}"
        ));
    }
    if let Some(child) = registry.child {
        let meaning = match child {
            1 => "it was running",
            3 => "it had ended",
            _ => "unknown",
        };
        lines.push(format!("setup.exe's ChildCompletion is {child}: {meaning}"));
    }
    if let Some(state) = registry.generalization {
        lines.push(format!("sysprep's GeneralizationState is {state}"));
    }
    if registry.stale {
        lines.push("the registry was not cleanly closed: newer values are in its logs".into());
    }
    lines
}

fn last_words(found: &[WindowsLog]) -> Option<String> {
    let log = logs::find_last_written(found)?;
    let words = format!(
        "last written log: {} ({}), at {} by the guest's clock: {}",
        log.path,
        log.phase,
        log.last_time()?,
        log.last_line()?
    );
    Some(words.chars().take(600).collect())
}
