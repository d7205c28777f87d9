//! From what rows saw to a verdict on each claim that has a probe. Pure.
//!
//! A probe holds, fails or is silent in one row. Silence is never good: a claim of which no row could say anything stays open.

mod guest;

use crate::ledger::Ledger;
use crate::proof::{Outcome, Row, Stage, Trial, Verdict};

/// What one row says.
#[derive(Debug, PartialEq, Eq)]
pub enum Said {
    Holds,
    /// With what was seen instead.
    Fails(String),
    /// The row is not about it, or did not come so far.
    Silent,
}

/// A question to each row.
pub struct Probe {
    pub id: &'static str,
    /// What has to be seen for it to hold.
    pub shows: &'static str,
    judge: fn(&Row) -> Said,
}

/// All of them. The ledger's claims name them by their ids.
pub const PROBES: &[Probe] = &[
    probe(
        "installed",
        "Setup took the answer file, and the guest agent answered",
        installed,
    ),
    probe(
        "installed-agent",
        "the same on QEMU, where the bootstrap installs drivers and the agent",
        |row| of(is_on_qemu(row), row, installed),
    ),
    probe("installed-virtio", "the same on a virtio disk", |row| {
        of(
            row.machine.disk_bus == "virtio" && is_on_qemu(row),
            row,
            installed,
        )
    }),
    probe(
        "installed-trusted",
        "the same with Secure Boot and a TPM",
        |row| of(row.machine.trusted && is_on_qemu(row), row, installed),
    ),
    probe(
        "sealed",
        "Windows came to rest, sysprep sealed it, and it powered off",
        sealed,
    ),
    probe(
        "verified",
        "winimg verify finds nothing wrong with the sealed disk",
        verified,
    ),
    probe(
        "disk-usage",
        "the build could say what each folder takes",
        |row| match () {
            () if !is_whole(row) => Said::Silent,
            () if row.seen.disk_usage => Said::Holds,
            () => Said::Fails("no disk-usage.json was written".into()),
        },
    ),
    probe(
        "layered",
        "a layer was sealed, and the build went on over it to its end",
        |row| {
            let is_layered = row.seen.layers_sealed > 0 || row.seen.resumed;
            holds(is_layered && is_on_qemu(row) && is_whole(row))
        },
    ),
    probe("accelerated", "the build ran on KVM", |row| {
        holds(row.seen.accelerator.as_deref() == Some("kvm") && is_whole(row))
    }),
    probe(
        "tried",
        "two clones came up, settled and were turned off by the power button",
        |row| tried(row, |_| true),
    ),
    probe(
        "tried-elsewhere",
        "the same from another disk controller than the build's",
        |row| {
            tried(row, |trial| {
                !is_of_bus(&trial.controller, &row.machine.disk_bus)
            })
        },
    ),
    probe("tried-ovf", "the same with an OVF environment", |row| {
        tried(row, |trial| trial.metadata == "ovf-environment")
    }),
    probe(
        "tried-config-drive",
        "the same with a config drive",
        |row| tried(row, |trial| trial.metadata == "config-drive"),
    ),
    probe("tried-nocloud", "the same with NoCloud", |row| {
        tried(row, |trial| trial.metadata.starts_with("nocloud"))
    }),
    probe(
        "tried-services",
        "the same with a metadata service",
        |row| {
            let services = ["openstack", "ec2", "ec2-tokens-optional"];
            tried(row, |trial| services.contains(&trial.metadata.as_str()))
        },
    ),
    probe(
        "tried-azure",
        "the same with the imitation of Azure's disc, and its custom data",
        |row| tried(row, |trial| trial.metadata == "azure"),
    ),
    probe(
        "joined",
        "the API server had both clones as nodes of Windows, under their own names; whether they were ready is shown and not asked",
        joined,
    ),
    probe(
        "tried-trusted",
        "the clones have a TPM and Secure Boot, and Windows says so",
        trusted,
    ),
    probe(
        "tried-host-keys",
        "the two clones have SSH host keys of their own",
        host_keys,
    ),
    probe(
        "revision",
        "`ver` and the registry name the same build and revision",
        guest::revision,
    ),
    probe(
        "setup-state",
        "Setup says that it has ended when the steps run",
        guest::setup_state,
    ),
    probe(
        "boot-drivers",
        "drivers that the build did not need are held back, and none is on the sealed disk",
        guest::boot_drivers,
    ),
    probe(
        "firewall",
        "netsh.exe ends with 0 and 1 as it is said to",
        guest::firewall,
    ),
    probe(
        "accounts",
        "net.exe prints 2221, 1376 or 2220, and 1378",
        guest::accounts,
    ),
    probe(
        "password",
        "the account's random password never expires",
        guest::password,
    ),
    probe(
        "acl",
        "a new file in the folder inherits its entries",
        guest::acl,
    ),
    probe(
        "task",
        "the task is there after a restart, and has fired",
        guest::task,
    ),
    probe(
        "defender",
        "Defender lists the folder that the policy excludes",
        guest::defender,
    ),
    probe(
        "powershell",
        "a step's script runs, and errors would stop it",
        guest::powershell,
    ),
    probe(
        "features",
        "dism.exe enables and disables two features at once",
        guest::features,
    ),
    probe(
        "hypervisor",
        "a Windows with Hyper-V's role came up after the restart, and its hypervisor is off",
        guest::hypervisor,
    ),
    probe(
        "trust",
        "Windows says that it has a TPM, which is swtpm's",
        |row| of(is_on_qemu(row), row, guest::trust),
    ),
    probe(
        "hyperv",
        "a build on Hyper-V came to its end, and verify finds nothing wrong",
        on_hyperv,
    ),
    probe(
        "hyperv-bios",
        "the same of a machine of generation 1",
        |row| of(row.machine.firmware == "bios", row, on_hyperv),
    ),
    probe("hyperv-trusted", "the same with a TPM", |row| {
        of(row.machine.trusted, row, on_hyperv)
    }),
];

