//! Path of a file or folder in the guest, parsed once when it is read.
//!
//! Refuses paths that are not absolute on C:, names that Windows would silently change (trailing
//! dots and spaces), and device names (Microsoft: Naming Files, Paths, and Namespaces).

use std::borrow::Cow;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::model::guest_name::{self, NameRefusal, fold_case, is_below, refuse};

/// Folder of winimg's files in the guest. Removed before the image is finished.
pub const GUEST_DIR: &str = r"C:\winimg";

/// Maximum path length of Windows programs, in UTF-16 units (Microsoft: Maximum Path Length
/// Limitation).
const MAX_PATH_LEN: usize = 259;

/// An absolute path below `C:\` without a trailing backslash. Comparison ignores case, as in
/// Windows.
#[derive(Clone, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "String", into = "String")]
#[schemars(inline, with = "String", description = "")]
pub struct GuestPath {
    text: Cow<'static, str>,
    /// Neither compared nor written to JSON.
    names_folder: bool,
}

impl GuestPath {
    /// Makes a path of winimg's own from its canonical spelling.
    pub const fn from_static(text: &'static str) -> Self {
        Self {
            text: Cow::Borrowed(text),
            names_folder: false,
        }
    }

    pub(crate) fn parse(written: &str) -> Result<Self, NameRefusal> {
        guest_name::control_characters(written)?;
        if written.contains('%') && written.find('%') < written.find('\\') {
            let help = "write the actual folder, such as 'C:\\Program Files'";
            return refuse("environment variables are not expanded", help);
        }
        if written.starts_with("\\\\") {
            let why = "it is a network or device path";
            return refuse(why, "write an absolute path: 'C:\\k'");
        }
        let bytes = written.as_bytes();
        let drive = bytes.len() >= 2 && bytes[0].is_ascii_alphabetic() && bytes[1] == b':';
        if written.contains('/') {
            let help = if drive {
                format!("write '{}'", written.replace('/', "\\"))
            } else {
                "write an absolute path: 'C:\\k'".into()
            };
            return refuse("it has forward slashes", help);
        }
        if !drive || bytes.get(2) != Some(&b'\\') {
            return refuse("it is not absolute", "write it with its drive: 'C:\\k'");
        }
        let below = &written[3..];
        if !written.starts_with(['C', 'c']) {
            let why = "C: is the only volume of the image";
            return refuse(why, format!("write 'C:\\{below}'"));
        }
        let names = below.strip_suffix('\\').unwrap_or(below);
        if names.is_empty() {
            return refuse("it is the root of the drive", "name a file or folder in it");
        }
        names.split('\\').try_for_each(guest_name::file_name)?;
        Ok(Self {
            text: format!("C:\\{names}").into(),
            names_folder: names.len() < below.len(),
        })
    }

    /// Checks that a step may use it.
    pub(crate) fn check_allowed(&self) -> Result<(), NameRefusal> {
        let own = Self::from_static(GUEST_DIR);
        if self.starts_with(&own) {
            let why = format!("`{own}` is winimg's own folder, which is removed from the image");
            return refuse(why, "use another folder");
        }
        if self.text.encode_utf16().count() > MAX_PATH_LEN {
            let why = format!("Windows programs accept paths of at most {MAX_PATH_LEN} characters");
            return refuse(why, "");
        }
        Ok(())
    }

    /// `C:\k\kubelet.exe`
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Returns true if it was written with a trailing backslash: it is a folder, and a file put
    /// there keeps its name.
    pub fn names_folder(&self) -> bool {
        self.names_folder
    }

    /// Returns a path below it. `below` consists of valid names, separated by slashes of either
    /// kind.
    pub fn join(&self, below: &str) -> Self {
        Self {
            text: format!("{self}\\{}", below.replace('/', "\\")).into(),
            names_folder: false,
        }
    }

    /// Returns the folder it is in; `None` for the root of the drive, which always exists.
    pub fn parent(&self) -> Option<Self> {
        let (parent, _) = self.text.rsplit_once('\\')?;
        parent.contains('\\').then(|| Self {
            text: parent.to_owned().into(),
            names_folder: false,
        })
    }

    /// Returns the last component.
    pub fn file_name(&self) -> &str {
        self.text.rsplit('\\').next().unwrap_or_default()
    }

    /// Returns the extension in lower case, without its dot; empty if there is none.
    pub fn extension(&self) -> String {
        let extension = self.file_name().rsplit_once('.').map_or("", |(_, e)| e);
        extension.to_ascii_lowercase()
    }

