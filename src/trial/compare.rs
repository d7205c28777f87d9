//! Compares two clones of one image: they have to differ in everything that identifies a machine.
//!
//! Pure. An identifier that neither has is reported, but is not a fault. If it could not be read on
//! one of them, the result is unknown.

use std::collections::BTreeSet;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::state::{CloneState, KnownFact};
use crate::verify::{VerifyFinding, VerifyReport};

/// One identifier of a machine, compared on both clones.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CloneComparison {
    pub what: CloneIdentifier,
    #[serde(flatten)]
    pub outcome: ComparisonOutcome,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum CloneIdentifier {
    HostName,
    MachineSid,
    MachineGuid,
    SshHostKeys,
    Certificates,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "outcome", rename_all = "kebab-case")]
pub enum ComparisonOutcome {
    Differs,
    /// Both have the same.
    Shared {
        /// The values that both have.
        shared: Vec<String>,
    },
    /// Neither has any.
    Absent,
    Unknown {
        /// The reason why it could not be read.
        why: String,
    },
}

impl CloneIdentifier {
    pub fn name(self) -> &'static str {
        match self {
            Self::HostName => "the host name",
            Self::MachineSid => "the machine SID",
            Self::MachineGuid => "the MachineGuid",
            Self::SshHostKeys => "the SSH host keys",
            Self::Certificates => "the machine's certificates",
        }
    }

    /// Returns the values of the identifier on a clone.
    fn values(self, clone: &CloneState) -> KnownFact<Vec<String>> {
        match self {
            Self::HostName => map_known(&clone.host_name, |name| vec![name.next.to_lowercase()]),
            Self::MachineSid => map_known(&clone.machine_sid, |sid| vec![sid.clone()]),
            Self::MachineGuid => map_known(&clone.machine_guid, |guid| {
                guid.iter().map(|g| g.to_lowercase()).collect()
            }),
            Self::SshHostKeys => map_known(&clone.sshd, |sshd| {
                sshd.iter().flat_map(|s| s.host_keys.clone()).collect()
            }),
            Self::Certificates => clone.certificates.clone(),
        }
    }

    fn cure(self) -> &'static str {
        match self {
            Self::HostName => {
                "check what names the clone: `ComputerName` in the answer file, and the agent's log"
            }
            Self::MachineSid => "check that the image was generalized, and see sysprep's logs",
            Self::MachineGuid => {
                "find what writes HKLM\\SOFTWARE\\Microsoft\\Cryptography, MachineGuid"
            }
            Self::SshHostKeys => {
                "remove C:\\ProgramData\\ssh\\ssh_host_* before the image is sealed; sshd creates \
                 new keys when it starts"
            }
            Self::Certificates => {
                "create machine certificates on the clone, and remove those of the build before \
                 the image is sealed"
            }
        }
    }
}

/// Compares all identifiers of two clones.
pub fn compare_clones(a: &CloneState, b: &CloneState) -> Vec<CloneComparison> {
    [
        CloneIdentifier::HostName,
        CloneIdentifier::MachineSid,
        CloneIdentifier::MachineGuid,
        CloneIdentifier::SshHostKeys,
        CloneIdentifier::Certificates,
    ]
    .into_iter()
    .map(|what| CloneComparison {
        what,
        outcome: compare_values(what.values(a), what.values(b)),
    })
    .collect()
}

fn map_known<T>(
    known: &KnownFact<T>,
    values: impl FnOnce(&T) -> Vec<String>,
) -> KnownFact<Vec<String>> {
    match known {
        KnownFact::Is(value) => KnownFact::Is(values(value)),
        KnownFact::Unknown { unknown } => KnownFact::from_reason(unknown),
    }
}

fn compare_values(a: KnownFact<Vec<String>>, b: KnownFact<Vec<String>>) -> ComparisonOutcome {
    let (a, b) = match (a, b) {
        (KnownFact::Is(a), KnownFact::Is(b)) => (a, b),
        (KnownFact::Unknown { unknown }, _) | (_, KnownFact::Unknown { unknown }) => {
            return ComparisonOutcome::Unknown { why: unknown };
        }
    };
    if a.is_empty() && b.is_empty() {
        return ComparisonOutcome::Absent;
    }
    let a: BTreeSet<String> = a.into_iter().collect();
    let shared: Vec<String> = b.into_iter().filter(|value| a.contains(value)).collect();
    if shared.is_empty() {
        ComparisonOutcome::Differs
    } else {
        ComparisonOutcome::Shared { shared }
    }
}

/// Reports the comparison. Shared identifiers are errors, but only warnings for an image that was
/// never generalized: either its target wants that, or another finding reports it.
pub fn report(compared: &[CloneComparison], generalized: bool) -> VerifyReport {
    let mut report = VerifyReport::default();
    for comparison in compared {
        let name = comparison.what.name();
        report.add(
            match &comparison.outcome {
                ComparisonOutcome::Differs | ComparisonOutcome::Absent => Ok(()),
                ComparisonOutcome::Shared { shared: values } => {
                    let fact = format!("both clones have the same: {name}");
                    let finding = if generalized {
                        VerifyFinding::error(fact)
                    } else {
                        VerifyFinding::warning(fact)
                    };
                    Err(finding
                        .expected("a different one on each clone")
                        .found(values.join(", "))
                        .cure(comparison.what.cure()))
                }
                ComparisonOutcome::Unknown { why } => Err(VerifyFinding::unknown(format!(
                    "whether the clones differ in {name}"
                ))
                .found(why)),
            },
            None,
        );
    }
    report
}
