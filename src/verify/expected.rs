//! What has to hold in the finished image, in a form that needs neither the recipe nor its inputs: the manifest keeps it.
//!
//! Holds digests, never bytes.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use winimg_recipe::plan;
use winimg_recipe::plan::is_below;
use winimg_recipe::recipe;

/// The checks that one step asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Expected {
    pub step: String,
    /// The recipe's file, line and column.
    pub place: String,
    pub checks: Vec<Check>,
}

/// One thing that has to hold.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "check", rename_all = "kebab-case")]
pub enum Check {
    /// The file has these bytes.
    File {
        path: String,
        /// Bytes.
        size: u64,
        /// Lower-case hex.
        #[schemars(regex(pattern = r"^[0-9a-f]{64}$"))]
        sha256: String,
    },
    /// A file or folder is there.
    Exists {
        path: String,
    },
    /// Neither a file nor a folder of this name is there.
    Missing {
        path: String,
    },
    /// A value of the registry; without a name, the key's default value.
    Registry {
        key: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        value: Option<String>,
        data: Data,
    },
    Service(Service),
    /// The machine's `Path` lists the folder.
    PathFolder {
        folder: String,
    },
    Firewall(Firewall),
    /// An optional feature. Only running Windows knows.
    Feature {
        name: String,
        enabled: bool,
    },
    /// A feature on demand. Only running Windows knows.
    Capability {
        name: String,
        present: bool,
    },
    /// The driver store has this INF, byte for byte.
    Driver {
        /// `vioscsi.inf`
        inf: String,
        /// Lower-case hex.
        #[schemars(regex(pattern = r"^[0-9a-f]{64}$"))]
        sha256: String,
    },
    User {
        name: String,
        present: bool,
        disabled: bool,
    },
    /// A local group with at least these members.
    Group {
        name: String,
        present: bool,
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        members: Vec<String>,
    },
    Acl(Acl),
    /// A scheduled task `\Folder\Name`.
    Task {
        name: String,
        present: bool,
    },
    /// A package of this KB is installed.
    Update {
        kb: String,
    },
    /// containerd's content store below `root` has the image's manifest.
    ContainerImage {
        reference: String,
        digest: String,
        root: String,
    },
}

/// Data of the registry by its type.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "type", content = "data", rename_all = "kebab-case")]
pub enum Data {
    Sz(String),
    ExpandSz(String),
    MultiSz(Vec<String>),
    Dword(u32),
    Qword(u64),
    /// Lower-case hex.
    Binary(String),
    /// The value, or the key when no value is named, is not there.
    Absent,
}

/// What was said about a service; what was not said is not looked at.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Service {
    pub name: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command_line: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start: Option<Start>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub depends: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub account: Option<String>,
    /// Milliseconds before each restart after a failure.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub restart_delays: Vec<u32>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Start {
    Auto,
    DelayedAuto,
    Demand,
    Disabled,
}

/// A firewall rule as Windows keeps it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Firewall {
    pub name: String,
    pub present: bool,
    pub inbound: bool,
    pub allow: bool,
    /// IANA's number; absent: any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub protocol: Option<u8>,
    /// Empty: any.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ports: Vec<String>,
    /// Empty: any.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub remote_ports: Vec<String>,
    /// Whom the rule is for. Absent in a manifest that was written before it was looked at, and then not compared.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scope: Option<FirewallScope>,
}

/// Whom a firewall rule is for. The local addresses are always any.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FirewallScope {
    /// Addresses, networks, ranges, or netsh's own words such as `LocalSubnet`. Empty: any.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub remote: Vec<String>,
    /// The one program; absent: any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub program: Option<String>,
    /// `domain`, `private`, `public`. Empty: all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub profiles: Vec<String>,
    /// Edge traversal.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub edge: bool,
}

/// The discretionary access list of a file or folder.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Acl {
    pub path: String,
    /// Nothing is inherited from above.
    pub protected: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<String>,
    /// All explicit entries, in any order.
    pub entries: Vec<AclEntry>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AclEntry {
    /// A SID, or the name of a local account or group.
    pub principal: String,
    pub right: Right,
    pub deny: bool,
}

/// icacls' simple rights.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Right {
    Full,
    Modify,
    ReadExecute,
    Read,
    Write,
}

impl From<&recipe::RegistryData> for Data {
    fn from(data: &recipe::RegistryData) -> Self {
        match data {
            recipe::RegistryData::Sz(text) => Self::Sz(text.clone()),
            recipe::RegistryData::ExpandSz(text) => Self::ExpandSz(text.clone()),
            recipe::RegistryData::MultiSz(list) => Self::MultiSz(list.clone()),
            recipe::RegistryData::Dword(n) => Self::Dword(*n),
            recipe::RegistryData::Qword(n) => Self::Qword(*n),
            recipe::RegistryData::Binary(bytes) => Self::Binary(hex::encode(bytes)),
            recipe::RegistryData::Absent => Self::Absent,
        }
    }
}

impl From<recipe::Start> for Start {
    fn from(start: recipe::Start) -> Self {
        match start {
            recipe::Start::Auto => Self::Auto,
            recipe::Start::DelayedAuto => Self::DelayedAuto,
            recipe::Start::Demand => Self::Demand,
            recipe::Start::Disabled => Self::Disabled,
        }
    }
}

impl From<recipe::verb::Right> for Right {
    fn from(right: recipe::verb::Right) -> Self {
        match right {
            recipe::verb::Right::Full => Self::Full,
            recipe::verb::Right::Modify => Self::Modify,
            recipe::verb::Right::ReadExecute => Self::ReadExecute,
            recipe::verb::Right::Read => Self::Read,
            recipe::verb::Right::Write => Self::Write,
        }
    }
}

