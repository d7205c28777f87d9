//! Checks account passwords against the default policy of Windows Server.
//!
//! Only warns, because Windows applies the policy on some paths only. Never shows a password.

use roxmltree::Node;

use winimg_base::diag::Diagnostic;

use super::super::password::{decode, find_weakness};
use super::{LintRun, find_components, find_element, find_text, iter_children, trim_text};

const ADMINISTRATOR: &str = "Administrator";

pub(super) fn check_passwords(check: &mut LintRun, root: Node) {
    for shell in find_components(root, Some("oobeSystem"), "Microsoft-Windows-Shell-Setup") {
        // An empty password is reported elsewhere.
        if let Some(password) = find_element(shell, "UserAccounts/AdministratorPassword")
            && find_text(password, "Value").is_some_and(|value| !value.is_empty())
        {
            check_password(check, password, ADMINISTRATOR);
        }
        let lists = find_element(shell, "UserAccounts/LocalAccounts").into_iter();
        for account in lists.flat_map(|list| iter_children(list, "LocalAccount")) {
            let name = find_text(account, "Name").unwrap_or_default();
            if let Some(password) = find_element(account, "Password") {
                check_password(check, password, name);
            }
        }
    }
}

/// Warns about a password that Windows may refuse for `account`.
fn check_password(check: &mut LintRun, password: Node, account: &str) {
    let Some(value) = find_element(password, "Value") else {
        return;
    };
    let suffix = password.tag_name().name();
    let is_plain =
        find_text(password, "PlainText").is_none_or(|plain| plain.eq_ignore_ascii_case("true"));
    let decoded = if is_plain {
        Some(trim_text(value).to_owned())
    } else {
        decode(trim_text(value), suffix)
    };
    let (fact, help) = match decoded {
        None => (
            format!(
                "the password of {account} has PlainText false, but is not the base64 of UTF-16 \
                 text that ends in {suffix}"
            ),
            "encode the password together with that word, or write it as it is with PlainText true",
        ),
        Some(plain) => match find_weakness(&plain, account) {
            None => return,
            Some(why) => (
                format!(
                    "the password of {account} does not meet the default policy of Windows \
                     Server: {why}"
                ),
                "use another one: Windows may refuse it in the oobeSystem pass, at the end of the \
                 installation",
            ),
        },
    };
    let warning = Diagnostic::warning(fact).at(&check.locate(value), "");
    check.found.push(warning.help(help));
}
