//! What Windows makes of a file's name (Microsoft: Naming Files, Paths, and Namespaces).
//!
//! A name is taken as it is or has a fault; nothing is mended. What to say of a fault is its finder's business.

/// Longest name of a file or folder, in UTF-16 units (NTFS).
pub const LONGEST: usize = 255;

/// Why a name cannot be a file of Windows, or would not be the one that was meant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    Empty,
    /// `.` or `..`
    Dots,
    Control(char),
    /// One of `<>:"/\|?*`.
    Forbidden(char),
    /// It ends in a dot or a blank, which Windows drops.
    Trailing,
    /// Windows opens this device instead, with or without an extension.
    Device(String),
    /// Longer than [`LONGEST`].
    Long,
}

/// The first fault of one segment of a path; `None` for a good one.
pub fn fault(name: &str) -> Option<Fault> {
    if name.is_empty() {
        return Some(Fault::Empty);
    }
    if name == "." || name == ".." {
        return Some(Fault::Dots);
    }
    if let Some(c) = name.chars().find(|c| c.is_control()) {
        return Some(Fault::Control(c));
    }
    if let Some(c) = name.chars().find(|c| "<>:\"/\\|?*".contains(*c)) {
        return Some(Fault::Forbidden(c));
    }
    if name.ends_with(['.', ' ']) {
        return Some(Fault::Trailing);
    }
    if let Some(device) = device(name) {
        return Some(Fault::Device(device));
    }
    (name.encode_utf16().count() > LONGEST).then_some(Fault::Long)
}

fn device(name: &str) -> Option<String> {
    let stem = name.split('.').next().unwrap_or_default();
    let stem = stem.trim_end_matches(' ').to_uppercase();
    let plain = ["CON", "PRN", "AUX", "NUL", "CONIN$", "CONOUT$"].contains(&stem.as_str());
    let numbered = ["COM", "LPT"].iter().any(|kind| {
        stem.strip_prefix(kind).is_some_and(|number| {
            let mut digits = number.chars();
            matches!(digits.next(), Some('0'..='9' | '¹' | '²' | '³')) && digits.next().is_none()
        })
    });
    (plain || numbered).then_some(stem)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_fault_is_told_and_good_names_have_none() {
        let device = |name: &str| Some(Fault::Device(name.into()));
        for (name, want) in [
            ("kubelet.exe", None),
            ("ä b.c", None),
            ("console", None),
            ("com10", None),
            ("", Some(Fault::Empty)),
            ("..", Some(Fault::Dots)),
            ("a\u{1}", Some(Fault::Control('\u{1}'))),
            ("a:b", Some(Fault::Forbidden(':'))),
            ("x.", Some(Fault::Trailing)),
            ("...", Some(Fault::Trailing)),
            ("nul.tar.gz", device("NUL")),
            ("NUL .txt", device("NUL")),
            ("lpt³.log", device("LPT³")),
            ("conin$", device("CONIN$")),
        ] {
            assert_eq!(fault(name), want, "{name:?}");
        }
        assert_eq!(fault(&"x".repeat(LONGEST)), None);
        assert_eq!(fault(&"x".repeat(LONGEST + 1)), Some(Fault::Long));
    }
}
