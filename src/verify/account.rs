//! Local accounts and groups, from the SAM hive.
//!
//! Microsoft does not document the layout of this hive. Names, numbers and memberships are read the
//! way forensic tools do; other layouts are reported as unknown, not as errors.
//!
//! Source: Suhanov, and RegRipper's `samparse` for the layouts of `F`, `C` and `V`; [MS-SAMR]
//! 2.2.1.12 for account control bits.

use winimg_formats::hive::{HiveKey, HiveValueData};
use winimg_recipe::RegistryKey;
use winimg_recipe::plan;

use super::finding::{Verdict, VerifyFinding};
use super::image::{CheckResult, InspectedImage};

const ACCOUNT: RegistryKey = RegistryKey::from_static(r"HKLM\SAM\SAM\Domains\Account");
const BUILTIN: RegistryKey = RegistryKey::from_static(r"HKLM\SAM\SAM\Domains\Builtin");
/// Base of the offsets in a `C` value.
const C_BASE: usize = 0x34;
/// Account control bit in `F`.
const DISABLED: u16 = 0x0001;
const DONT_EXPIRE_PASSWORD: u16 = 0x0200;
/// Microsoft: Security identifiers, `S-1-5-32-544`.
const ADMINISTRATORS_RID: u32 = 544;

/// The RID of the built-in Administrator, whatever it is called (Microsoft: Well-known SIDs).
pub const ADMINISTRATOR_RID: u32 = 500;

/// A local user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LocalUser {
    pub name: String,
    pub rid: u32,
    pub sid: String,
    pub disabled: bool,
    /// Its password expires and was never set (Microsoft: [MS-SAMR] 3.1.5.14.4,
    /// PasswordMustChange).
    pub must_change_password: bool,
    /// Is a member of the built-in group of administrators.
    pub administrator: bool,
}

/// Returns all local users, sorted by RID.
pub fn list_users(image: &InspectedImage<'_>) -> CheckResult<Vec<LocalUser>> {
    let names = ACCOUNT.join(r"Users\Names");
    let Some(names) = image.open_key(&names)? else {
        return Err(VerifyFinding::unknown(
            "accounts: the hive SAM names no users",
        ));
    };
    let machine = machine_sid(image)?;
    let mut users = Vec::new();
    for key in names.read_keys()? {
        let name = key.name();
        let Some(rid) = find_rid(image, &ACCOUNT, "Users", &name)? else {
            continue;
        };
        let sid = format!("{machine}-{rid}");
        let record = image.read_value(&ACCOUNT.join(&format!(r"Users\{rid:08X}")), "F")?;
        let Some((bits, password_set)) = record.as_ref().and_then(parse_fixed) else {
            let what = format!("the user {name}: its record has an unknown format");
            return Err(VerifyFinding::unknown(what));
        };
        users.push(LocalUser {
            disabled: bits & DISABLED != 0,
            must_change_password: password_set == 0 && bits & DONT_EXPIRE_PASSWORD == 0,
            administrator: is_member(image, &BUILTIN, ADMINISTRATORS_RID, &sid)?,
            name,
            rid,
            sid,
        });
    }
    users.sort_by_key(|user| user.rid);
    Ok(users)
}

/// Parses a user's `F`: the account control bits, and the time of the last password change in 100
/// ns since 1601, or 0 for never.
fn parse_fixed(record: &HiveValueData) -> Option<(u16, u64)> {
    let HiveValueData::Binary(bytes) = record else {
        return None;
    };
    let bits = bytes.get(0x38..)?.first_chunk()?;
    let set = bytes.get(0x18..)?.first_chunk()?;
    Some((u16::from_le_bytes(*bits), u64::from_le_bytes(*set)))
}

/// Returns the machine's own SID.
pub fn machine_sid(image: &InspectedImage<'_>) -> CheckResult<String> {
    find_machine_sid(image)?
        .ok_or_else(|| VerifyFinding::unknown("the machine's SID: the hive SAM has none"))
}

