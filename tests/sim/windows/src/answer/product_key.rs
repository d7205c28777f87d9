//! Product keys: their form, and Microsoft's public KMS client keys.
//!
//! Source: Microsoft, "Key Management Services (KMS) client activation and product keys".

/// (build, edition id, key)
const GVLK: [(u32, &str, &str); 6] = [
    (17763, "ServerStandard", "N69G4-B89J2-4G8F4-WWYCC-J464C"),
    (17763, "ServerDatacenter", "WMDGN-G9PQG-XVVXX-R3X43-63DFG"),
    (20348, "ServerStandard", "VDYBN-27WPP-V4HQT-9VMD4-VMK7H"),
    (20348, "ServerDatacenter", "WX4NM-KYWYW-QJJR4-XV3QB-6VM33"),
    (26100, "ServerStandard", "TVRH6-WHNXV-R9WG3-9XRFY-MY832"),
    (26100, "ServerDatacenter", "D764K-2NDRG-47T6Q-P8T8W-YP6DF"),
];

pub fn well_formed(key: &str) -> bool {
    let groups: Vec<&str> = key.split('-').collect();
    let group = |text: &&str| {
        text.len() == 5
            && text
                .bytes()
                .all(|b| b.is_ascii_uppercase() || b.is_ascii_digit())
    };
    groups.len() == 5 && groups.iter().all(group)
}

/// Whether `key` installs `edition` of `build`. An evaluation edition takes no key at all.
pub fn fits(key: &str, build: u32, edition: &str) -> bool {
    GVLK.iter()
        .any(|(of, id, text)| *of == build && *id == edition && *text == key)
}
