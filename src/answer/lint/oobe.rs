//! The last pass: nothing may be left for a person to click, and nobody may be logged on for nothing.

use roxmltree::Node;

use super::{Check, at, components, named, text};

/// What the oobeSystem pass needs, and what happens without it.
const NEEDED: [(&str, &str, &str); 3] = [
    (
        "OOBE/HideEULAPage",
        "true",
        "Windows waits at the licence page",
    ),
    (
        "OOBE/HideLocalAccountScreen",
        "true",
        "Windows waits for an Administrator password",
    ),
    (
        "UserAccounts/AdministratorPassword/Value",
        "",
        "Windows waits for an Administrator password",
    ),
];

pub(super) fn all(check: &mut Check, root: Node) {
    let pass = named(root, "settings").find(|s| s.attribute("pass") == Some("oobeSystem"));
    let place = pass.unwrap_or(root);
    if components(
        root,
        Some("oobeSystem"),
        "Microsoft-Windows-International-Core",
    )
    .is_empty()
    {
        check.error(
            place,
            "the pass oobeSystem has no Microsoft-Windows-International-Core: Windows waits at the region page",
        );
    }
    let shells = components(root, Some("oobeSystem"), "Microsoft-Windows-Shell-Setup");
    for (path, value, consequence) in NEEDED {
        let found = shells.iter().find_map(|s| at(*s, path));
        match found {
            Some(node) if value.is_empty() && text(node).is_empty() => {
                check.error(node, format!("{path} is empty: {consequence}"));
            }
            Some(node) if value.is_empty() || text(node) == value => {}
            Some(node) => check.error(node, format!("{path} is not {value}: {consequence}")),
            None => check.error(
                place,
                format!("the pass oobeSystem has no {path}: {consequence}"),
            ),
        }
    }
    let commands = shells
        .iter()
        .flat_map(|s| named(*s, "FirstLogonCommands"))
        .any(|f| named(f, "SynchronousCommand").next().is_some());
    for logon in shells.iter().filter_map(|s| at(*s, "AutoLogon")) {
        if at(logon, "Enabled").is_some_and(|e| text(e) == "false") {
            continue;
        }
        if !commands {
            check.error_with_label(
                logon,
                "AutoLogon without FirstLogonCommands logs on for nothing, and keeps a secret in the image",
                "remove it",
            );
        }
        if at(logon, "LogonCount").is_none() {
            check.error(logon, "AutoLogon without LogonCount logs on for ever");
        }
    }
}