pub fn check_user(
    image: &InspectedImage<'_>,
    name: &str,
    present: bool,
    disabled: bool,
) -> Verdict {
    let rid = find_rid(image, &ACCOUNT, "Users", name)?;
    let Some(rid) = check_presence(rid, present, &format!("user {name}"), "account")? else {
        return Ok(());
    };
    let expected = describe_enabled(!disabled);
    match is_disabled(image, rid)? {
        Some(found) if found == disabled => Ok(()),
        Some(found) => Err(VerifyFinding::error(format!(
            "the user {name} is {}",
            describe_enabled(!found)
        ))
        .expected(expected)
        .cure("find the later step or program that changes the account")),
        None => Err(VerifyFinding::unknown(format!(
            "cannot tell whether the user {name} is {expected}: its record has an unknown format"
        ))),
    }
}

fn describe_enabled(is_enabled: bool) -> &'static str {
    if is_enabled { "enabled" } else { "disabled" }
}

/// Returns true if the account with this RID is disabled; `None` if there is no such account or its
/// record has an unknown format.
pub fn is_disabled(image: &InspectedImage<'_>, rid: u32) -> CheckResult<Option<bool>> {
    let record = image.read_value(&ACCOUNT.join(&format!(r"Users\{rid:08X}")), "F")?;
    let bits = record.as_ref().and_then(parse_fixed).map(|(bits, _)| bits);
    Ok(bits.map(|bits| bits & DISABLED != 0))
}

pub fn check_group(
    image: &InspectedImage<'_>,
    name: &str,
    present: bool,
    members: &[String],
) -> Verdict {
    let found = find_alias(image, name)?;
    let Some((domain, rid)) = check_presence(found, present, &format!("group {name}"), "group")?
    else {
        return Ok(());
    };
    let mut missing = Vec::new();
    let mut unknown = Vec::new();
    for member in members {
        match resolve_sid(image, member)? {
            None => unknown.push(member.as_str()),
            Some(sid) if is_member(image, &domain, rid, &sid)? => {}
            Some(_) => missing.push(member.as_str()),
        }
    }
    if !missing.is_empty() {
        return Err(VerifyFinding::error(format!(
            "not in the group {name}: {}",
            missing.join(", ")
        ))
        .expected(members.join(", "))
        .cure("check the log of the step that adds members to the group"));
    }
    if unknown.is_empty() {
        Ok(())
    } else {
        Err(VerifyFinding::unknown(format!(
            "cannot resolve {}, so its membership in the group {name} is unknown",
            unknown.join(", ")
        )))
    }
}

/// Compares existence with the expectation. Returns the account or group if it exists as expected;
/// `None` if it is absent as expected. `what` is for example "user node", `kind` "account".
fn check_presence<T>(
    found: Option<T>,
    present: bool,
    what: &str,
    kind: &str,
) -> CheckResult<Option<T>> {
    match (found, present) {
        (None, true) => Err(VerifyFinding::error(format!("there is no {what}"))
            .cure(format!("check the log of the step that creates the {kind}"))),
        (Some(_), false) => Err(
            VerifyFinding::error(format!("the {what} still exists")).cure(format!(
                "find the later step or program that creates the {kind}"
            )),
        ),
        (found, _) => Ok(found),
    }
}

/// Returns the RID of a name; the registry stores it as the *type* of the default value.
fn find_rid(
    image: &InspectedImage<'_>,
    domain: &RegistryKey,
    kind: &str,
    name: &str,
) -> CheckResult<Option<u32>> {
    let names = domain.join(&format!(r"{kind}\Names"));
    let Some(key) = image.open_key(&names)? else {
        return Err(VerifyFinding::unknown(format!(
            "accounts: the hive SAM has no {names}"
        )));
    };
    let Some(name_key) = open_child(&key, name)? else {
        return Ok(None);
    };
    match name_key.find_value("")? {
        Some(HiveValueData::Other { kind, .. }) => Ok(Some(kind)),
        _ => Err(VerifyFinding::unknown(format!(
            "the account {name}: its name has no number"
        ))),
    }
}

/// Opens a subkey by its name: a backslash in a name is not a path separator.
fn open_child<'h>(key: &HiveKey<'h>, name: &str) -> CheckResult<Option<HiveKey<'h>>> {
    if name.contains('\\') {
        Ok(None)
    } else {
        Ok(key.find_key(name)?)
    }
}

