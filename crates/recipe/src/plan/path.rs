//! Paths in the guest: absolute, on C:, spelled as Windows keeps them.
//!
//! Refuses what Windows would silently change (trailing dots and blanks), what names a device, and winimg's own folder,
//! which is gone from the finished image (Microsoft: Naming Files, Paths, and Namespaces).

use super::GUEST_DIR;
use winimg_base::filename::{self, Fault, LONGEST};

/// A checked path. `text` has backslashes only and none at the end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct GuestPath {
    pub(super) text: String,
    /// It was written with a slash at the end: the folder is meant, not a file.
    pub(super) folder: bool,
}

impl GuestPath {
    pub(super) fn parse(written: &str) -> Result<Self, String> {
        let text = written.replace('/', "\\");
        let folder = text.ends_with('\\');
        let text = text.trim_end_matches('\\').to_owned();
        let mut parts = text.split('\\');
        let drive = parts.next().unwrap_or_default();
        if !drive.eq_ignore_ascii_case("C:") {
            return Err("a path in the guest is absolute and starts with `C:\\`".to_owned());
        }
        let mut any = false;
        for part in parts {
            any = true;
            segment(part)?;
        }
        if !any {
            return Err("`C:\\` itself is not a place for this step".to_owned());
        }
        if text.encode_utf16().count() > 259 {
            return Err("Windows programs take paths of at most 259 characters".to_owned());
        }
        if is_below(&text, GUEST_DIR) {
            return Err(format!(
                "`{GUEST_DIR}` is winimg's own folder and is removed from the image"
            ));
        }
        Ok(Self {
            text: format!("C:{}", &text[2..]),
            folder,
        })
    }

    /// The path with one more segment.
    pub(super) fn join(&self, name: &str) -> Result<Self, String> {
        Self::parse(&format!("{}\\{name}", self.text))
    }

    /// The folder it lies in; `None` for the root of the drive, which always exists.
    pub(super) fn parent(&self) -> Option<&str> {
        let (parent, _) = self.text.rsplit_once('\\')?;
        parent.contains('\\').then_some(parent)
    }

    pub(super) fn name(&self) -> &str {
        self.text.rsplit('\\').next().unwrap_or_default()
    }
}

/// Whether `path` is `folder` or lies below it, as Windows compares names.
pub fn is_below(path: &str, folder: &str) -> bool {
    let path = path.to_lowercase();
    let folder = folder.to_lowercase();
    match path.strip_prefix(&folder) {
        Some(rest) => rest.is_empty() || rest.starts_with('\\'),
        None => false,
    }
}

/// What winimg refuses to remove: Windows would not start again.
pub(super) fn is_vital(path: &str) -> bool {
    [
        r"C:\Windows",
        r"C:\Windows\System32",
        r"C:\Users",
        r"C:\Program Files",
    ]
    .iter()
    .any(|vital| vital.eq_ignore_ascii_case(path))
}

fn segment(part: &str) -> Result<(), String> {
    let Some(fault) = filename::fault(part) else {
        return Ok(());
    };
    Err(match fault {
        Fault::Empty => "there are two slashes in a row".to_owned(),
        Fault::Dots => format!("`{part}` is not resolved in the guest"),
        Fault::Trailing => format!("Windows drops the last character of `{part}` silently"),
        Fault::Control(c) | Fault::Forbidden(c) => {
            format!("`{}` cannot be in a file name", c.escape_debug())
        }
        Fault::Device(_) => format!("`{part}` names a device"),
        Fault::Long => format!("a name has more than {LONGEST} characters"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_spelled_as_windows_keeps_them() {
        let path = GuestPath::parse("c:/opt/cni/bin/").expect("a good path");
        assert_eq!((path.text.as_str(), path.folder), (r"C:\opt\cni\bin", true));
        assert_eq!(path.parent(), Some(r"C:\opt\cni"));
        let top = GuestPath::parse(r"C:\k").expect("a good path");
        assert_eq!((top.parent(), top.name(), top.folder), (None, "k", false));
    }

    #[test]
    fn paths_that_windows_would_change_are_refused() {
        let all = [
            "",
            "k",
            r"D:\k",
            r"C:k",
            "C:\\",
            r"C:\a\\b",
            r"C:\a\..\b",
            r"C:\a.",
            r"C:\a \b",
            r"C:\nul.txt",
            r"C:\com1",
            r"C:\a:b",
            r"C:\a*",
            "C:\\a\tb",
            r"C:\WinImg\x",
            r"\\h\s",
        ];
        for path in all {
            assert!(GuestPath::parse(path).is_err(), "{path} was taken");
        }
        assert!(GuestPath::parse(r"C:\winimage\com10\console.txt").is_ok());
    }
}
