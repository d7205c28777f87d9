//! Local accounts and groups, from the SAM hive.
//!
//! Microsoft documents no layout of this hive. Names, numbers and memberships are read the way that forensic readers
//! agree on; what does not look so is unknown, not wrong.
//!
//! Source: Suhanov, and RegRipper's `samparse` for the layouts of `F`, `C` and `V`; [MS-SAMR] 2.2.1.12 for account control bits.

use winimg_formats::hive::{Data, Key};
use winimg_recipe::plan;
use winimg_recipe::recipe::RegistryKey;

use super::finding::{Finding, Verdict};
use super::image::{Answer, Image};

const ACCOUNT: RegistryKey = RegistryKey::known(r"HKLM\SAM\SAM\Domains\Account");
const BUILTIN: RegistryKey = RegistryKey::known(r"HKLM\SAM\SAM\Domains\Builtin");
/// Where a `C` value's offsets count from.
const C_BASE: usize = 0x34;
/// Of the account control bits in `F`.
const DISABLED: u16 = 0x0001;
const DONT_EXPIRE_PASSWORD: u16 = 0x0200;
/// Microsoft: Security identifiers, `S-1-5-32-544`.
const ADMINISTRATORS: u32 = 544;

/// The RID of the built-in Administrator, whatever it is called (Microsoft: Well-known SIDs).
pub const ADMINISTRATOR: u32 = 500;

/// A local user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct User {
    pub name: String,
    pub rid: u32,
    pub sid: String,
    pub disabled: bool,
    /// It has a password that expires and was never set (Microsoft: [MS-SAMR] 3.1.5.14.4, PasswordMustChange).
    pub must_change_password: bool,
    /// A member of Windows' own group of administrators.
    pub administrator: bool,
}

/// All local users, by their numbers.
pub fn users(image: &Image<'_>) -> Answer<Vec<User>> {
    let names = ACCOUNT.join(r"Users\Names");
    let Some(names) = image.key(&names)? else {
        return Err(Finding::unknown("accounts: the hive SAM names no users"));
    };
    let machine = machine_sid(image)?;
    let mut users = Vec::new();
    for key in names.keys()? {
        let name = key.name();
        let Some(rid) = rid(image, &ACCOUNT, "Users", &name)? else {
            continue;
        };
        let sid = format!("{machine}-{rid}");
        let record = image.value(&ACCOUNT.join(&format!(r"Users\{rid:08X}")), "F")?;
        let Some((bits, set)) = record.as_ref().and_then(fixed) else {
            let what = format!("the user {name}: its record has another form");
            return Err(Finding::unknown(what));
        };
        users.push(User {
            disabled: bits & DISABLED != 0,
            must_change_password: set == 0 && bits & DONT_EXPIRE_PASSWORD == 0,
            administrator: is_member(image, &BUILTIN, ADMINISTRATORS, &sid)?,
            name,
            rid,
            sid,
        });
    }
    users.sort_by_key(|user| user.rid);
    Ok(users)
}

/// Of a user's `F` the account control bits, and when its password was set last: 100 ns since 1601, 0 is never.
fn fixed(record: &Data) -> Option<(u16, u64)> {
    let Data::Binary(bytes) = record else {
        return None;
    };
    let bits = bytes.get(0x38..)?.first_chunk()?;
    let set = bytes.get(0x18..)?.first_chunk()?;
    Some((u16::from_le_bytes(*bits), u64::from_le_bytes(*set)))
}

/// The machine's own SID.
pub fn machine_sid(image: &Image<'_>) -> Answer<String> {
    machine(image)?.ok_or_else(|| Finding::unknown("the machine's SID: the hive SAM has none"))
}

