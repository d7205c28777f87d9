//! `[[clone]]` as decided: what must hold on a clone after its first boot.
//!
//! Only what a disk shows that nobody has started: no service is running there.

use winimg_base::text::{Located, Place};

use super::verb::{FirewallRule, UserState};
use super::{GuestPath, RegistryData, RegistryKey, Start};

/// `[[clone]]`
#[derive(Clone, Debug)]
pub struct CloneCheck {
    /// The table's header in the TOML.
    pub place: Place,
    /// What the node needs it for.
    pub why: String,
    /// The names of the targets whose clones it speaks of; empty: all.
    pub targets: Vec<String>,
    /// The `when` that turned it off, as written.
    pub skipped: Option<String>,
    pub claim: Claim,
}

/// What holds. One variant a key.
#[derive(Clone, Debug)]
pub enum Claim {
    /// Not known before these variables are set.
    Undecided {
        variables: Vec<String>,
    },
    Exists(GuestPath),
    Missing(GuestPath),
    Registry {
        key: Located<RegistryKey>,
        /// The default value when `None`.
        value: Option<String>,
        data: RegistryData,
    },
    Service {
        name: String,
        /// Any when `None`.
        start: Option<Start>,
        present: bool,
        /// It may have failed to start.
        may_fail: bool,
    },
    Firewall(FirewallRule),
    User {
        name: String,
        state: UserState,
    },
    Group {
        name: String,
        present: bool,
        members: Vec<String>,
    },
}