const fn probe(id: &'static str, shows: &'static str, judge: fn(&Row) -> Said) -> Probe {
    Probe { id, shows, judge }
}

fn of(is_about: bool, row: &Row, judge: fn(&Row) -> Said) -> Said {
    if is_about { judge(row) } else { Said::Silent }
}

/// What can only hold, or not have been asked.
fn holds(is_so: bool) -> Said {
    if is_so { Said::Holds } else { Said::Silent }
}

fn is_on_qemu(row: &Row) -> bool {
    row.machine.hypervisor == "qemu"
}

/// winimg's exit statuses of a build that failed in Windows (docs/exit-status.md).
const SETUP: i32 = 6;
const STEP: i32 = 7;
/// Of one whose machine failed, and of one whose disk is not what it should be.
const MACHINE: i32 = 8;
const VERIFY: i32 = 10;

fn build(row: &Row) -> Option<&Stage> {
    row.stages.iter().find(|stage| stage.what == "build")
}

/// The build ended well.
fn is_whole(row: &Row) -> bool {
    build(row).is_some_and(Stage::is_good)
}

/// The last word of a build that failed with one of these statuses. Any other failure is the host's or the recipe's: a full disk, a QEMU that
/// crashed, a kill.
fn broken(row: &Row, by: &[i32]) -> Option<String> {
    let build = build(row)?;
    build.status.filter(|status| by.contains(status))?;
    let said = build.said.clone();
    Some(said.unwrap_or_else(|| "it failed without a word".into()))
}

fn fails(what: Option<String>) -> Said {
    what.map_or(Said::Silent, Said::Fails)
}

fn installed(row: &Row) -> Said {
    match () {
        () if row.seen.is_installed() => Said::Holds,
        // Before that nothing was started.
        () if row.seen.accelerator.is_some() => fails(broken(row, &[SETUP, STEP])),
        () => Said::Silent,
    }
}

/// By the step that generalizes: the phase `seal` is the power-off of any build, and sysprep runs before it.
fn sealed(row: &Row) -> Said {
    match row.seen.generalized {
        Some(true) => Said::Holds,
        Some(false) => fails(broken(row, &[SETUP, STEP])),
        None => Said::Silent,
    }
}