pub fn user(image: &Image<'_>, name: &str, present: bool, disabled: bool) -> Verdict {
    let rid = rid(image, &ACCOUNT, "Users", name)?;
    let Some(rid) = wanted(rid, present, &format!("user {name}"), "account")? else {
        return Ok(());
    };
    let word = |off: bool| if off { "disabled" } else { "enabled" };
    match is_disabled(image, rid)? {
        Some(found) if found == disabled => Ok(()),
        Some(found) => Err(
            Finding::error(format!("the user {name} is {}", word(found)))
                .expected(word(disabled))
                .cure("see which later step or program changes the account"),
        ),
        None => Err(Finding::unknown(format!(
            "whether the user {name} is {}: its record has another form",
            word(disabled)
        ))),
    }
}

/// Of the account with this RID; `None`: there is none, or its record has another form.
pub fn is_disabled(image: &Image<'_>, rid: u32) -> Answer<Option<bool>> {
    let record = image.value(&ACCOUNT.join(&format!(r"Users\{rid:08X}")), "F")?;
    let bits = record.as_ref().and_then(fixed).map(|(bits, _)| bits);
    Ok(bits.map(|bits| bits & DISABLED != 0))
}

pub fn group(image: &Image<'_>, name: &str, present: bool, members: &[String]) -> Verdict {
    let found = alias(image, name)?;
    let Some((domain, rid)) = wanted(found, present, &format!("group {name}"), "group")? else {
        return Ok(());
    };
    let mut missing = Vec::new();
    let mut unknown = Vec::new();
    for member in members {
        match sid(image, member)? {
            None => unknown.push(member.as_str()),
            Some(sid) if is_member(image, &domain, rid, &sid)? => {}
            Some(_) => missing.push(member.as_str()),
        }
    }
    if !missing.is_empty() {
        return Err(
            Finding::error(format!("the group {name} lacks {}", missing.join(", ")))
                .expected(members.join(", "))
                .cure("see the log of the step that fills the group"),
        );
    }
    match unknown.is_empty() {
        true => Ok(()),
        false => Err(Finding::unknown(format!(
            "who {} is, and so whether the group {name} has it",
            unknown.join(", ")
        ))),
    }
}

/// What is there and has to be; `None`: it is rightly absent. `what` as in "the user node", `made` is what a step makes.
fn wanted<T>(found: Option<T>, present: bool, what: &str, made: &str) -> Answer<Option<T>> {
    match (found, present) {
        (None, true) => Err(Finding::error(format!("there is no {what}"))
            .cure(format!("see the log of the step that makes the {made}"))),
        (Some(_), false) => Err(Finding::error(format!("the {what} is still there"))
            .cure(format!("see which later step or program makes the {made}"))),
        (found, _) => Ok(found),
    }
}

/// The number of a name; in the registry it is the *type* of the default value.
fn rid(image: &Image<'_>, domain: &RegistryKey, kind: &str, name: &str) -> Answer<Option<u32>> {
    let names = domain.join(&format!(r"{kind}\Names"));
    let Some(key) = image.key(&names)? else {
        return Err(Finding::unknown(format!(
            "accounts: the hive SAM has no {names}"
        )));
    };
    let Some(named) = child(&key, name)? else {
        return Ok(None);
    };
    match named.value("")? {
        Some(Data::Other { kind, .. }) => Ok(Some(kind)),
        _ => Err(Finding::unknown(format!(
            "the account {name}: its name has no number"
        ))),
    }
}

/// Names are one level only: a backslash in one is no path.
fn child<'h>(key: &Key<'h>, name: &str) -> Answer<Option<Key<'h>>> {
    match name.contains('\\') {
        true => Ok(None),
        false => Ok(key.key(name)?),
    }
}

/// The domain and number of a local group. One of Windows' own is known by its number: its name may be in any language.
fn alias(image: &Image<'_>, name: &str) -> Answer<Option<(RegistryKey, u32)>> {
    let own = plan::known_sid(name).unwrap_or(name);
    if let Some(Ok(rid)) = own.strip_prefix("S-1-5-32-").map(str::parse::<u32>) {
        let key = image.key(&BUILTIN.join(&format!(r"Aliases\{rid:08X}")))?;
        return Ok(key.map(|_| (BUILTIN, rid)));
    }
    for domain in [BUILTIN, ACCOUNT] {
        if let Some(rid) = rid(image, &domain, "Aliases", name)? {
            return Ok(Some((domain, rid)));
        }
    }
    Ok(None)
}