impl From<&plan::FirewallExpectation> for Firewall {
    fn from(rule: &plan::FirewallExpectation) -> Self {
        Self {
            name: rule.name.clone(),
            present: rule.present,
            inbound: rule.inbound,
            allow: rule.allow,
            protocol: rule.protocol,
            ports: rule.ports.clone(),
            remote_ports: rule.remote_ports.clone(),
            scope: rule.present.then(|| FirewallScope {
                remote: rule.remote.clone(),
                program: rule.program.clone(),
                profiles: rule.profiles.clone(),
                edge: rule.edge,
            }),
        }
    }
}

impl From<&plan::AclExpectation> for Acl {
    fn from(acl: &plan::AclExpectation) -> Self {
        let entries = acl.entries.iter().map(|e| AclEntry {
            principal: e.principal.clone(),
            right: e.right.into(),
            deny: e.deny,
        });
        Self {
            path: acl.path.clone(),
            protected: acl.protected,
            owner: acl.owner.clone(),
            entries: entries.collect(),
        }
    }
}

impl Check {
    /// Of an expectation that speaks of no input; `None` for the others, whose digests the build knows.
    pub fn plain(expectation: &plan::Expectation) -> Option<Self> {
        use plan::Expectation as E;
        Some(match expectation.clone() {
            E::FileFrom { .. }
            | E::TreeFrom { .. }
            | E::Driver { .. }
            | E::ContainerImage { .. } => return None,
            E::Exists { path } => Self::Exists { path },
            E::Missing { path } => Self::Missing { path },
            E::RegistryValue { key, value, data } => Self::Registry {
                key,
                value,
                data: (&data).into(),
            },
            E::Service {
                name,
                command_line,
                start,
                depends,
                account,
                restart_delays,
            } => Self::Service(Service {
                name,
                command_line,
                start: start.map(Into::into),
                depends,
                account,
                restart_delays,
            }),
            E::PathFolder { folder } => Self::PathFolder { folder },
            E::Firewall(rule) => Self::Firewall((&rule).into()),
            E::Feature { name, enabled } => Self::Feature { name, enabled },
            E::Capability { name, present } => Self::Capability { name, present },
            E::User {
                name,
                present,
                disabled,
            } => Self::User {
                name,
                present,
                disabled,
            },
            E::Group {
                name,
                present,
                members,
            } => Self::Group {
                name,
                present,
                members,
            },
            E::Acl(acl) => Self::Acl((&acl).into()),
            E::Task { name, present } => Self::Task { name, present },
            E::Update { kb } => Self::Update { kb },
        })
    }
}

/// Drops each file that a later step writes again or takes away: a tree may bring a file that a later step replaces.
/// Also drops that a file is there where its bytes are expected: one that is gone is told once.
pub fn keep_what_lasts(steps: &mut [Expected]) {
    let mut later = std::collections::HashSet::new();
    let mut gone: Vec<String> = Vec::new();
    for step in steps.iter_mut().rev() {
        let mut kept = Vec::with_capacity(step.checks.len());
        for check in step.checks.drain(..).rev() {
            match &check {
                Check::File { path, .. } => {
                    let path = path.to_lowercase();
                    let removed = gone.iter().any(|folder| is_below(&path, folder));
                    if removed || !later.insert(path) {
                        continue;
                    }
                }
                Check::Missing { path } => {
                    let path = path.to_lowercase();
                    let back = later.iter().any(|file: &String| is_below(file, &path));
                    gone.push(path);
                    if back {
                        continue;
                    }
                }
                _ => {}
            }
            kept.push(check);
        }
        kept.reverse();
        step.checks = kept;
    }
    for step in steps {
        step.checks.retain(|check| match check {
            Check::Exists { path } => !later.contains(&path.to_lowercase()),
            _ => true,
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(path: &str, sha256: &str) -> Check {
        Check::File {
            path: path.into(),
            size: 1,
            sha256: sha256.into(),
        }
    }

    fn step(checks: Vec<Check>) -> Expected {
        Expected {
            step: "s".into(),
            place: "r.toml:1:1".into(),
            checks,
        }
    }

    #[test]
    fn a_file_whose_bytes_are_expected_is_not_asked_for_twice() {
        let there = |path: &str| Check::Exists { path: path.into() };
        let mut steps = [
            step(vec![file(r"C:\k\a.exe", "own")]),
            step(vec![there(r"c:\K\A.exe"), there(r"C:\k")]),
        ];
        keep_what_lasts(&mut steps);
        assert_eq!(
            steps.map(|s| s.checks),
            [vec![file(r"C:\k\a.exe", "own")], vec![there(r"C:\k")]]
        );
    }

    #[test]
    fn the_last_word_on_a_file_counts() {
        let gone = Check::Missing {
            path: r"C:\k\docs".into(),
        };
        let mut steps = [
            step(vec![
                file(r"C:\k\a.toml", "tree"),
                file(r"C:\k\b.exe", "tree"),
                file(r"C:\k\docs\x.md", "tree"),
                file(r"C:\k\docs-too\x.md", "tree"),
            ]),
            step(vec![file(r"c:\K\A.toml", "own"), gone.clone()]),
        ];
        keep_what_lasts(&mut steps);
        assert_eq!(
            steps.map(|s| s.checks),
            [
                vec![
                    file(r"C:\k\b.exe", "tree"),
                    file(r"C:\k\docs-too\x.md", "tree")
                ],
                vec![file(r"c:\K\A.toml", "own"), gone],
            ]
        );
    }
}
