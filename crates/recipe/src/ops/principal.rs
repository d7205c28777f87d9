//! Well-known accounts and their SIDs, so that nothing depends on the language of Windows
//! (Microsoft: Well-known SIDs; Security identifiers, Well-known SIDs).
//!
//! A service's SID follows from its name alone, so a list can name a service that does not exist
//! yet.
//!
//! Refuses nothing: any other name is that of a local account, or a SID.

use std::fmt::Write as _;

use sha1::{Digest as _, Sha1};

/// A group of the machine itself: its members can be changed, unlike those of `Everyone`.
const BUILTIN: &str = "S-1-5-32-";

const KNOWN: &[(&str, &str)] = &[
    ("Everyone", "S-1-1-0"),
    ("CREATOR OWNER", CREATOR_OWNER),
    ("CREATOR GROUP", "S-1-3-1"),
    ("OWNER RIGHTS", "S-1-3-4"),
    ("NETWORK", "S-1-5-2"),
    ("BATCH", "S-1-5-3"),
    ("INTERACTIVE", "S-1-5-4"),
    ("SERVICE", "S-1-5-6"),
    ("ANONYMOUS LOGON", "S-1-5-7"),
    ("Authenticated Users", "S-1-5-11"),
    ("SYSTEM", SYSTEM),
    ("LocalSystem", SYSTEM),
    ("LocalService", "S-1-5-19"),
    ("LOCAL SERVICE", "S-1-5-19"),
    ("NetworkService", "S-1-5-20"),
    ("NETWORK SERVICE", "S-1-5-20"),
    ("Administrators", ADMINISTRATORS),
    ("Users", "S-1-5-32-545"),
    ("Guests", "S-1-5-32-546"),
    ("Power Users", "S-1-5-32-547"),
    ("Backup Operators", "S-1-5-32-551"),
    ("Replicator", "S-1-5-32-552"),
    ("Remote Desktop Users", "S-1-5-32-555"),
    ("Network Configuration Operators", "S-1-5-32-556"),
    ("Performance Monitor Users", "S-1-5-32-558"),
    ("Performance Log Users", "S-1-5-32-559"),
    ("Distributed COM Users", "S-1-5-32-562"),
    ("IIS_IUSRS", "S-1-5-32-568"),
    ("Cryptographic Operators", "S-1-5-32-569"),
    ("Event Log Readers", "S-1-5-32-573"),
    ("Hyper-V Administrators", "S-1-5-32-578"),
    ("Access Control Assistance Operators", "S-1-5-32-579"),
    ("Remote Management Users", "S-1-5-32-580"),
    ("ALL SERVICES", "S-1-5-80-0"),
    ("Virtual Machines", "S-1-5-83-0"),
    ("ALL APPLICATION PACKAGES", "S-1-15-2-1"),
    (
        "TrustedInstaller",
        "S-1-5-80-956008885-3418522649-1831038044-1853292631-2271478464",
    ),
];

pub(crate) const SYSTEM: &str = "S-1-5-18";
pub(crate) const ADMINISTRATORS: &str = "S-1-5-32-544";
/// Represents the account that creates a file below; only meaningful in inherited entries.
pub(crate) const CREATOR_OWNER: &str = "S-1-3-0";

/// Returns the English name and the SID of a well-known account. An authority before the name is
/// ignored.
pub(crate) fn find_known(name: &str) -> Option<(&'static str, &'static str)> {
    let plain = match name.split_once('\\') {
        Some((authority, rest)) if is_own(authority, rest) => rest,
        Some(_) => return None,
        None => name,
    };
    let found = KNOWN.iter().find(|(n, _)| n.eq_ignore_ascii_case(plain));
    found.copied()
}

fn is_own(authority: &str, name: &str) -> bool {
    let own = ["BUILTIN", "NT AUTHORITY", "NT VIRTUAL MACHINE"];
    own.iter().any(|a| a.eq_ignore_ascii_case(authority))
        || authority.eq_ignore_ascii_case("NT SERVICE")
            && (name.eq_ignore_ascii_case("TrustedInstaller")
                || name.eq_ignore_ascii_case("ALL SERVICES"))
}

/// Returns the English name and the SID of a built-in group whose members can be changed.
pub(crate) fn known_group(name: &str) -> Option<(&'static str, &'static str)> {
    find_known(name).filter(|(_, sid)| sid.starts_with(BUILTIN))
}

/// Returns the SID of a well-known account or of a service, or a SID unchanged; otherwise the name.
pub(crate) fn sid_or_name(name: &str) -> String {
    match find_known(name) {
        Some((_, sid)) => sid.to_owned(),
        None if is_sid(name) => name.to_ascii_uppercase(),
        None => match name.split_once('\\') {
            Some((authority, service)) if authority.eq_ignore_ascii_case("NT SERVICE") => {
                service_sid(service)
            }
            _ => name.to_owned(),
        },
    }
}

/// Computes `S-1-5-80-` and the SHA-1 of the upper-case name as five numbers (Microsoft: sc.exe
/// showsid).
fn service_sid(name: &str) -> String {
    let wide = name.to_uppercase();
    let bytes: Vec<u8> = wide.encode_utf16().flat_map(u16::to_le_bytes).collect();
    let mut sid = "S-1-5-80".to_owned();
    for part in Sha1::digest(&bytes).chunks_exact(4) {
        let number = u32::from_le_bytes([part[0], part[1], part[2], part[3]]);
        let _ = write!(sid, "-{number}");
    }
    sid
}

pub(crate) fn is_sid(text: &str) -> bool {
    text.len() > 4 && text.as_bytes()[..4].eq_ignore_ascii_case(b"S-1-")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_has_one_sid_however_it_is_written() {
        for name in ["administrators", r"BUILTIN\Administrators"] {
            assert_eq!(find_known(name), Some(("Administrators", ADMINISTRATORS)));
        }
        assert_eq!(sid_or_name(r"NT AUTHORITY\SYSTEM"), SYSTEM);
        assert_eq!(sid_or_name("s-1-5-21-1-2-3-500"), "S-1-5-21-1-2-3-500");
        let installer = find_known("TrustedInstaller").map(|(_, sid)| sid.to_owned());
        assert_eq!(Some(service_sid("trustedinstaller")), installer);
        assert!(sid_or_name(r"NT SERVICE\kubelet").starts_with("S-1-5-80-"));
        assert_eq!(sid_or_name("vagrant"), "vagrant");
        assert_eq!(known_group("Everyone"), None);
        let mut names: Vec<String> = KNOWN.iter().map(|(n, _)| n.to_lowercase()).collect();
        names.sort();
        names.dedup();
        assert_eq!(names.len(), KNOWN.len(), "a name is there twice");
    }
}
