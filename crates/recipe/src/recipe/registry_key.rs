//! A key of the registry in a hive that an image holds, parsed once where it comes in.
//!
//! Refuses what only a running Windows has: another user's hive, views such as HKCR, and the hives that it makes itself
//! (Microsoft: Registry Hives; Registry Element Size Limits).

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::guest_name::{self, Refusal, folded, is_below, refusal};

/// A root in its short and its long form, and the hives below it that every image has.
struct Root {
    short: &'static str,
    long: &'static str,
    hives: [&'static str; 4],
}

const ROOTS: [Root; 2] = [
    Root {
        short: "HKLM",
        long: "HKEY_LOCAL_MACHINE",
        hives: ["SOFTWARE", "SYSTEM", "SAM", "SECURITY"],
    },
    Root {
        short: "HKU",
        long: "HKEY_USERS",
        hives: [".DEFAULT", "S-1-5-18", "S-1-5-19", "S-1-5-20"],
    },
];

/// With its root in the short form, `HKLM\SOFTWARE\Example`. Two are equal as Windows compares names.
#[derive(Clone, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "String", into = "String")]
#[schemars(inline, with = "String", description = "")]
pub struct RegistryKey(Cow<'static, str>);

impl RegistryKey {
    /// One that winimg itself names, spelled as it is kept.
    pub const fn known(text: &'static str) -> Self {
        Self(Cow::Borrowed(text))
    }

    /// Takes either form of the root, and a backslash at the end.
    pub(super) fn parse(written: &str) -> Result<Self, Refusal> {
        guest_name::control_characters(written)?;
        let (root, rest) = written.split_once('\\').unwrap_or((written, ""));
        let root = root.to_uppercase();
        let Some(known) = ROOTS.iter().find(|r| r.short == root || r.long == root) else {
            return foreign_root(written, &root, rest);
        };
        let rest = rest.strip_suffix('\\').unwrap_or(rest);
        if rest.is_empty() {
            return refusal("it names only the root", "name a key below it");
        }
        for name in rest.split('\\') {
            if name.is_empty() {
                let why = "a key name in it is empty";
                return refusal(why, "write each backslash once, in single quotes");
            }
            if name.chars().count() > 255 {
                return refusal("a key name has at most 255 characters", "");
            }
        }
        let key = Self(format!("{}\\{rest}", known.short).into());
        let hive = key.hive();
        if !known.hives.iter().any(|h| h.eq_ignore_ascii_case(hive)) {
            let why = format!(
                "`{}\\{hive}` is no hive that every image holds",
                known.short
            );
            let help = format!("the hives of {}: {}", known.short, known.hives.join(", "));
            return refusal(why, help);
        }
        Ok(key)
    }

    /// `HKLM\SOFTWARE\Example`
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// `HKEY_LOCAL_MACHINE\SOFTWARE\Example`
    pub fn long(&self) -> String {
        let (short, rest) = self.0.split_once('\\').unwrap_or_default();
        let root = ROOTS.iter().find(|root| root.short == short);
        format!("{}\\{rest}", root.map_or(short, |root| root.long))
    }

    /// The first name below the root: `SOFTWARE`, `.DEFAULT`.
    pub fn hive(&self) -> &str {
        self.0.split('\\').nth(1).unwrap_or_default()
    }

    /// What follows the hive; empty for the hive itself.
    pub fn subkey(&self) -> &str {
        self.0.splitn(3, '\\').nth(2).unwrap_or_default()
    }

    /// A key below it, each name parted from the next by a backslash.
    pub fn join(&self, below: &str) -> Self {
        Self(format!("{self}\\{below}").into())
    }

    /// Whether it is `key` or lies below it.
    pub fn starts_with(&self, key: &Self) -> bool {
        is_below(&self.0, &key.0)
    }
}

/// Why no image has a key below this root.
fn foreign_root<T>(written: &str, root: &str, rest: &str) -> Result<T, Refusal> {
    if let Some(plain) = root.strip_suffix(':') {
        let help = format!("write '{plain}\\{}'", rest.trim_start_matches('\\'));
        return refusal("the colon is PowerShell's, not the registry's", help);
    }
    if written.contains('/') && !written.contains('\\') {
        let help = format!("write '{}'", written.replace('/', "\\"));
        return refusal("it has forward slashes", help);
    }
    match root {
        "HKCU" | "HKEY_CURRENT_USER" => refusal(
            "steps run as SYSTEM, whose HKCU no one else sees",
            "write to HKLM, or to HKU\\.DEFAULT",
        ),
        "HKCR" | "HKEY_CLASSES_ROOT" => refusal(
            "HKCR is a view of two other keys",
            format!("write 'HKLM\\SOFTWARE\\Classes\\{rest}'"),
        ),
        _ => refusal(
            format!(
                "it does not start with {}",
                ROOTS.map(|r| r.short).join(" or ")
            ),
            "write 'HKLM\\SOFTWARE\\…', in single quotes",
        ),
    }
}

impl fmt::Display for RegistryKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for RegistryKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.as_str(), f)
    }
}

impl FromStr for RegistryKey {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Self::parse(text).map_err(|(why, _)| format!("`{text}` is no registry key: {why}"))
    }
}

impl TryFrom<String> for RegistryKey {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl From<RegistryKey> for String {
    fn from(key: RegistryKey) -> Self {
        key.0.into_owned()
    }
}

impl PartialEq for RegistryKey {
    fn eq(&self, other: &Self) -> bool {
        folded(&self.0).eq(folded(&other.0))
    }
}

impl Eq for RegistryKey {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_come_out_short() {
        let key: RegistryKey = r"hkey_local_machine\SOFTWARE\X\".parse().expect("a key");
        assert_eq!(key.as_str(), r"HKLM\SOFTWARE\X");
        assert_eq!(key.long(), r"HKEY_LOCAL_MACHINE\SOFTWARE\X");
        assert_eq!((key.hive(), key.subkey()), ("SOFTWARE", "X"));
        assert_eq!(key, RegistryKey::known(r"HKLM\Software\x"));
        let hive = RegistryKey::known(r"HKU\.DEFAULT");
        assert_eq!((hive.hive(), hive.subkey()), (".DEFAULT", ""));
        assert!(hive.join(r"Console\x").starts_with(&hive));
    }

    #[test]
    fn what_no_image_has_is_refused_with_its_reason() {
        let colon = RegistryKey::parse("HKLM:\\SOFTWARE\\X").expect_err("a colon");
        assert_eq!(colon.1, "write 'HKLM\\SOFTWARE\\X'");
        for (bad, why) in [
            ("HKLM", "it names only the root"),
            ("HKLM\\", "it names only the root"),
            ("SOFTWARE\\X", "it does not start with HKLM or HKU"),
            ("HKLM/SOFTWARE/X", "it has forward slashes"),
            (
                "HKCU\\X",
                "steps run as SYSTEM, whose HKCU no one else sees",
            ),
            ("HKCR\\.txt", "HKCR is a view of two other keys"),
            ("HKLM\\SOFTWARE\\\\X", "a key name in it is empty"),
            (
                "HKLM\\SOFTWRE\\X",
                "`HKLM\\SOFTWRE` is no hive that every image holds",
            ),
            (
                "HKU\\S-1-5-21-1",
                "`HKU\\S-1-5-21-1` is no hive that every image holds",
            ),
            ("HKLM\\SOFTWARE\\a\tb", "it holds the control character \\t"),
        ] {
            let found = RegistryKey::parse(bad).expect_err(bad);
            assert_eq!(found.0, why, "{bad}");
        }
    }
}
