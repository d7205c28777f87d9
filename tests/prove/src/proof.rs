//! `proof/BUILD.json`: what a run did, what was seen, and what follows from it for the ledger.
//!
//! Values alone; `seen` reads them from winimg's records, `judge` draws the verdicts.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

pub const SCHEMA: &str = "winimg/proof/1";

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Proof {
    /// `winimg/proof/1`
    pub schema: String,
    /// What `winimg --version` says.
    pub winimg: String,
    /// SHA-256 of the program winimg, lower-case hex; two builds of one version differ in it.
    pub winimg_sha256: String,
    /// The commit of the source tree that `prove` was built from, `-dirty` behind it where files of it were changed; null: no git says.
    pub commit: Option<String>,
    /// RFC 3339, UTC.
    pub started: String,
    /// RFC 3339, UTC.
    pub ended: String,
    pub medium: Medium,
    /// A control plane was given for clones of node images to join.
    #[serde(default)]
    pub has_control_plane: bool,
    /// What `winimg doctor` found on the host, a line each, with its cure where something is lacking.
    pub host: Vec<String>,
    pub rows: Vec<Row>,
    /// Of each claim that has a probe, in the ledger's order.
    pub verdicts: Vec<Verdict>,
}

impl Proof {
    /// Build and revision of the Windows on the medium: `20348.587`.
    pub fn build(&self) -> &str {
        &self.medium.build
    }

    /// Whether the run counts as one on Windows.
    pub fn is_windows(&self) -> bool {
        self.medium.known.is_some()
    }
}

/// The ISO that Windows was installed from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Medium {
    pub file: String,
    /// Bytes.
    pub size: u64,
    /// Lower-case hex.
    pub sha256: String,
    /// Build and revision, as the WIM says: `20348.587`.
    pub build: String,
    /// Names of the WIM's images.
    pub images: Vec<String>,
    /// What the ledger knows it as; null: nothing shows that it is Microsoft's, and the run proves nothing of Windows.
    pub known: Option<String>,
}

/// One build and what became of its image.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Row {
    pub name: String,
    pub machine: Machine,
    /// Of the Windows that is installed: `20348.587`.
    pub windows: String,
    /// The shipped recipe that it is, or null: one of the rows' own.
    pub shipped: Option<String>,
    /// What was done, in its order.
    pub stages: Vec<Stage>,
    /// Stages that were not begun: after an interrupt, and behind one that failed.
    pub missing: Vec<String>,
    pub seen: Seen,
    /// Of the finished image; where the build refused it, of what the build's own check found.
    pub verified: Option<Verified>,
    pub trials: Vec<Trial>,
    /// Of each target as which clones were to join a cluster; none where no control plane was given.
    #[serde(default)]
    pub joins: Vec<Joined>,
}

impl Row {
    /// Every stage was begun and ended well.
    pub fn is_good(&self) -> bool {
        let is_whole = self.missing.is_empty() && !self.stages.is_empty();
        is_whole && self.stages.iter().all(Stage::is_good)
    }
}

/// What the image was built on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Machine {
    /// `qemu` or `hyperv`
    pub hypervisor: String,
    /// `uefi` or `bios`
    pub firmware: String,
    /// `virtio`, `nvme` or `ahci`; of Hyper-V its own.
    pub disk_bus: String,
    /// With Secure Boot and a TPM.
    pub trusted: bool,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Stage {
    /// `pin`, `build`, `verify`, `try openstack`, `join openstack`
    pub what: String,
    /// winimg's exit status, and 1 where it ended well and the cluster has no node of it; null: it was killed.
    pub status: Option<i32>,
    pub seconds: f64,
    /// Its last word where it failed.
    pub said: Option<String>,
}

impl Stage {
    pub fn is_good(&self) -> bool {
        self.status == Some(0)
    }
}

/// What the build's events say.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Seen {
    /// `kvm`, `tcg` …
    pub accelerator: Option<String>,
    /// Phases that ended well, with their seconds.
    pub phases: BTreeMap<String, f64>,
    /// How many layers were sealed, each by a power-off and a new start from an overlay.
    pub layers_sealed: usize,
    /// The build went on from a layer that an earlier one had sealed after the installation.
    pub resumed: bool,
    /// Whether the step that generalizes ended well, which is after sysprep and the power-off; null: none was begun.
    pub generalized: Option<bool>,
    /// `disk-usage.json` was written.
    pub disk_usage: bool,
    /// What each probe in the guest printed, by the probe's name.
    pub answers: BTreeMap<String, String>,
}

impl Seen {
    pub fn is_installed(&self) -> bool {
        self.resumed || self.phases.contains_key("install")
    }
}

/// What `winimg verify` says of a disk.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Verified {
    pub checks: u64,
    pub hold: u64,
    /// Errors and warnings, a sentence each.
    pub findings: Vec<String>,
}

/// `try/TARGET.json`
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Trial {
    pub target: String,
    pub is_good: bool,
    /// What the clones' disks were attached to.
    pub controller: String,
    /// The form in which they got their metadata.
    pub metadata: String,
    /// Every clone says that it has a TPM and that Secure Boot is on.
    pub trusted: bool,
    /// Whether the two have SSH host keys of their own; null: there are none, or nobody knows.
    pub host_keys_differ: Option<bool>,
    /// In what the clones were not the target's machines.
    pub remarks: Vec<String>,
    /// Errors and warnings, a sentence each.
    pub findings: Vec<String>,
}

/// What the API server said of the clones that were to join.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Joined {
    pub target: String,
    /// By the clone's host name; null: the cluster has had no such node.
    pub nodes: BTreeMap<String, Option<Node>>,
}

/// A node, as the API server has it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Node {
    pub name: String,
    /// `windows`
    pub system: String,
    /// `Windows Server 2022 Standard`
    pub image: String,
    /// `v1.36.1`
    pub kubelet: String,
    /// `Ready` and others with `True`, `False` or `Unknown`, the last time that its kubelet said something.
    pub conditions: BTreeMap<String, String>,
}

impl Node {
    pub fn is_windows(&self) -> bool {
        self.system == "windows"
    }
}

/// What follows for one claim.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Verdict {
    pub claim: String,
    pub probe: String,
    pub outcome: Outcome,
    /// The rows in which it held.
    pub held: Vec<String>,
    /// Of each row in which it did not: its name and what was seen.
    pub failed: Vec<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Outcome {
    /// It held in some row, and failed in none.
    Held,
    Failed,
    /// No row could say.
    Open,
}
