//! Local users and groups, kept in the SAM hive: `SAM\Domains\Account\Users\Names\NAME` with `Flags` (REG_DWORD, the
//! UF_ bits of NetUserAdd), `Comment`, `FullName` and `PasswordSet` (REG_DWORD 1 once a password was given), and
//! `SAM\Domains\Builtin\Aliases\Names\NAME` (a group made here: `Account\Aliases`) with `Members` (REG_MULTI_SZ) and
//! `Comment`; `MustChange` (REG_DWORD 1). These values are the stand-in's own; `sam.rs` writes Windows' form of them beside.
//! A password is only judged (blank, length), not kept: `Verifier` tells whether one is the same.

mod sam;

use std::collections::BTreeMap;
use std::io::Read;

use sha2::{Digest, Sha256};

use super::error::Win32;
use super::regf::{Key, REG_BINARY, REG_MULTI_SZ, same};
use super::registry::{Registry, dword, dword_value, multi_sz, sz, texts};

pub use sam::binary;

pub const USERS: &str = r"HKLM\SAM\SAM\Domains\Account\Users\Names";
const USER_NAMES: [&str; 4] = ["Domains", "Account", "Users", "Names"];
/// Windows' own groups, and those made on this machine.
const ALIASES: [&[&str]; 2] = [
    &["Domains", "Builtin", "Aliases"],
    &["Domains", "Account", "Aliases"],
];
const MEMBERS_OF: [&str; 4] = ["Domains", "Builtin", "Aliases", "Members"];
const GROUPS: [&str; 2] = [
    r"HKLM\SAM\SAM\Domains\Builtin\Aliases\Names",
    r"HKLM\SAM\SAM\Domains\Account\Aliases\Names",
];
/// "Account is disabled", "normal account" and "password does not expire", of NetUserAdd.
pub const UF_ACCOUNTDISABLE: u32 = 2;
pub const UF_NORMAL_ACCOUNT: u32 = 0x200;
pub const UF_DONT_EXPIRE_PASSWD: u32 = 0x1_0000;
/// Set (1) when the next logon has to change the password.
const MUST_CHANGE: &str = "MustChange";
/// Bytes of a verifier before its digest.
const SALT: usize = 16;

/// Windows' own groups, their RIDs and who is in them at first.
const BUILTIN: [(&str, u32, &[&str]); 20] = [
    ("Administrators", 544, &["Administrator"]),
    ("Users", 545, &[]),
    ("Guests", 546, &["Guest"]),
    ("Power Users", 547, &[]),
    ("Print Operators", 550, &[]),
    ("Backup Operators", 551, &[]),
    ("Replicator", 552, &[]),
    ("Remote Desktop Users", 555, &[]),
    ("Network Configuration Operators", 556, &[]),
    ("Performance Monitor Users", 558, &[]),
    ("Performance Log Users", 559, &[]),
    ("Distributed COM Users", 562, &[]),
    ("IIS_IUSRS", 568, &[]),
    ("Cryptographic Operators", 569, &[]),
    ("Event Log Readers", 573, &[]),
    ("Hyper-V Administrators", 578, &[]),
    ("Access Control Assistance Operators", 579, &[]),
    ("Remote Management Users", 580, &[]),
    ("System Managed Accounts Group", 581, &[]),
    ("Storage Replica Administrators", 582, &[]),
];

pub fn create(sam: &mut Key) {
    for (user, rid, flags) in [("Administrator", 500, 0), ("Guest", 501, UF_ACCOUNTDISABLE)] {
        let key = sam.make(&[&USER_NAMES[..], &[user]].concat());
        let (kind, data) = dword_value(UF_NORMAL_ACCOUNT | flags);
        key.set("", rid, Vec::new());
        key.set("Flags", kind, data);
    }
    for (group, rid, members) in BUILTIN {
        let (kind, data) = multi_sz(members);
        let key = sam.make(&[ALIASES[0], &["Names", group]].concat());
        key.set("", rid, Vec::new());
        key.set("Members", kind, data);
    }
    sam.make(&[ALIASES[1], &["Names"]].concat());
    sam::write(sam, &|name| match name {
        "Administrator" => Some(format!("{MACHINE}-500")),
        "Guest" => Some(format!("{MACHINE}-501")),
        _ => None,
    });
}

