//! The verb `user`: a local account, compiled to `net.exe` (Microsoft: net user), and a short
//! PowerShell script for what it cannot do: a random password, and one that never expires.

use serde::Deserialize;

use crate::document::value::TomlValue;
use crate::fields::{LoweringContext, TableReader};
use crate::ops::batch::BatchScript;
use crate::ops::compiler::{QUICK, StepCompiler};
use crate::ops::programs::{NET, POWERSHELL, to_arguments};
use crate::ops::{Encoding, ExitRule, PlannedCheck};
use crate::verbs::absent::nothing_else;
use crate::verbs::account::{
    LONGEST_COMMENT, delete, join, read_account_names, read_comment, select, told_apart, user_name,
};
use winimg_base::text::{Located, to_crlf};

/// `user`: a local account.
#[derive(Clone, Debug)]
pub struct UserSpec {
    pub name: Located<String>,
    pub state: UserState,
    pub password: UserPassword,
    pub full_name: Option<String>,
    pub description: Option<String>,
    pub groups: Vec<Located<String>>,
    /// The password expires.
    pub expires: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum UserState {
    Present,
    Absent,
    /// Exists, but cannot log on.
    Disabled,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum UserPassword {
    /// Generated in the guest and never shown.
    Random,
    /// Publicly known, such as Vagrant's: not a secret, and shown.
    Published(String),
}

/// An account created by `net user /add` is in this group; one created by PowerShell is in no
/// group.
const USERS: &str = "Users";

/// Accounts that every Windows has, already in their groups (Microsoft: Local accounts, default
/// accounts).
const BUILT_IN: [&str; 4] = [
    "Administrator",
    "DefaultAccount",
    "Guest",
    "WDAGUtilityAccount",
];

/// Script on the disc; its text is the same for every account.
pub const ACCOUNT: &str = include_str!("account.ps1");

pub fn read(cx: &LoweringContext<'_>, value: &TomlValue) -> Option<UserSpec> {
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
    Some(UserSpec {
        name: name?,
        state,
        password: password?,
        full_name,
        description,
        groups,
        expires,
    })
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

pub fn compile(site: &mut StepCompiler<'_>, user: &UserSpec) -> Option<()> {
    let name = user.name.value.as_str();
    told_apart(site, &user.name)?;
    let expected = PlannedCheck::User {
        name: name.to_owned(),
        present: user.state != UserState::Absent,
        disabled: user.state == UserState::Disabled,
    };
    if user.state == UserState::Absent {
        let mut script = BatchScript::new();
        let what = format!("user {}", site.quote(name, &user.name.place)?);
        delete(site, &mut script, &what, &["2221"]);
        site.put(script);
        site.expect(expected);
        return Some(());
    }
    let mut settings = to_arguments(["user", name]);
    if let UserPassword::Published(password) = &user.password {
        warn_of_published(site, user, password);
        let create = to_arguments(["user", name, password, "/add", "/y"]);
        // 2: the account exists, or any other error, which the next command then reports again.
        let rule = ExitRule::Listed {
            ok: vec![0, 2],
            reboot: vec![],
        };
        site.run(NET, create, rule, QUICK);
        settings.extend(to_arguments([password, "/y"]));
    }
    put_beyond_net(site, user)?;
    let active = match user.state {
        UserState::Disabled => "/active:no",
        UserState::Present | UserState::Absent => "/active:yes",
    };
    settings.push(active.to_owned());
    if !only_disabled(user) {
        settings.push("/expires:never".to_owned());
    }
    let full_name = user.full_name.iter().map(|t| format!("/fullname:{t}"));
    let comment = user.description.iter().map(|t| format!("/comment:{t}"));
    settings.extend(full_name.chain(comment));
    site.run(NET, settings, ExitRule::Zero, QUICK);
    site.expect(expected);
    for group in &user.groups {
        site.expect(PlannedCheck::Group {
            name: group.value.clone(),
            present: true,
            members: vec![name.to_owned()],
        });
    }
    Some(())
}

/// Adds the script for PowerShell and the groups, unless neither is needed.
fn put_beyond_net(site: &mut StepCompiler<'_>, user: &UserSpec) -> Option<()> {
    let name = site.quote(&user.name.value, &user.name.place)?;
    let random = user.password == UserPassword::Random && !built_in(user);
    let expires = user.expires || only_disabled(user);
    if !random && expires && user.groups.is_empty() {
        return Some(());
    }
    let mut script = BatchScript::new();
    if random || !expires {
        let file = site.text_entry("account.ps1", to_crlf(ACCOUNT), Encoding::Utf8Bom);
        let random = if random { " -Random" } else { "" };
        let never = if expires { "" } else { " -NeverExpires" };
        script.add_line(format!(
            "{POWERSHELL} -NoLogo -NoProfile -NonInteractive -ExecutionPolicy Bypass \
             -File {file} -Name {name}{random}{never} || exit /b 1"
        ));
    }
    let users = Located::new(USERS.to_owned(), user.name.place.clone());
    let everyone = random.then_some(&users);
    for group in everyone.into_iter().chain(&user.groups) {
        select(site, &mut script, group)?;
        join(site, &mut script, &name);
    }
    site.put(script);
    Some(())
}

/// Returns true for an account of Windows itself, which needs neither an initial password nor a
/// group.
fn built_in(user: &UserSpec) -> bool {
    let name = &user.name.value;
    BUILT_IN.iter().any(|own| own.eq_ignore_ascii_case(name))
}

/// Returns true for a disabled account of Windows itself, whose expiration does not matter.
fn only_disabled(user: &UserSpec) -> bool {
    built_in(user) && user.state == UserState::Disabled
}

/// Warns that the password is public, and if Windows Server would reject it (Microsoft: Password
/// must meet complexity requirements, which is enabled unless the server is a domain member).
fn warn_of_published(site: &mut StepCompiler<'_>, user: &UserSpec, password: &str) {
    let place = &user.name.place;
    let name = &user.name.value;
    let message = format!("user `{name}` has a public password");
    let help = "suitable for a test image only; otherwise omit `password` and log in with a key";
    site.warn(place, message, "", help);
    let kinds = [
        password.chars().any(char::is_uppercase),
        password.chars().any(char::is_lowercase),
        password.chars().any(|c| c.is_ascii_digit()),
        password.chars().any(|c| !c.is_alphanumeric()),
    ];
    let contains_name =
        name.chars().count() > 2 && password.to_lowercase().contains(&name.to_lowercase());
    if kinds.iter().filter(|kind| **kind).count() < 3 || contains_name {
        let message = format!("Windows Server's default policy rejects the password of `{name}`");
        let help = "disable complexity in an earlier step (secedit.exe /configure), or use three \
            of \
                    upper case, lower case, digits, symbols; and not the account's name";
        site.warn(place, message, "error 2245 of net.exe", help);
    }
}