/// An image that is not sealed says nothing of sealed ones.
fn verified(row: &Row) -> Said {
    match &row.verified {
        Some(verified) if row.seen.generalized == Some(true) => {
            if verified.findings.is_empty() {
                Said::Holds
            } else {
                Said::Fails(verified.findings.join("\n"))
            }
        }
        _ => Said::Silent,
    }
}

/// There the machine's failure counts as well: it is Hyper-V that is asked.
fn on_hyperv(row: &Row) -> Said {
    if is_on_qemu(row) {
        return Said::Silent;
    }
    match verified(row) {
        Said::Silent => fails(broken(row, &[SETUP, STEP, MACHINE, VERIFY])),
        said => said,
    }
}

/// Whether QEMU's controller is that of a build's disk.
fn is_of_bus(controller: &str, bus: &str) -> bool {
    match bus {
        "virtio" => controller == "virtio-blk",
        bus => controller == bus,
    }
}

/// Trials that the probe is about: one that came up is enough, one that did not is too much.
fn tried(row: &Row, is_about: impl Fn(&Trial) -> bool) -> Said {
    let trials: Vec<&Trial> = row.trials.iter().filter(|trial| is_about(trial)).collect();
    let bad = trials.iter().filter(|trial| !trial.is_good);
    let bad: Vec<String> = bad
        .map(|trial| format!("as {}: {}", trial.target, trial.findings.join("\n")))
        .collect();
    match (trials.is_empty(), bad.is_empty()) {
        (true, _) => Said::Silent,
        (_, true) => Said::Holds,
        (_, false) => Said::Fails(bad.join("\n")),
    }
}

fn trusted(row: &Row) -> Said {
    if !row.machine.trusted {
        return Said::Silent;
    }
    match tried(row, |_| true) {
        Said::Holds if row.trials.iter().all(|trial| trial.trusted) => Said::Holds,
        Said::Holds => Said::Fails("a clone names no TPM, or no Secure Boot".into()),
        other => other,
    }
}

/// Every clone that was to join. Without a control plane nothing was asked.
fn joined(row: &Row) -> Said {
    let clones = row.joins.iter().flat_map(|join| {
        let target = &join.target;
        join.nodes
            .iter()
            .map(move |(name, node)| (target, name, node))
    });
    let wrong = clones.filter_map(|(target, name, node)| match node {
        Some(node) if node.is_windows() => None,
        Some(node) => Some(format!("as {target}: {name} is a node of {}", node.system)),
        None => Some(format!("as {target}: the cluster had no node {name}")),
    });
    let wrong: Vec<String> = wrong.collect();
    if row.joins.is_empty() {
        Said::Silent
    } else if wrong.is_empty() {
        Said::Holds
    } else {
        Said::Fails(wrong.join("\n"))
    }
}

fn host_keys(row: &Row) -> Said {
    let known: Vec<bool> = row
        .trials
        .iter()
        .filter_map(|trial| trial.host_keys_differ)
        .collect();
    if known.is_empty() {
        Said::Silent
    } else if known.iter().all(|differ| *differ) {
        Said::Holds
    } else {
        Said::Fails("both clones have the same".into())
    }
}

/// A verdict on each claim with a probe, in the ledger's order.
///
/// # Panics
/// A claim names no probe of `PROBES`, which the ledger's tests exclude.
pub fn verdicts(ledger: &Ledger, rows: &[Row]) -> Vec<Verdict> {
    let mut found = Vec::new();
    for claim in &ledger.claims {
        let Some(name) = &claim.probe else { continue };
        let probe = PROBES
            .iter()
            .find(|probe| probe.id == name)
            .expect("a probe of the ledger");
        let mut verdict = Verdict {
            claim: claim.id.clone(),
            probe: name.clone(),
            outcome: Outcome::Open,
            held: Vec::new(),
            failed: Vec::new(),
        };
        for row in rows {
            match (probe.judge)(row) {
                Said::Holds => verdict.held.push(row.name.clone()),
                Said::Fails(what) => verdict.failed.push(format!("{}: {what}", row.name)),
                Said::Silent => {}
            }
        }
        verdict.outcome = match (verdict.held.is_empty(), verdict.failed.is_empty()) {
            (_, false) => Outcome::Failed,
            (false, true) => Outcome::Held,
            (true, true) => Outcome::Open,
        };
        found.push(verdict);
    }
    found
}
