//! The accounts in the form that Windows' own SAM hive has, beside the stand-in's values, so that other programs can
//! read them: `Users\RID` with `F` (RID and account control bits) and `V` (names), `Aliases\RID` with `C` (name and
//! member SIDs), `Names` keys whose default value has the RID as its type, and `Builtin\Aliases\Members`.
//!
//! No password hash is ever written, so nobody can log on with what lies here. Layout: chntpw's `sam.h`, RegRipper's
//! `samparse`.

use super::{
    ALIASES, MACHINE, MEMBERS_OF, UF_ACCOUNTDISABLE, UF_DONT_EXPIRE_PASSWD, USER_NAMES, flags,
    members, rid,
};
use crate::windows::regf::{Key, REG_BINARY, utf16};
use crate::windows::registry::text;

const UF_PASSWD_NOTREQD: u32 = 0x20;
/// `F` and `V` begin with a header of this many bytes; offsets in `V` count from there.
const F_LEN: usize = 80;
const V_HEAD: usize = 0xcc;
const C_HEAD: usize = 0x34;

/// Writes Windows' form of every account and group below `SAM\SAM`; `sid` finds the SID of a member.
pub fn write(sam: &mut Key, sid: &dyn Fn(&str) -> Option<String>) {
    let account = sam.make(&["Domains", "Account"]);
    if account.value("V").is_none() {
        let mut domain: Vec<u8> = vec![0; 0x140];
        domain.extend(binary(MACHINE).iter().skip(12));
        account.set("V", REG_BINARY, domain);
    }
    users(sam);
    let mut found: Vec<(String, u32)> = Vec::new();
    for path in ALIASES {
        let names = sam.make(path);
        let groups: Vec<Key> = names
            .find(&["Names"])
            .map(|names| names.subkeys.values().cloned().collect())
            .unwrap_or_default();
        names
            .subkeys
            .retain(|name, _| matches!(name.as_str(), "NAMES" | "MEMBERS"));
        for group in groups {
            let rid = rid(&group);
            let sids: Vec<String> = members(&group)
                .iter()
                .filter_map(|name| sid(name))
                .collect();
            if path == ALIASES[0] {
                found.extend(sids.iter().map(|sid| (sid.clone(), rid)));
            }
            let comment = comment(&group, "Comment");
            let data = alias(rid, &group.name, &comment, &sids);
            names
                .make(&[&format!("{rid:08X}")])
                .set("C", REG_BINARY, data);
        }
    }
    sam.make(&MEMBERS_OF).subkeys.clear();
    for (sid, _) in &found {
        let of: Vec<u8> = found
            .iter()
            .filter(|(other, _)| other == sid)
            .flat_map(|(_, rid)| rid.to_le_bytes())
            .collect();
        let Some((above, last)) = sid.rsplit_once('-') else {
            continue;
        };
        let last = format!("{:08X}", last.parse::<u32>().unwrap_or_default());
        let key = sam.make(&[&MEMBERS_OF[..], &[above, &last]].concat());
        key.set("", of.len() as u32 / 4, of);
    }
}

/// The machine's SID from the end of the domain's `V`.
pub fn machine(tail: &[u8; 12]) -> String {
    let parts = tail.chunks_exact(4).map(|part| {
        let part: [u8; 4] = part.try_into().unwrap_or_default();
        u32::from_le_bytes(part).to_string()
    });
    format!("S-1-5-21-{}", parts.collect::<Vec<_>>().join("-"))
}

fn users(sam: &mut Key) {
    let users = sam.make(&USER_NAMES[..3]);
    let names: Vec<Key> = users
        .find(&["Names"])
        .map(|names| names.subkeys.values().cloned().collect())
        .unwrap_or_default();
    users.subkeys.retain(|name, _| name == "NAMES");
    for user in names {
        let rid = rid(&user);
        let key = users.make(&[&format!("{rid:08X}")]);
        key.set("F", REG_BINARY, fixed(rid, flags(&user)));
        let texts = ["FullName", "Comment"].map(|name| comment(&user, name));
        key.set("V", REG_BINARY, variable(&user.name, &texts[0], &texts[1]));
    }
}

fn comment(key: &Key, name: &str) -> String {
    key.value(name)
        .map(|value| text(&value.data))
        .unwrap_or_default()
}

/// `F`: revision, times (zero: never), RID, primary group "None", account control bits.
fn fixed(rid: u32, flags: u32) -> Vec<u8> {
    let mut data = vec![0u8; F_LEN];
    data[0] = 3;
    data[2] = 1;
    data[0x30..0x34].copy_from_slice(&rid.to_le_bytes());
    data[0x34..0x38].copy_from_slice(&513u32.to_le_bytes());
    let mut bits: u16 = 0x10;
    for (flag, bit) in [
        (UF_ACCOUNTDISABLE, 1),
        (UF_PASSWD_NOTREQD, 4),
        (UF_DONT_EXPIRE_PASSWD, 0x200),
    ] {
        if flags & flag != 0 {
            bits |= bit;
        }
    }
    data[0x38..0x3a].copy_from_slice(&bits.to_le_bytes());
    data
}

/// `V`: seventeen entries of offset, length and a number; the second is the name, then full name and comment.
fn variable(name: &str, full_name: &str, comment: &str) -> Vec<u8> {
    let (mut head, mut body) = (vec![0u8; V_HEAD], Vec::new());
    for (at, text) in [(0x0c, name), (0x18, full_name), (0x24, comment)] {
        entry(&mut head, at, &mut body, utf16(text));
    }
    head.extend(body);
    head
}

/// `C`: RID, then entries for the name and the comment, then the members' SIDs and how many there are.
fn alias(rid: u32, name: &str, comment: &str, sids: &[String]) -> Vec<u8> {
    let (mut head, mut body) = (vec![0u8; C_HEAD], Vec::new());
    head[..4].copy_from_slice(&rid.to_le_bytes());
    entry(&mut head, 0x10, &mut body, utf16(name));
    entry(&mut head, 0x1c, &mut body, utf16(comment));
    let all: Vec<u8> = sids.iter().flat_map(|sid| binary(sid)).collect();
    entry(&mut head, 0x28, &mut body, all);
    head[0x30..0x34].copy_from_slice(&(sids.len() as u32).to_le_bytes());
    head.extend(body);
    head
}

fn entry(head: &mut [u8], at: usize, body: &mut Vec<u8>, data: Vec<u8>) {
    head[at..at + 4].copy_from_slice(&(body.len() as u32).to_le_bytes());
    head[at + 4..at + 8].copy_from_slice(&(data.len() as u32).to_le_bytes());
    body.extend(data);
    body.resize(body.len().next_multiple_of(4), 0);
}

/// A SID of the form `S-1-…` as bytes.
pub fn binary(sid: &str) -> Vec<u8> {
    let parts: Vec<u64> = sid
        .split('-')
        .skip(2)
        .filter_map(|part| part.parse().ok())
        .collect();
    let mut out = vec![1, parts.len().saturating_sub(1) as u8];
    out.extend(&parts.first().unwrap_or(&5).to_be_bytes()[2..]);
    parts
        .iter()
        .skip(1)
        .for_each(|part| out.extend((*part as u32).to_le_bytes()));
    out
}