/// Brings Windows' form of the accounts up to date after a change.
pub fn publish(registry: &mut Registry) {
    let mut sids = BTreeMap::new();
    for group in groups(registry) {
        for name in members(group) {
            if let Some(sid) = sid(registry, &name) {
                sids.insert(name, sid);
            }
        }
    }
    if let Some(sam) = registry.key_mut(r"HKLM\SAM\SAM") {
        sam::write(sam, &|name| sids.get(name).cloned());
    }
}

pub fn user<'a>(registry: &'a Registry, name: &str) -> Option<&'a Key> {
    (!name.contains('\\')).then(|| registry.key(&format!(r"{USERS}\{name}")))?
}

/// The key of a group that exists.
fn group_path(registry: &Registry, name: &str) -> Option<String> {
    let paths = GROUPS.map(|groups| format!(r"{groups}\{name}"));
    paths
        .into_iter()
        .find(|path| !name.contains('\\') && registry.key(path).is_some())
}

pub fn group<'a>(registry: &'a Registry, name: &str) -> Option<&'a Key> {
    registry.key(&group_path(registry, name)?)
}

/// Every group, Windows' own first.
pub fn groups(registry: &Registry) -> Vec<&Key> {
    GROUPS
        .iter()
        .filter_map(|path| registry.key(path))
        .flat_map(|key| key.subkeys.values())
        .collect()
}

/// Whether Windows brings this group; such a one can't be deleted.
pub fn is_builtin(name: &str) -> bool {
    BUILTIN.iter().any(|(known, ..)| same(known, name))
}

/// The RID of a `Names` key: the type of its default value.
pub fn rid(key: &Key) -> u32 {
    key.value("").map_or(0, |value| value.kind)
}

