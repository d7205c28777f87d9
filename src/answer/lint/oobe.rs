//! The last pass: Windows must not wait for input, and an automatic logon needs a purpose.

use roxmltree::Node;

use super::{LintRun, find_components, find_element, iter_children, trim_text};

/// Settings that the oobeSystem pass needs: path, value, and the consequence of leaving it out.
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

pub(super) fn check_oobe(check: &mut LintRun, root: Node) {
    let pass = iter_children(root, "settings").find(|s| s.attribute("pass") == Some("oobeSystem"));
    let place = pass.unwrap_or(root);
    if find_components(
        root,
        Some("oobeSystem"),
        "Microsoft-Windows-International-Core",
    )
    .is_empty()
    {
        check.error(
            place,
            "the oobeSystem pass has no Microsoft-Windows-International-Core: Windows waits at the \
             region page",
        );
    }
    let shells = find_components(root, Some("oobeSystem"), "Microsoft-Windows-Shell-Setup");
    for (path, value, consequence) in NEEDED {
        let found = shells.iter().find_map(|s| find_element(*s, path));
        match found {
            Some(node) if value.is_empty() && trim_text(node).is_empty() => {
                check.error(node, format!("{path} is empty: {consequence}"));
            }
            Some(node) if value.is_empty() || trim_text(node) == value => {}
            Some(node) => check.error(node, format!("{path} is not {value}: {consequence}")),
            None => check.error(
                place,
                format!("the oobeSystem pass has no {path}: {consequence}"),
            ),
        }
    }
    let commands = shells
        .iter()
        .flat_map(|s| iter_children(*s, "FirstLogonCommands"))
        .any(|f| iter_children(f, "SynchronousCommand").next().is_some());
    for logon in shells.iter().filter_map(|s| find_element(*s, "AutoLogon")) {
        if find_element(logon, "Enabled").is_some_and(|e| trim_text(e) == "false") {
            continue;
        }
        if !commands {
            check.error_with_label(
                logon,
                "AutoLogon without FirstLogonCommands has no purpose and leaves a secret in the \
                 image",
                "remove it",
            );
        }
        if find_element(logon, "LogonCount").is_none() {
            check.error(
                logon,
                "AutoLogon without LogonCount logs on after every restart",
            );
        }
    }
}