/// Returns the domain and RID of a local group. Built-in groups are found by RID, because their
/// names are localized.
fn find_alias(image: &InspectedImage<'_>, name: &str) -> CheckResult<Option<(RegistryKey, u32)>> {
    let sid = plan::known_sid(name).unwrap_or(name);
    if let Some(Ok(rid)) = sid.strip_prefix("S-1-5-32-").map(str::parse::<u32>) {
        let key = image.open_key(&BUILTIN.join(&format!(r"Aliases\{rid:08X}")))?;
        return Ok(key.map(|_| (BUILTIN, rid)));
    }
    for domain in [BUILTIN, ACCOUNT] {
        if let Some(rid) = find_rid(image, &domain, "Aliases", name)? {
            return Ok(Some((domain, rid)));
        }
    }
    Ok(None)
}

/// Resolves a SID, a well-known name, or a local user or group to its SID; `None` if it cannot be
/// resolved from outside.
pub fn resolve_sid(image: &InspectedImage<'_>, principal: &str) -> CheckResult<Option<String>> {
    if principal.to_uppercase().starts_with("S-1-") {
        return Ok(Some(principal.to_uppercase()));
    }
    if let Some(sid) = plan::known_sid(principal) {
        return Ok(Some(sid.to_owned()));
    }
    if let Some(rid) = find_rid(image, &ACCOUNT, "Users", principal)? {
        return Ok(find_machine_sid(image)?.map(|machine| format!("{machine}-{rid}")));
    }
    Ok(match find_alias(image, principal)? {
        Some((domain, rid)) if domain == BUILTIN => Some(format!("S-1-5-32-{rid}")),
        Some((_, rid)) => find_machine_sid(image)?.map(|machine| format!("{machine}-{rid}")),
        None => None,
    })
}

/// Reads the machine's own SID: the last three numbers of the domain's `V`.
fn find_machine_sid(image: &InspectedImage<'_>) -> CheckResult<Option<String>> {
    let Some(HiveValueData::Binary(bytes)) = image.read_value(&ACCOUNT, "V")? else {
        return Ok(None);
    };
    let numbers = bytes.last_chunk::<12>();
    Ok(numbers.map(|numbers| format!("S-1-5-21{}", render_sub_authorities(numbers))))
}

fn is_member(
    image: &InspectedImage<'_>,
    domain: &RegistryKey,
    rid: u32,
    sid: &str,
) -> CheckResult<bool> {
    let list = image.read_value(&domain.join(&format!(r"Aliases\{rid:08X}")), "C")?;
    Ok(match list {
        Some(HiveValueData::Binary(bytes)) => {
            parse_members(&bytes).iter().any(|member| member == sid)
        }
        _ => false,
    })
}

/// Parses the SIDs in a group's `C`.
fn parse_members(bytes: &[u8]) -> Vec<String> {
    let (Some(offset), Some(count)) = (read_u32(bytes, 0x28), read_u32(bytes, 0x30)) else {
        return Vec::new();
    };
    let mut rest = bytes
        .get(C_BASE.saturating_add(offset as usize)..)
        .unwrap_or_default();
    let mut sids = Vec::new();
    for _ in 0..count {
        let Some((sid, len)) = parse_sid(rest) else {
            break;
        };
        sids.push(sid);
        rest = &rest[len..];
    }
    sids
}

fn read_u32(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
}

/// Parses a SID and returns it with its length in bytes (Microsoft: [MS-DTYP] 2.4.2.2 "SID--Packet
/// Representation").
fn parse_sid(bytes: &[u8]) -> Option<(String, usize)> {
    let [1, count, authority @ ..] = bytes.get(..8)? else {
        return None;
    };
    let len = 8 + 4 * usize::from(*count);
    let parts = bytes.get(8..len)?;
    let authority = authority.iter().fold(0u64, |n, b| n << 8 | u64::from(*b));
    let mut text = format!("S-1-{authority}");
    text += &render_sub_authorities(parts);
    Some((text, len))
}

/// Renders 32-bit numbers as `-1-2-3`.
fn render_sub_authorities(bytes: &[u8]) -> String {
    let (numbers, _) = bytes.as_chunks::<4>();
    numbers
        .iter()
        .map(|number| format!("-{}", u32::from_le_bytes(*number)))
        .collect()
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
        assert_eq!(parse_members(&c), ["S-1-5-18", "S-1-5-21-1-2-3-1000"]);
        c.truncate(C_BASE + 20);
        assert_eq!(parse_members(&c), ["S-1-5-18"]);
        assert!(parse_members(&[]).is_empty());
    }
}
