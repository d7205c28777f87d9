//! Local users and groups, kept in the SAM hive in a shape of the stand-in's own (the real one is encrypted):
//! `SAM\Domains\Account\Users\Names\NAME` with `Flags` (REG_DWORD, the UF_ bits of NetUserAdd), `Comment`,
//! `FullName` and `PasswordSet` (REG_DWORD 1 once a password was given; never the password), and
//! `SAM\Domains\Builtin\Aliases\Names\NAME` with `Members` (REG_MULTI_SZ) and `Comment`.
//! A password is only judged (blank, length), not kept.

use super::regf::{Key, REG_MULTI_SZ, same};
use super::registry::{Registry, dword, dword_value, multi_sz, sz, texts};

pub const USERS: &str = r"HKLM\SAM\SAM\Domains\Account\Users\Names";
pub const GROUPS: &str = r"HKLM\SAM\SAM\Domains\Builtin\Aliases\Names";
/// "Account is disabled" and "normal account", of NetUserAdd.
pub const UF_ACCOUNTDISABLE: u32 = 2;
pub const UF_NORMAL_ACCOUNT: u32 = 0x200;

const GROUP_NAMES: [(&str, &[&str]); 8] = [
    ("Administrators", &["Administrator"]),
    ("Users", &[]),
    ("Guests", &["Guest"]),
    ("Backup Operators", &[]),
    ("Hyper-V Administrators", &[]),
    ("Performance Monitor Users", &[]),
    ("Remote Desktop Users", &[]),
    ("Remote Management Users", &[]),
];

pub fn create(sam: &mut Key) {
    for (user, flags) in [("Administrator", 0), ("Guest", UF_ACCOUNTDISABLE)] {
        let key = sam.make(&["Domains", "Account", "Users", "Names", user]);
        let (kind, data) = dword_value(UF_NORMAL_ACCOUNT | flags);
        key.set("Flags", kind, data);
    }
    for (group, members) in GROUP_NAMES {
        let (kind, data) = multi_sz(members);
        sam.make(&["Domains", "Builtin", "Aliases", "Names", group])
            .set("Members", kind, data);
    }
}

pub fn user<'a>(registry: &'a Registry, name: &str) -> Option<&'a Key> {
    (!name.contains('\\')).then(|| registry.key(&format!(r"{USERS}\{name}")))?
}

pub fn group<'a>(registry: &'a Registry, name: &str) -> Option<&'a Key> {
    (!name.contains('\\')).then(|| registry.key(&format!(r"{GROUPS}\{name}")))?
}

pub fn flags(user: &Key) -> u32 {
    user.value("Flags")
        .and_then(|value| dword(&value.data))
        .unwrap_or(UF_NORMAL_ACCOUNT)
}

pub fn members(group: &Key) -> Vec<String> {
    group
        .value("Members")
        .filter(|value| value.kind == REG_MULTI_SZ)
        .map(|value| texts(&value.data))
        .unwrap_or_default()
}

/// Sets the password of a user that exists (the password itself is not kept); whether there is such a user.
pub fn set_password(registry: &mut Registry, name: &str) -> bool {
    if user(registry, name).is_none() {
        return false;
    }
    registry
        .set(&format!(r"{USERS}\{name}"), "PasswordSet", dword_value(1))
        .is_ok()
}

pub fn set_members(registry: &mut Registry, group: &str, members: &[String]) -> Result<(), String> {
    registry.set(&format!(r"{GROUPS}\{group}"), "Members", multi_sz(members))
}

pub fn set_text(registry: &mut Registry, user: &str, name: &str, text: &str) -> Result<(), String> {
    registry.set(&format!(r"{USERS}\{user}"), name, sz(text))
}

/// Well-known accounts and their SIDs, by the names Windows accepts for them (domain prefix optional).
const WELL_KNOWN: [(&str, &str, &str); 16] = [
    ("NT AUTHORITY", "SYSTEM", "S-1-5-18"),
    ("NT AUTHORITY", "LOCAL SERVICE", "S-1-5-19"),
    ("NT AUTHORITY", "NETWORK SERVICE", "S-1-5-20"),
    ("NT AUTHORITY", "Authenticated Users", "S-1-5-11"),
    ("NT AUTHORITY", "INTERACTIVE", "S-1-5-4"),
    ("NT AUTHORITY", "SERVICE", "S-1-5-6"),
    ("NT AUTHORITY", "NETWORK", "S-1-5-2"),
    ("", "Everyone", "S-1-1-0"),
    ("", "CREATOR OWNER", "S-1-3-0"),
    ("BUILTIN", "Administrators", "S-1-5-32-544"),
    ("BUILTIN", "Users", "S-1-5-32-545"),
    ("BUILTIN", "Guests", "S-1-5-32-546"),
    ("BUILTIN", "Backup Operators", "S-1-5-32-551"),
    ("BUILTIN", "Remote Desktop Users", "S-1-5-32-555"),
    ("BUILTIN", "Performance Monitor Users", "S-1-5-32-558"),
    (
        "NT SERVICE",
        "TrustedInstaller",
        "S-1-5-80-956008885-3418522649-1831038044-1853292631-2271478464",
    ),
];

/// The machine part of local account SIDs; the stand-in has one for all.
const MACHINE: &str = "S-1-5-21-1000000001-1000000002-1000000003";

/// The SID that an account name (or `*S-1-…`, or `S-1-…`) stands for; None when Windows would find none.
pub fn sid(registry: &Registry, name: &str) -> Option<String> {
    let literal = name.strip_prefix('*').unwrap_or(name);
    if literal.len() > 2 && literal[..2].eq_ignore_ascii_case("S-") {
        let parts: Vec<&str> = literal[2..].split('-').collect();
        let valid = parts.len() >= 3
            && parts[0] == "1"
            && parts.iter().all(|part| part.parse::<u64>().is_ok());
        return valid.then(|| literal.to_ascii_uppercase());
    }
    let (domain, account) = literal.rsplit_once('\\').unwrap_or(("", literal));
    for (known, known_name, sid) in WELL_KNOWN {
        if same(known_name, account) && (domain.is_empty() || same(domain, known)) {
            return Some(sid.into());
        }
    }
    if same(domain, "NT SERVICE") {
        let known = registry
            .key(&format!(
                r"HKLM\SYSTEM\CurrentControlSet\Services\{account}"
            ))
            .is_some();
        // The real one is a SHA-1 of the upper-cased name; only that it is a service SID matters here.
        return known.then(|| {
            format!(
                "S-1-5-80-{}",
                account
                    .to_uppercase()
                    .encode_utf16()
                    .map(u32::from)
                    .sum::<u32>()
            )
        });
    }
    let local = domain.is_empty() || domain == "." || same(domain, &super::computer_name(registry));
    if !local {
        return None;
    }
    let place = |path: &str| {
        registry
            .key(path)?
            .subkeys
            .values()
            .position(|key| same(&key.name, account))
            .map(|at| 1000 + at)
    };
    match account.to_ascii_lowercase().as_str() {
        "administrator" => Some(format!("{MACHINE}-500")),
        "guest" => Some(format!("{MACHINE}-501")),
        _ => place(USERS)
            .or_else(|| place(GROUPS).map(|rid| rid + 1000))
            .map(|rid| format!("{MACHINE}-{rid}")),
    }
}
