//! Checks file names for Windows (Microsoft: Naming Files, Paths, and Namespaces).
//!
//! Names are never corrected. Callers word the messages about faults.

/// Longest name of a file or folder, in UTF-16 units (NTFS).
pub const MAX_LEN: usize = 255;

/// The reason why Windows would refuse a file name or change it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FilenameFault {
    Empty,
    /// `.` or `..`
    Dots,
    Control(char),
    /// One of `<>:"/\|?*`.
    Forbidden(char),
    /// It ends in a dot or a space, which Windows drops.
    Trailing,
    /// Windows opens this device instead, even if the name has an extension.
    Device(String),
    /// Longer than [`MAX_LEN`].
    Long,
}

/// Finds the first fault of one segment of a path; `None` if it is valid.
pub fn find_fault(name: &str) -> Option<FilenameFault> {
    if name.is_empty() {
        return Some(FilenameFault::Empty);
    }
    if name == "." || name == ".." {
        return Some(FilenameFault::Dots);
    }
    if let Some(c) = name.chars().find(|c| c.is_control()) {
        return Some(FilenameFault::Control(c));
    }
    if let Some(c) = name.chars().find(|c| "<>:\"/\\|?*".contains(*c)) {
        return Some(FilenameFault::Forbidden(c));
    }
    if name.ends_with(['.', ' ']) {
        return Some(FilenameFault::Trailing);
    }
    if let Some(device) = find_device(name) {
        return Some(FilenameFault::Device(device));
    }
    (name.encode_utf16().count() > MAX_LEN).then_some(FilenameFault::Long)
}

fn find_device(name: &str) -> Option<String> {
    let stem = name.split('.').next().unwrap_or_default();
    let stem = stem.trim_end_matches(' ').to_uppercase();
    let is_plain = ["CON", "PRN", "AUX", "NUL", "CONIN$", "CONOUT$"].contains(&stem.as_str());
    let is_numbered = ["COM", "LPT"].iter().any(|kind| {
        stem.strip_prefix(kind).is_some_and(|number| {
            let mut digits = number.chars();
            matches!(digits.next(), Some('0'..='9' | '¹' | '²' | '³')) && digits.next().is_none()
        })
    });
    (is_plain || is_numbered).then_some(stem)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_fault_is_reported_and_good_names_have_none() {
        let device = |name: &str| Some(FilenameFault::Device(name.into()));
        for (name, want) in [
            ("kubelet.exe", None),
            ("ä b.c", None),
            ("console", None),
            ("com10", None),
            ("", Some(FilenameFault::Empty)),
            ("..", Some(FilenameFault::Dots)),
            ("a\u{1}", Some(FilenameFault::Control('\u{1}'))),
            ("a:b", Some(FilenameFault::Forbidden(':'))),
            ("x.", Some(FilenameFault::Trailing)),
            ("...", Some(FilenameFault::Trailing)),
            ("nul.tar.gz", device("NUL")),
            ("NUL .txt", device("NUL")),
            ("lpt³.log", device("LPT³")),
            ("conin$", device("CONIN$")),
        ] {
            assert_eq!(find_fault(name), want, "{name:?}");
        }
        assert_eq!(find_fault(&"x".repeat(MAX_LEN)), None);
        assert_eq!(
            find_fault(&"x".repeat(MAX_LEN + 1)),
            Some(FilenameFault::Long)
        );
    }
}