/// The SID of a SID, of a well-known name, or of a local user or group; `None`: not to be known from outside.
pub fn sid(image: &Image<'_>, principal: &str) -> Answer<Option<String>> {
    if principal.to_uppercase().starts_with("S-1-") {
        return Ok(Some(principal.to_uppercase()));
    }
    if let Some(sid) = plan::known_sid(principal) {
        return Ok(Some(sid.to_owned()));
    }
    if let Some(rid) = rid(image, &ACCOUNT, "Users", principal)? {
        return Ok(machine(image)?.map(|machine| format!("{machine}-{rid}")));
    }
    Ok(match alias(image, principal)? {
        Some((domain, rid)) if domain == BUILTIN => Some(format!("S-1-5-32-{rid}")),
        Some((_, rid)) => machine(image)?.map(|machine| format!("{machine}-{rid}")),
        None => None,
    })
}

/// The machine's own SID: the last three numbers of the domain's `V`.
fn machine(image: &Image<'_>) -> Answer<Option<String>> {
    let Some(Data::Binary(bytes)) = image.value(&ACCOUNT, "V")? else {
        return Ok(None);
    };
    let numbers = bytes.last_chunk::<12>();
    Ok(numbers.map(|numbers| format!("S-1-5-21{}", sub_authorities(numbers))))
}

fn is_member(image: &Image<'_>, domain: &RegistryKey, rid: u32, sid: &str) -> Answer<bool> {
    let list = image.value(&domain.join(&format!(r"Aliases\{rid:08X}")), "C")?;
    Ok(match list {
        Some(Data::Binary(bytes)) => members(&bytes).iter().any(|member| member == sid),
        _ => false,
    })
}

/// The SIDs that a group's `C` lists.
fn members(bytes: &[u8]) -> Vec<String> {
    let word = |at: usize| {
        let part = bytes.get(at..)?.first_chunk()?;
        Some(u32::from_le_bytes(*part) as usize)
    };
    let (Some(offset), Some(count)) = (word(0x28), word(0x30)) else {
        return Vec::new();
    };
    let mut rest = bytes
        .get(C_BASE.saturating_add(offset)..)
        .unwrap_or_default();
    let mut sids = Vec::new();
    for _ in 0..count {
        let Some((sid, len)) = binary_sid(rest) else {
            break;
        };
        sids.push(sid);
        rest = &rest[len..];
    }
    sids
}

/// Microsoft: [MS-DTYP] 2.4.2.2 "SID--Packet Representation". The SID and its length in bytes.
fn binary_sid(bytes: &[u8]) -> Option<(String, usize)> {
    let [1, count, authority @ ..] = bytes.get(..8)? else {
        return None;
    };
    let len = 8 + 4 * usize::from(*count);
    let parts = bytes.get(8..len)?;
    let authority = authority.iter().fold(0u64, |n, b| n << 8 | u64::from(*b));
    let mut text = format!("S-1-{authority}");
    text += &sub_authorities(parts);
    Some((text, len))
}

/// `-1-2-3` of 32-bit numbers.
fn sub_authorities(bytes: &[u8]) -> String {
    let (numbers, _) = bytes.as_chunks::<4>();
    let numbers = numbers.iter().copied().map(u32::from_le_bytes);
    numbers.map(|number| format!("-{number}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_lists_its_members() {
        let mut c = vec![0; C_BASE];
        c[0x28] = 4;
        c[0x30] = 2;
        c.extend([0xff; 4]);
        c.extend(hex::decode("010100000000000512000000").expect("hex"));
        c.extend(
            hex::decode(
                "01050000000000051500000001000000020000000300000 0e8030000".replace(' ', ""),
            )
            .expect("hex"),
        );
        assert_eq!(members(&c), ["S-1-5-18", "S-1-5-21-1-2-3-1000"]);
        c.truncate(C_BASE + 20);
        assert_eq!(members(&c), ["S-1-5-18"]);
        assert!(members(&[]).is_empty());
    }
}
