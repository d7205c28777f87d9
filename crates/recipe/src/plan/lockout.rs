//! Detects steps that lock a build out of its own machine, by the names of Windows' built-in
//! accounts.

use crate::verbs::{UserPassword, UserSpec, UserState};
use crate::{Recipe, Verb};
use winimg_base::diag::{Diagnostic, Diagnostics};

/// The account that winimg uses in a Hyper-V guest.
const ADMINISTRATOR: &str = "Administrator";

/// Reports steps after which a build on Hyper-V would fail: PowerShell Direct logs on again for
/// each session, as the built-in Administrator with the build's password (Microsoft: Manage Windows
/// virtual machines with PowerShell Direct).
pub fn shut_out(recipe: &Recipe) -> Diagnostics {
    let mut found = Diagnostics::default();
    for step in recipe.steps.iter().filter(|s| s.skipped.is_none()) {
        let Verb::User(user) = &step.verb else {
            continue;
        };
        let Some(does) = describe_harm(user) else {
            continue;
        };
        let message = format!(
            "step `{}` {does}, which winimg uses to connect to Hyper-V guests",
            step.name
        );
        found.push(
            Diagnostic::error(message)
                .at(&user.name.place, "all later steps would fail")
                .help(
                    "do it on the clone: add a command to the specialize pass of the answer file \
                     of `generalize`",
                )
                .help("or build with QEMU, whose guest agent needs no account"),
        );
    }
    found
}

fn describe_harm(user: &UserSpec) -> Option<&'static str> {
    if !user.name.value.eq_ignore_ascii_case(ADMINISTRATOR) {
        return None;
    }
    match (user.state, &user.password) {
        (UserState::Disabled, _) => Some("disables the Administrator account"),
        (UserState::Absent, _) => Some("removes the Administrator account"),
        (UserState::Present, UserPassword::Published(_)) => {
            Some("changes the password of the Administrator account")
        }
        // A random password is only set when an account is created.
        (UserState::Present, UserPassword::Random) => None,
    }
}
