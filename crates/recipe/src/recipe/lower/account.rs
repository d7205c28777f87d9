//! Verbs about who there is: `user`, `group`.

use super::security::nothing_else;
use crate::recipe::Verb;
use crate::recipe::fields::{Context, Fields};
use crate::recipe::value::Value;
use crate::recipe::verb::{Group, Password, User, UserState};
use winimg_base::text::Located;

/// What net.exe keeps of a comment (Microsoft: net user, net localgroup).
const LONGEST_COMMENT: usize = 48;

pub fn user(cx: &Context<'_>, value: &Value) -> Option<Verb> {
    let fields = Fields::open(cx, value, "user")?;
    let name = user_name(&fields);
    let state = fields
        .choice("state")
        .map_or(UserState::Present, |s| s.value);
    let password = password(&fields);
    let full_name = comment(&fields, "full_name", 256);
    let description = comment(&fields, "description", LONGEST_COMMENT);
    let groups = names(&fields, "groups");
    let expires = fields.flag("expires");
    if state == UserState::Absent {
        nothing_else(&fields, "a user");
    }
    Some(Verb::User(User {
        name: name?,
        state,
        password: password?,
        full_name,
        description,
        groups,
        expires,
    }))
}

pub fn group(cx: &Context<'_>, value: &Value) -> Option<Verb> {
    let fields = Fields::open(cx, value, "group")?;
    let name = group_name(&fields);
    let present = fields.is("state", "present");
    let description = comment(&fields, "description", LONGEST_COMMENT);
    let members = names(&fields, "members");
    if !present {
        nothing_else(&fields, "a group");
    }
    Some(Verb::Group(Group {
        name: name?,
        present,
        description,
        members,
    }))
}

/// The SAM keeps 20 characters of a user's name.
pub fn user_name(fields: &Fields<'_>) -> Option<Located<String>> {
    account_name(fields, fields.string("name")?, 20)
}

pub fn group_name(fields: &Fields<'_>) -> Option<Located<String>> {
    account_name(fields, fields.string("name")?, 256)
}

/// Microsoft: NetUserAdd, USER_INFO_1; a name that starts with `-` would be an option.
fn account_name(
    fields: &Fields<'_>,
    name: Located<String>,
    longest: usize,
) -> Option<Located<String>> {
    let text = name.value.as_str();
    let fault = if text.chars().count() > longest {
        format!("it has more than {longest} characters")
    } else if let Some(c) = text.chars().find(|c| is_forbidden(*c)) {
        format!("it holds `{}`", c.escape_debug())
    } else if text.starts_with('-') || text != text.trim() {
        "it starts with a hyphen, or a blank is at its end".to_owned()
    } else if text.chars().all(|c| c == '.' || c == ' ') || text.ends_with('.') {
        "a dot is at its end".to_owned()
    } else {
        return Some(name);
    };
    let fact = format!("no account can be called \"{text}\": {fault}");
    let help = "no `\" / \\ [ ] : ; | = , + * ? < > @ %` and no control characters";
    fields.cx.error(fact, &name.place, "", help);
    None
}

fn is_forbidden(c: char) -> bool {
    c.is_control() || "\"/\\[]:;|=,+*?<>@%".contains(c)
}

/// Names of accounts and groups; `NT SERVICE\name` and the like too.
pub fn names(fields: &Fields<'_>, key: &str) -> Vec<Located<String>> {
    let mut names: Vec<Located<String>> = Vec::new();
    for name in fields.strings(key) {
        let own = name.value.rsplit('\\').next().unwrap_or_default();
        let plain = Located::new(own.to_owned(), name.place.clone());
        if own.is_empty() {
            let fact = format!("`{key}` holds an empty name");
            fields
                .cx
                .error(fact, &name.place, "", "write one name a string");
            continue;
        }
        if account_name(fields, plain, 256).is_none() {
            continue;
        }
        if names
            .iter()
            .all(|n| !n.value.eq_ignore_ascii_case(&name.value))
        {
            names.push(name);
        }
    }
    names
}

fn comment(fields: &Fields<'_>, key: &str, longest: usize) -> Option<String> {
    let text = fields.string(key)?;
    let fault = if text.value.is_empty() {
        "is empty".to_owned()
    } else if text.value.chars().any(char::is_control) {
        "holds a control character".to_owned()
    } else if text.value.chars().count() > longest {
        format!("has more than {longest} characters")
    } else {
        return Some(text.value);
    };
    let help = "one line of text, or leave it out";
    fields
        .cx
        .error(format!("`{key}` {fault}"), &text.place, "", help);
    None
}

/// `random`, or `published:` and a password that is none. Whatever else is there may be a secret, and is not shown.
fn password(fields: &Fields<'_>) -> Option<Password> {
    let text = fields.string("password")?;
    if text.value == "random" {
        return Some(Password::Random);
    }
    let Some(known) = text.value.strip_prefix("published:") else {
        let fact = "a user's password is `random`, or `published:` and one that everybody knows";
        let help = "a recipe holds no secrets: leave `password` out, and log in with a key or let the image's first \
                    boot give the account a password";
        fields.cx.error(fact, &text.place, "", help);
        return None;
    };
    // `*` would ask, `/` starts an option; 127 is the longest that Windows takes (Microsoft: net user).
    let fault = if known.is_empty() {
        "is empty"
    } else if known.chars().count() > 127 {
        "has more than 127 characters"
    } else if known == "*" || known.starts_with('/') || known.chars().any(char::is_control) {
        "cannot be given to net.exe"
    } else {
        return Some(Password::Published(known.to_owned()));
    };
    let fact = format!("the published password {fault}");
    fields
        .cx
        .error(fact, &text.place, "", "write `\"published:vagrant\"`");
    None
}
