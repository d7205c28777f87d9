//! Steps that shut a build out of its own machine. Judges by Windows' own names of accounts; knows no component and no pack.

use crate::recipe::verb::{Password, User, UserState};
use crate::recipe::{Recipe, Verb};
use winimg_base::diag::{Diagnostic, Diagnostics};

/// The account that winimg enters a guest of Hyper-V as.
const ADMINISTRATOR: &str = "Administrator";

/// Steps after which PowerShell Direct would be refused: it logs on anew for each session, as the built-in Administrator
/// with the build's password (Microsoft: Manage Windows virtual machines with PowerShell Direct). For a build on Hyper-V.
pub fn shut_out(recipe: &Recipe) -> Diagnostics {
    let mut found = Diagnostics::default();
    for step in recipe.steps.iter().filter(|s| s.skipped.is_none()) {
        let Verb::User(user) = &step.verb else {
            continue;
        };
        let Some(does) = harms(user) else { continue };
        let message = format!(
            "step `{}`: Hyper-V's guests are reached as {ADMINISTRATOR}, and this step {does}",
            step.name
        );
        found.push(
            Diagnostic::error(message)
                .at(&user.name.place, "the rest of the build would be refused")
                .help(
                    "let the clone do it: a command in the specialize pass of the answer file that `generalize` is given",
                )
                .help("or build under QEMU, whose guest agent needs no account"),
        );
    }
    found
}

fn harms(user: &User) -> Option<&'static str> {
    if !user.name.value.eq_ignore_ascii_case(ADMINISTRATOR) {
        return None;
    }
    match (user.state, &user.password) {
        (UserState::Disabled, _) => Some("disables the account"),
        (UserState::Absent, _) => Some("removes the account"),
        (UserState::Present, Password::Published(_)) => Some("changes its password"),
        // A random one is for accounts that are made.
        (UserState::Present, Password::Random) => None,
    }
}
