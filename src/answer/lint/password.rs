//! Passwords of accounts, by the default policy of Windows Server.
//!
//! Warns only: real Windows applies the policy on some paths alone. Refuses to show a password.

use roxmltree::Node;

use winimg_base::diag::Diagnostic;

use super::super::password::{decode, weakness};
use super::{Check, at, components, named, text, text_at};

const ADMINISTRATOR: &str = "Administrator";

pub(super) fn all(check: &mut Check, root: Node) {
    for shell in components(root, Some("oobeSystem"), "Microsoft-Windows-Shell-Setup") {
        // An empty one is an error of its own.
        if let Some(password) = at(shell, "UserAccounts/AdministratorPassword")
            && text_at(password, "Value").is_some_and(|value| !value.is_empty())
        {
            judge(check, password, ADMINISTRATOR);
        }
        let lists = at(shell, "UserAccounts/LocalAccounts").into_iter();
        for account in lists.flat_map(|list| named(list, "LocalAccount")) {
            let name = text_at(account, "Name").unwrap_or_default();
            if let Some(password) = at(account, "Password") {
                judge(check, password, name);
            }
        }
    }
}

/// `account`: whose password it is.
fn judge(check: &mut Check, password: Node, account: &str) {
    let Some(value) = at(password, "Value") else {
        return;
    };
    let suffix = password.tag_name().name();
    let is_plain =
        text_at(password, "PlainText").is_none_or(|plain| plain.eq_ignore_ascii_case("true"));
    let decoded = if is_plain {
        Some(text(value).to_owned())
    } else {
        decode(text(value), suffix)
    };
    let (fact, help) = match decoded {
        None => (
            format!(
                "the password of {account} has PlainText false, but is not the base64 of UTF-16 text that ends in {suffix}"
            ),
            "encode the password together with that word, or write it plainly with PlainText true",
        ),
        Some(plain) => match weakness(&plain, account) {
            None => return,
            Some(why) => (
                format!(
                    "the password of {account} does not meet the default policy of Windows Server: {why}"
                ),
                "Windows may refuse it in the pass oobeSystem, after the whole installation: use another one",
            ),
        },
    };
    let warning = Diagnostic::warning(fact).at(&check.place(value), "");
    check.found.push(warning.help(help));
}