    /// Returns true if it is `folder` or is below it.
    pub fn starts_with(&self, folder: &Self) -> bool {
        is_below(&self.text, &folder.text)
    }

    /// Returns true if Windows cannot start without it.
    pub fn is_vital(&self) -> bool {
        const VITAL: [GuestPath; 4] = [
            GuestPath::from_static(r"C:\Windows"),
            GuestPath::from_static(r"C:\Windows\System32"),
            GuestPath::from_static(r"C:\Users"),
            GuestPath::from_static(r"C:\Program Files"),
        ];
        VITAL.contains(self)
    }
}

impl fmt::Display for GuestPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl fmt::Debug for GuestPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.as_str(), f)
    }
}

impl FromStr for GuestPath {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Self::parse(text).map_err(|(why, _)| format!("`{text}` is not a path in the guest: {why}"))
    }
}

impl TryFrom<String> for GuestPath {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl From<GuestPath> for String {
    fn from(path: GuestPath) -> Self {
        path.text.into_owned()
    }
}

impl PartialEq for GuestPath {
    fn eq(&self, other: &Self) -> bool {
        fold_case(&self.text).eq(fold_case(&other.text))
    }
}

impl Eq for GuestPath {}

impl Hash for GuestPath {
    fn hash<H: Hasher>(&self, state: &mut H) {
        fold_case(&self.text).for_each(|c| c.hash(state));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(text: &str) -> GuestPath {
        text.parse().expect("a path")
    }

    #[test]
    fn what_is_no_path_is_refused_with_its_reason() {
        for good in [
            "C:\\k",
            "c:\\Program Files\\x y\\",
            "C:\\a.b\\.c",
            r"C:\com10",
        ] {
            assert!(GuestPath::parse(good).is_ok(), "{good}");
        }
        for (bad, why) in [
            ("", "it is not absolute"),
            ("k\\x", "it is not absolute"),
            ("C:k", "it is not absolute"),
            ("C:\\", "it is the root of the drive"),
            ("D:\\k", "C: is the only volume of the image"),
            ("C:/k", "it has forward slashes"),
            ("\\\\server\\x", "it is a network or device path"),
            (
                "%ProgramFiles%\\x",
                "environment variables are not expanded",
            ),
            ("C:\\a\\..\\b", "it contains `..`"),
            ("C:\\a\\\\b", "it has an empty path component"),
            ("C:\\a:b", "Windows does not allow `:` in file names"),
            ("C:\\x\\nul.txt", "`nul.txt` is a reserved device name"),
            (
                "C:\\x.",
                "`x.` ends in a dot or a space, which Windows drops",
            ),
            ("C:\temp", "it contains the control character \\t"),
        ] {
            let found = GuestPath::parse(bad).expect_err(bad);
            assert_eq!(found.0, why, "{bad}");
        }
    }

    #[test]
    fn a_step_may_use_neither_winimgs_folder_nor_a_path_too_long_for_programs() {
        assert!(path(r"C:\winimage\x").check_allowed().is_ok());
        for text in [r"C:\WinImg\x", &format!(r"C:\{}\{0}", "x".repeat(200))] {
            assert!(path(text).check_allowed().is_err(), "{text}");
        }
    }

    #[test]
    fn its_parts_are_spelled_as_windows_keeps_them() {
        let written = path(r"c:\opt\cni\bin\");
        assert_eq!(written.as_str(), r"C:\opt\cni\bin");
        assert!(written.names_folder());
        assert_eq!(written.parent(), Some(path(r"C:\opt\cni")));
        assert_eq!(written.join("a/b.EXE").as_str(), r"C:\opt\cni\bin\a\b.EXE");
        assert_eq!(written.join("a/b.EXE").extension(), "exe");
        let top = path(r"C:\k");
        assert_eq!((top.parent(), top.file_name()), (None, "k"));
    }

    #[test]
    fn case_makes_no_difference() {
        let file = path(r"C:\K\Żółw\x");
        assert_eq!(file, path(r"c:\k\żÓŁW\X\"));
        assert!(file.starts_with(&path(r"C:\k\żółw")));
        assert!(!path(r"C:\k\docs-too").starts_with(&path(r"C:\k\docs")));
        assert!(path(r"C:\WINDOWS\").is_vital());
    }

    #[test]
    fn in_json_it_is_its_text() {
        let json = serde_json::to_string(&path(r"c:\k\")).expect("JSON");
        assert_eq!(json, r#""C:\\k""#);
        let error = serde_json::from_str::<GuestPath>("\"k\"").expect_err("no path");
        assert!(error.to_string().contains("it is not absolute"), "{error}");
    }
}
