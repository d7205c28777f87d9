//! Registry key in a hive of the image, parsed once when it is read.
//!
//! Refuses keys that only a running Windows has: those in another user's hive, in views such as
//! HKCR, and in volatile hives (Microsoft: Registry Hives; Registry Element Size Limits).

use std::borrow::Cow;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::model::guest_name::{self, NameRefusal, fold_case, is_below, refuse};

/// A root key in its short and long form, and the hives below it that every image has.
struct RegistryRoot {
    short: &'static str,
    long: &'static str,
    hives: [&'static str; 4],
}

const ROOTS: [RegistryRoot; 2] = [
    RegistryRoot {
        short: "HKLM",
        long: "HKEY_LOCAL_MACHINE",
        hives: ["SOFTWARE", "SYSTEM", "SAM", "SECURITY"],
    },
    RegistryRoot {
        short: "HKU",
        long: "HKEY_USERS",
        hives: [".DEFAULT", "S-1-5-18", "S-1-5-19", "S-1-5-20"],
    },
];

/// A key with the short form of its root, `HKLM\SOFTWARE\Example`. Comparison ignores case, as in
/// Windows.
#[derive(Clone, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "String", into = "String")]
#[schemars(inline, with = "String", description = "")]
pub struct RegistryKey(Cow<'static, str>);

impl RegistryKey {
    /// Makes a key of winimg's own from its canonical spelling.
    pub const fn from_static(text: &'static str) -> Self {
        Self(Cow::Borrowed(text))
    }

    /// Parses a key. Accepts both forms of the root, and a trailing backslash.
    pub(crate) fn parse(written: &str) -> Result<Self, NameRefusal> {
        guest_name::control_characters(written)?;
        let (root, rest) = written.split_once('\\').unwrap_or((written, ""));
        let root = root.to_uppercase();
        let Some(known) = ROOTS.iter().find(|r| r.short == root || r.long == root) else {
            return foreign_root(written, &root, rest);
        };
        let rest = rest.strip_suffix('\\').unwrap_or(rest);
        if rest.is_empty() {
            return refuse("it is a root key", "name a key below it");
        }
        for name in rest.split('\\') {
            if name.is_empty() {
                let why = "it has an empty key name";
                return refuse(why, "write each backslash once, in single quotes");
            }
            if name.chars().count() > 255 {
                return refuse("a key name has at most 255 characters", "");
            }
        }
        let key = Self(format!("{}\\{rest}", known.short).into());
        let hive = key.hive();
        if !known.hives.iter().any(|h| h.eq_ignore_ascii_case(hive)) {
            let why = format!("`{}\\{hive}` is not a hive of every image", known.short);
            let help = format!("hives of {}: {}", known.short, known.hives.join(", "));
            return refuse(why, help);
        }
        Ok(key)
    }

    /// `HKLM\SOFTWARE\Example`
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// `HKEY_LOCAL_MACHINE\SOFTWARE\Example`
    pub fn to_long(&self) -> String {
        let (short, rest) = self.0.split_once('\\').unwrap_or_default();
        let root = ROOTS.iter().find(|root| root.short == short);
        format!("{}\\{rest}", root.map_or(short, |root| root.long))
    }

    /// The first name below the root: `SOFTWARE`, `.DEFAULT`.
    pub fn hive(&self) -> &str {
        self.0.split('\\').nth(1).unwrap_or_default()
    }

    /// Returns the path below the hive; empty for the hive itself.
    pub fn subkey(&self) -> &str {
        self.0.splitn(3, '\\').nth(2).unwrap_or_default()
    }

    /// Returns a key below it; `below` has backslashes between names.
    pub fn join(&self, below: &str) -> Self {
        Self(format!("{self}\\{below}").into())
    }

    /// Returns the key it is in; `None` for a hive.
    pub(crate) fn parent(&self) -> Option<Self> {
        let (parent, _) = self.0.rsplit_once('\\')?;
        parent
            .contains('\\')
            .then(|| Self(parent.to_owned().into()))
    }

    /// Returns true if it is `key` or is below it.
    pub fn starts_with(&self, key: &Self) -> bool {
        is_below(&self.0, &key.0)
    }
}

/// Explains why no image has a key below this root.
fn foreign_root<T>(written: &str, root: &str, rest: &str) -> Result<T, NameRefusal> {
    if let Some(plain) = root.strip_suffix(':') {
        let help = format!("write '{plain}\\{}'", rest.trim_start_matches('\\'));
        return refuse("the colon is PowerShell's, not the registry's", help);
    }
    if written.contains('/') && !written.contains('\\') {
        let help = format!("write '{}'", written.replace('/', "\\"));
        return refuse("it has forward slashes", help);
    }
    match root {
        "HKCU" | "HKEY_CURRENT_USER" => refuse(
            "steps run as SYSTEM, and HKCU is only its own",
            "write to HKLM, or to HKU\\.DEFAULT",
        ),
        "HKCR" | "HKEY_CLASSES_ROOT" => refuse(
            "HKCR is a view of two other keys",
            format!("write 'HKLM\\SOFTWARE\\Classes\\{rest}'"),
        ),
        _ => refuse(
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
        Self::parse(text).map_err(|(why, _)| format!("`{text}` is not a registry key: {why}"))
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
        fold_case(&self.0).eq(fold_case(&other.0))
    }
}

impl Eq for RegistryKey {}

impl Hash for RegistryKey {
    fn hash<H: Hasher>(&self, state: &mut H) {
        fold_case(&self.0).for_each(|c| c.hash(state));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_come_out_short() {
        let key: RegistryKey = r"hkey_local_machine\SOFTWARE\X\".parse().expect("a key");
        assert_eq!(key.as_str(), r"HKLM\SOFTWARE\X");
        assert_eq!(key.to_long(), r"HKEY_LOCAL_MACHINE\SOFTWARE\X");
        assert_eq!((key.hive(), key.subkey()), ("SOFTWARE", "X"));
        assert_eq!(key, RegistryKey::from_static(r"HKLM\Software\x"));
        assert_eq!(
            key.parent(),
            Some(RegistryKey::from_static(r"HKLM\Software"))
        );
        let hive = RegistryKey::from_static(r"HKU\.DEFAULT");
        assert_eq!(hive.parent(), None);
        assert_eq!((hive.hive(), hive.subkey()), (".DEFAULT", ""));
        assert!(hive.join(r"Console\x").starts_with(&hive));
    }

    #[test]
    fn what_no_image_has_is_refused_with_its_reason() {
        let colon = RegistryKey::parse("HKLM:\\SOFTWARE\\X").expect_err("a colon");
        assert_eq!(colon.1, "write 'HKLM\\SOFTWARE\\X'");
        for (bad, why) in [
            ("HKLM", "it is a root key"),
            ("HKLM\\", "it is a root key"),
            ("SOFTWARE\\X", "it does not start with HKLM or HKU"),
            ("HKLM/SOFTWARE/X", "it has forward slashes"),
            ("HKCU\\X", "steps run as SYSTEM, and HKCU is only its own"),
            ("HKCR\\.txt", "HKCR is a view of two other keys"),
            ("HKLM\\SOFTWARE\\\\X", "it has an empty key name"),
            (
                "HKLM\\SOFTWRE\\X",
                "`HKLM\\SOFTWRE` is not a hive of every image",
            ),
            (
                "HKU\\S-1-5-21-1",
                "`HKU\\S-1-5-21-1` is not a hive of every image",
            ),
            (
                "HKLM\\SOFTWARE\\a\tb",
                "it contains the control character \\t",
            ),
        ] {
            let found = RegistryKey::parse(bad).expect_err(bad);
            assert_eq!(found.0, why, "{bad}");
        }
    }
}
