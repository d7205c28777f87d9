//! Decoded `[[clone]]` tables: assertions about a clone after its first boot.
//!
//! Limited to what an offline disk shows: no service is running there.

use winimg_base::text::Place;

use crate::GuestPath;
use crate::ops::check::ServiceStartMode;
use crate::verbs::{FirewallRule, RegistrySpec, UserState};

/// `[[clone]]`
#[derive(Clone, Debug)]
pub struct CloneCheckSpec {
    /// The table's header in the TOML.
    pub place: Place,
    /// The reason why the node needs it.
    pub why: String,
    /// Names of the targets whose clones it applies to; empty: all.
    pub targets: Vec<String>,
    /// The `when` that turned it off, as written.
    pub skipped: Option<String>,
    pub claim: CloneClaim,
}

/// The assertion. One variant per key.
#[derive(Clone, Debug)]
pub enum CloneClaim {
    /// Unknown until these variables are set.
    Undecided {
        variables: Vec<String>,
    },
    Exists(GuestPath),
    Missing(GuestPath),
    Registry(RegistrySpec),
    Service {
        name: String,
        /// Any when `None`.
        start: Option<ServiceStartMode>,
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
