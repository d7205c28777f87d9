//! Account verbs: `user`, `group`.

use super::security::nothing_else;
use crate::recipe::Verb;
use crate::recipe::fields::{LoweringContext, TableReader};
use crate::recipe::value::TomlValue;
use crate::recipe::verb::{GroupSpec, UserPassword, UserSpec, UserState};
use winimg_base::text::Located;

/// Maximum length of a comment in net.exe (Microsoft: net user, net localgroup).
const LONGEST_COMMENT: usize = 48;

pub fn read_user(cx: &LoweringContext<'_>, value: &TomlValue) -> Option<Verb> {
    let fields = TableReader::open(cx, value, "user")?;
    let name = user_name(&fields);
    let state = fields
        .read_choice("state")
        .map_or(UserState::Present, |s| s.value);
    let password = read_password(&fields);
    let full_name = read_comment(&fields, "full_name", 256);
    let description = read_comment(&fields, "description", LONGEST_COMMENT);
    let groups = read_account_names(&fields, "groups");
    let expires = fields.flag("expires");
    if state == UserState::Absent {
        nothing_else(&fields, "a user");
    }
    Some(Verb::User(UserSpec {
        name: name?,
        state,
        password: password?,
        full_name,
        description,
        groups,
        expires,
    }))
}

pub fn group(cx: &LoweringContext<'_>, value: &TomlValue) -> Option<Verb> {
    let fields = TableReader::open(cx, value, "group")?;
    let name = group_name(&fields);
    let present = fields.is("state", "present");
    let description = read_comment(&fields, "description", LONGEST_COMMENT);
    let members = read_account_names(&fields, "members");
    if !present {
        nothing_else(&fields, "a group");
    }
    Some(Verb::Group(GroupSpec {
        name: name?,
        present,
        description,
        members,
    }))
}

/// Reads a user name; the SAM allows 20 characters.
pub fn user_name(fields: &TableReader<'_>) -> Option<Located<String>> {
    account_name(fields, fields.read_string("name")?, 20)
}

pub fn group_name(fields: &TableReader<'_>) -> Option<Located<String>> {
    account_name(fields, fields.read_string("name")?, 256)
}

/// Checks an account name (Microsoft: NetUserAdd, USER_INFO_1). A name that starts with `-` would
/// be taken as an option.
fn account_name(
    fields: &TableReader<'_>,
    name: Located<String>,
    longest: usize,
) -> Option<Located<String>> {
    let text = name.value.as_str();
    let fault = if text.chars().count() > longest {
        format!("it has more than {longest} characters")
    } else if let Some(c) = text.chars().find(|c| is_forbidden(*c)) {
        format!("it contains `{}`", c.escape_debug())
    } else if text.starts_with('-') || text != text.trim() {
        "it starts with a hyphen, or starts or ends with a space".to_owned()
    } else if text.chars().all(|c| c == '.' || c == ' ') || text.ends_with('.') {
        "it ends with a dot".to_owned()
    } else {
        return Some(name);
    };
    let fact = format!("\"{text}\" is not a valid account name: {fault}");
    let help = "not allowed: `\" / \\ [ ] : ; | = , + * ? < > @ %` and control characters";
    fields.cx.error(fact, &name.place, "", help);
    None
}

fn is_forbidden(c: char) -> bool {
    c.is_control() || "\"/\\[]:;|=,+*?<>@%".contains(c)
}

/// Reads names of accounts and groups, including `NT SERVICE\name` and the like.
pub fn read_account_names(fields: &TableReader<'_>, key: &str) -> Vec<Located<String>> {
    let mut names: Vec<Located<String>> = Vec::new();
    for name in fields.read_strings(key) {
        let own = name.value.rsplit('\\').next().unwrap_or_default();
        let plain = Located::new(own.to_owned(), name.place.clone());
        if own.is_empty() {
            let fact = format!("`{key}` contains an empty name");
            fields
                .cx
                .error(fact, &name.place, "", "write one name per string");
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

fn read_comment(fields: &TableReader<'_>, key: &str, longest: usize) -> Option<String> {
    let text = fields.read_string(key)?;
    let fault = if text.value.is_empty() {
        "is empty".to_owned()
    } else if text.value.chars().any(char::is_control) {
        "contains a control character".to_owned()
    } else if text.value.chars().count() > longest {
        format!("has more than {longest} characters")
    } else {
        return Some(text.value);
    };
    let help = "write one line of text, or omit the key";
    fields
        .cx
        .error(format!("`{key}` {fault}"), &text.place, "", help);
    None
}

/// Reads `random`, or `published:` and a publicly known password. Anything else may be a secret and
/// is not shown.
fn read_password(fields: &TableReader<'_>) -> Option<UserPassword> {
    let text = fields.read_string("password")?;
    if text.value == "random" {
        return Some(UserPassword::Random);
    }
    let Some(known) = text.value.strip_prefix("published:") else {
        let fact = "a password is `random`, or `published:` and a publicly known one";
        let help = "a recipe contains no secrets: omit `password`, and log in with a key or let \
                    the image's first boot set a password";
        fields.cx.error(fact, &text.place, "", help);
        return None;
    };
    // `*` would prompt, `/` starts an option; 127 is the maximum in Windows (Microsoft: net user).
    let fault = if known.is_empty() {
        "is empty"
    } else if known.chars().count() > 127 {
        "has more than 127 characters"
    } else if known == "*" || known.starts_with('/') || known.chars().any(char::is_control) {
        "cannot be passed to net.exe"
    } else {
        return Some(UserPassword::Published(known.to_owned()));
    };
    let fact = format!("the published password {fault}");
    fields
        .cx
        .error(fact, &text.place, "", "write `\"published:vagrant\"`");
    None
}