/// The next RID: users and groups of the machine share one row that begins at 1000.
fn next_rid(registry: &Registry) -> u32 {
    [USERS, GROUPS[1]]
        .iter()
        .filter_map(|path| registry.key(path))
        .flat_map(|key| key.subkeys.values())
        .map(|key| rid(key) + 1)
        .max()
        .unwrap_or(0)
        .max(1000)
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

/// Makes a user, or sets the flags of one that exists.
pub fn set_flags(registry: &mut Registry, name: &str, flags: u32) -> Result<(), String> {
    let path = format!(r"{USERS}\{name}");
    if registry.key(&path).is_none() {
        let rid = next_rid(registry);
        registry.set(&path, "", (rid, Vec::new()))?;
    }
    registry.set(&path, "Flags", dword_value(flags))
}

/// Removes a user, also from the groups.
pub fn remove_user(registry: &mut Registry, name: &str) -> Result<(), String> {
    let left = |group: &Key| -> Vec<String> {
        members(group)
            .into_iter()
            .filter(|member| !same(member, name))
            .collect()
    };
    let changed: Vec<(String, Vec<String>)> = groups(registry)
        .into_iter()
        .map(|group| (group.name.clone(), left(group)))
        .collect();
    for (group, members) in changed {
        set_members(registry, &group, &members)?;
    }
    registry.remove(&format!(r"{USERS}\{name}"));
    Ok(())
}

/// Sets the password of a user that exists (the password itself is not kept); whether there is such a user.
pub fn set_password(registry: &mut Registry, name: &str, password: &str) -> bool {
    if user(registry, name).is_none() {
        return false;
    }
    let mut salt = [0; SALT];
    let _ = std::fs::File::open("/dev/urandom").and_then(|mut file| file.read_exact(&mut salt));
    let verifier = [&salt[..], &digest(&salt, password)].concat();
    let key = format!(r"{USERS}\{name}");
    if let Some(user) = registry.key_mut(&key) {
        user.unset(MUST_CHANGE);
    }
    registry.set(&key, "PasswordSet", dword_value(1)).is_ok()
        && registry
            .set(&key, "Verifier", (REG_BINARY, verifier))
            .is_ok()
}

fn digest(salt: &[u8], password: &str) -> Vec<u8> {
    let hash = Sha256::new().chain_update(salt).chain_update(password);
    hash.finalize().to_vec()
}

/// The user has to choose another password at the next logon.
pub fn must_change(registry: &mut Registry, name: &str) -> Result<(), String> {
    registry.set(&format!(r"{USERS}\{name}"), MUST_CHANGE, dword_value(1))
}

/// Whether the machine's policy asks for passwords of several kinds of characters, as a fresh Windows Server's does.
pub fn wants_complexity(registry: &Registry) -> bool {
    registry.dword(ACCOUNT, "PasswordComplexity") != Some(0)
}

pub fn set_complexity(registry: &mut Registry, wanted: bool) -> Result<(), String> {
    registry.set(ACCOUNT, "PasswordComplexity", dword_value(wanted.into()))
}

/// The user with a RID, by name.
pub fn by_rid(registry: &Registry, wanted: u32) -> Option<String> {
    let mut users = registry.key(USERS)?.subkeys.values();
    users
        .find(|user| rid(user) == wanted)
        .map(|user| user.name.clone())
}

/// Gives a user another name; RID, flags, password and groups stay.
pub fn rename(registry: &mut Registry, old: &str, new: &str) -> Result<(), String> {
    if user(registry, new).is_some() || group(registry, new).is_some() {
        return Err("The account already exists.".to_owned());
    }
    let mut key = user(registry, old)
        .cloned()
        .ok_or("The user name could not be found.")?;
    key.name = new.to_owned();
    registry.remove(&format!(r"{USERS}\{old}"));
    let names = registry.make(USERS).map_err(|fault| format!("{fault:?}"))?;
    names.subkeys.insert(new.to_uppercase(), key);
    let changed: Vec<(String, Vec<String>)> = groups(registry)
        .into_iter()
        .map(|group| (group.name.clone(), members(group)))
        .filter(|(_, members)| members.iter().any(|member| same(member, old)))
        .collect();
    for (group, mut members) in changed {
        for member in members.iter_mut().filter(|member| same(member, old)) {
            *member = new.to_owned();
        }
        set_members(registry, &group, &members)?;
    }
    Ok(())
}

/// What generalize does: the built-in administrator has no password any more.
pub fn blank_administrator(registry: &mut Registry) {
    let name = by_rid(registry, 500).unwrap_or_default();
    if let Some(user) = registry.key_mut(&format!(r"{USERS}\{name}")) {
        user.unset("PasswordSet");
        user.unset("Verifier");
    }
}

/// An enabled built-in administrator without a password has to choose one at the first logon.
pub fn close_administrator(registry: &mut Registry) -> Result<(), String> {
    let name = by_rid(registry, 500).ok_or("there is no account with RID 500")?;
    let blank = user(registry, &name).is_some_and(|user| {
        user.value("PasswordSet").is_none() && flags(user) & UF_ACCOUNTDISABLE == 0
    });
    if blank {
        must_change(registry, &name)?;
    }
    Ok(())
}

/// What LogonUser says to a user at the machine itself.
pub fn logon(registry: &Registry, name: &str, password: &str) -> Result<(), Win32> {
    let user = user(registry, name).ok_or(Win32(1326))?;
    match () {
        () if !verifies(user, password) => Err(Win32(1326)),
        () if flags(user) & UF_ACCOUNTDISABLE != 0 => Err(Win32(1331)),
        () if user.value(MUST_CHANGE).is_some() => Err(Win32(1907)),
        () if password.is_empty() => Err(Win32(1327)),
        () => Ok(()),
    }
}

fn verifies(user: &Key, password: &str) -> bool {
    match user.value("Verifier") {
        None => password.is_empty(),
        Some(value) => value
            .data
            .split_at_checked(SALT)
            .is_some_and(|(salt, kept)| digest(salt, password) == kept),
    }
}

/// Whether Windows lets this user in from elsewhere: the account is enabled, and its password is this one and not blank.
pub fn takes(registry: &Registry, name: &str, password: &str) -> bool {
    logon(registry, name, password).is_ok()
}

/// Sets the members of a group, which is made when there is none of that name.
pub fn set_members(registry: &mut Registry, group: &str, members: &[String]) -> Result<(), String> {
    let path = match group_path(registry, group) {
        Some(path) => path,
        None => {
            let path = format!(r"{}\{group}", GROUPS[1]);
            let rid = next_rid(registry);
            registry.set(&path, "", (rid, Vec::new()))?;
            path
        }
    };
    registry.set(&path, "Members", multi_sz(members))
}

pub fn remove_group(registry: &mut Registry, name: &str) {
    if let Some(path) = group_path(registry, name) {
        registry.remove(&path);
    }
}

pub fn set_text(registry: &mut Registry, user: &str, name: &str, text: &str) -> Result<(), String> {
    registry.set(&format!(r"{USERS}\{user}"), name, sz(text))
}

pub fn set_group_text(
    registry: &mut Registry,
    group: &str,
    name: &str,
    text: &str,
) -> Result<(), String> {
    match group_path(registry, group) {
        Some(path) => registry.set(&path, name, sz(text)),
        None => Err(format!("no group {group}")),
    }
}

/// Well-known accounts and their SIDs, by the names Windows accepts for them (domain prefix optional).
const WELL_KNOWN: [(&str, &str, &str); 10] = [
    ("NT AUTHORITY", "SYSTEM", "S-1-5-18"),
    ("NT AUTHORITY", "LOCAL SERVICE", "S-1-5-19"),
    ("NT AUTHORITY", "NETWORK SERVICE", "S-1-5-20"),
    ("NT AUTHORITY", "Authenticated Users", "S-1-5-11"),
    ("NT AUTHORITY", "INTERACTIVE", "S-1-5-4"),
    ("NT AUTHORITY", "SERVICE", "S-1-5-6"),
    ("NT AUTHORITY", "NETWORK", "S-1-5-2"),
    ("", "Everyone", "S-1-1-0"),
    ("", "CREATOR OWNER", "S-1-3-0"),
    (
        "NT SERVICE",
        "TrustedInstaller",
        "S-1-5-80-956008885-3418522649-1831038044-1853292631-2271478464",
    ),
];

/// The machine part of local account SIDs in an image that Setup did not yet specialize.
const MACHINE: &str = "S-1-5-21-1000000001-1000000002-1000000003";
const ACCOUNT: &str = r"HKLM\SAM\SAM\Domains\Account";

/// The machine part of local account SIDs: the last twelve bytes of the domain's `V`.
fn machine_sid(registry: &Registry) -> String {
    let tail = registry
        .get(ACCOUNT, "V")
        .and_then(|value| value.data.last_chunk::<12>());
    tail.map_or_else(|| MACHINE.to_owned(), sam::machine)
}

/// Gives the machine another SID, as Setup does in the specialize pass of a generalized system.
pub fn new_machine_sid(registry: &mut Registry) -> Result<(), String> {
    let value = registry
        .get(ACCOUNT, "V")
        .ok_or("the SAM has no account domain")?;
    let mut data = value.data.clone();
    let (kind, at) = (value.kind, data.len().saturating_sub(12));
    data.truncate(at);
    data.extend(random::<12>()?);
    registry.set(ACCOUNT, "V", (kind, data))?;
    publish(registry);
    Ok(())
}

pub fn random<const N: usize>() -> Result<[u8; N], String> {
    let mut bytes = [0; N];
    std::fs::File::open("/dev/urandom")
        .and_then(|mut file| file.read_exact(&mut bytes))
        .map_err(|e| format!("no random numbers: {e}"))?;
    Ok(bytes)
}

/// A password that every policy takes and nobody knows.
pub fn random_password() -> Result<String, String> {
    let hex: String = random::<24>()?
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect();
    Ok(format!("aA1+{hex}"))
}

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
    let builtin = BUILTIN.iter().find(|(known, ..)| same(known, account));
    if let Some((_, rid, _)) = builtin.filter(|_| domain.is_empty() || same(domain, "BUILTIN")) {
        return Some(format!("S-1-5-32-{rid}"));
    }
    if same(domain, "NT SERVICE") {
        let known = registry
            .key(&format!(
                r"HKLM\SYSTEM\CurrentControlSet\Services\{account}"
            ))
            .is_some();
        return known.then(|| service_sid(account));
    }
    let local = domain.is_empty() || domain == "." || same(domain, &super::computer_name(registry));
    if !local {
        return None;
    }
    let key = user(registry, account).or_else(|| group(registry, account))?;
    Some(format!("{}-{}", machine_sid(registry), rid(key)))
}

/// A service's SID: SHA-1 of its upper-cased name in UTF-16.
fn service_sid(name: &str) -> String {
    let digest = sha1_smol::Sha1::from(super::regf::utf16(&name.to_uppercase()))
        .digest()
        .bytes();
    let parts = digest
        .chunks_exact(4)
        .map(|b| u32::from_le_bytes([b[0], b[1], b[2], b[3]]).to_string());
    format!("S-1-5-80-{}", parts.collect::<Vec<_>>().join("-"))
}
