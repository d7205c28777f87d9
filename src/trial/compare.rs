//! Whether two clones of one image are two machines.
//!
//! Pure. What both lack is no fault, and is said; what is not known of one of them is unknown.

use std::collections::BTreeSet;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::state::{CloneState, Known};
use crate::verify::{Finding, Report};

/// One thing that makes a machine itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Compared {
    pub what: Identifier,
    #[serde(flatten)]
    pub outcome: Outcome,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Identifier {
    HostName,
    MachineSid,
    MachineGuid,
    SshHostKeys,
    Certificates,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "outcome", rename_all = "kebab-case")]
pub enum Outcome {
    Differs,
    /// Both have it.
    Shared {
        /// What both have.
        shared: Vec<String>,
    },
    /// Neither has it.
    Absent,
    Unknown {
        /// Why it could not be read.
        why: String,
    },
}

impl Identifier {
    pub fn words(self) -> &'static str {
        match self {
            Self::HostName => "the host name",
            Self::MachineSid => "the machine SID",
            Self::MachineGuid => "the MachineGuid",
            Self::SshHostKeys => "the SSH host keys",
            Self::Certificates => "the machine's certificates",
        }
    }

    fn cure(self) -> &'static str {
        match self {
            Self::HostName => {
                "see what names the clone: `ComputerName` of the answer file, and the agent's log"
            }
            Self::MachineSid => "see whether the image was generalized, and sysprep's logs",
            Self::MachineGuid => {
                "see what writes HKLM\\SOFTWARE\\Microsoft\\Cryptography, MachineGuid"
            }
            Self::SshHostKeys => {
                "remove C:\\ProgramData\\ssh\\ssh_host_* before the image is sealed; sshd makes new ones when it starts"
            }
            Self::Certificates => {
                "make certificates of the machine on the clone, and remove those of the build before the image is sealed"
            }
        }
    }
}

/// What must be another on each clone, in the order of `Identifier`.
pub fn clones(a: &CloneState, b: &CloneState) -> Vec<Compared> {
    use Identifier::{Certificates, HostName, MachineGuid, MachineSid, SshHostKeys};
    let of = |what: Identifier, values: fn(&CloneState) -> Known<Vec<String>>| Compared {
        what,
        outcome: outcome(values(a), values(b)),
    };
    vec![
        of(HostName, |c| {
            map(&c.host_name, |name| vec![name.next.to_lowercase()])
        }),
        of(MachineSid, |c| map(&c.machine_sid, |sid| vec![sid.clone()])),
        of(MachineGuid, |c| {
            map(&c.machine_guid, |guid| {
                guid.iter().map(|g| g.to_lowercase()).collect()
            })
        }),
        of(SshHostKeys, |c| {
            map(&c.sshd, |sshd| {
                sshd.iter().flat_map(|s| s.host_keys.clone()).collect()
            })
        }),
        of(Certificates, |c| c.certificates.clone()),
    ]
}

fn map<T>(known: &Known<T>, values: impl FnOnce(&T) -> Vec<String>) -> Known<Vec<String>> {
    match known {
        Known::Is(value) => Known::Is(values(value)),
        Known::Unknown { unknown } => Known::unknown(unknown),
    }
}

fn outcome(a: Known<Vec<String>>, b: Known<Vec<String>>) -> Outcome {
    let (a, b) = match (a, b) {
        (Known::Is(a), Known::Is(b)) => (a, b),
        (Known::Unknown { unknown }, _) | (_, Known::Unknown { unknown }) => {
            return Outcome::Unknown { why: unknown };
        }
    };
    if a.is_empty() && b.is_empty() {
        return Outcome::Absent;
    }
    let a: BTreeSet<String> = a.into_iter().collect();
    let shared: Vec<String> = b.into_iter().filter(|value| a.contains(value)).collect();
    match shared.is_empty() {
        true => Outcome::Differs,
        false => Outcome::Shared { shared },
    }
}

/// What is shared is an error, unless the image was never generalized: then it is as its target wants it, or another finding says so.
pub fn report(compared: &[Compared], generalized: bool) -> Report {
    let shared = |fact: String| match generalized {
        true => Finding::error(fact),
        false => Finding::warning(fact),
    };
    let mut report = Report::default();
    for one in compared {
        let words = one.what.words();
        report.add(
            match &one.outcome {
                Outcome::Differs | Outcome::Absent => Ok(()),
                Outcome::Shared { shared: values } => {
                    Err(shared(format!("both clones have the same: {words}"))
                        .expected("another on each clone")
                        .found(values.join(", "))
                        .cure(one.what.cure()))
                }
                Outcome::Unknown { why } => Err(Finding::unknown(format!(
                    "whether the clones differ in this: {words}"
                ))
                .found(why)),
            },
            None,
        );
    }
    report
}
