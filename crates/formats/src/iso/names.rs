//! Names on a disc: which Joliet can hold, and the 8.3 names that the primary tree gets in their place.

use std::collections::HashSet;

/// Longest Joliet name, in UTF-16 units. The specification says 64; a directory record has room for 103 with a version
/// number, and Windows reads those.
pub(super) const MAX_JOLIET: usize = 103;

/// What is wrong with a name, in words that fit after it; `None` when Joliet and Windows can hold it.
pub(super) fn complaint(name: &str) -> Option<String> {
    let length = name.encode_utf16().count();
    if name.is_empty() || name == "." || name == ".." {
        return Some("is no file name".into());
    }
    if length > MAX_JOLIET {
        return Some(format!(
            "has {length} characters; a name on a CD can have {MAX_JOLIET}"
        ));
    }
    // Joliet leaves out these and the control characters; Windows forbids the rest in any name.
    let bad = |c: &char| {
        c.is_control()
            || matches!(
                c,
                '*' | '/' | ':' | ';' | '?' | '\\' | '<' | '>' | '"' | '|'
            )
    };
    if let Some(c) = name.chars().find(bad) {
        return Some(format!("holds {c:?}, which no name on a CD can"));
    }
    if name.chars().any(|c| c.len_utf16() > 1) {
        return Some("holds a character outside the Basic Multilingual Plane".into());
    }
    if name.ends_with(['.', ' ']) {
        return Some("ends in a dot or a space, which Windows drops".into());
    }
    None
}

/// Makes names of ISO 9660 level 1 that are unique within one directory.
#[derive(Default)]
pub(super) struct ShortNames(HashSet<String>);

impl ShortNames {
    /// Files: up to 8.3 of `A`-`Z`, `0`-`9`, `_`. Folders: up to 8, no dot.
    pub fn make(&mut self, name: &str, is_dir: bool) -> String {
        let (stem, extension) = match name.rsplit_once('.') {
            Some((stem, extension)) if !is_dir && !stem.is_empty() => {
                (clean(stem, 8), clean(extension, 3))
            }
            _ => (clean(name, 8), String::new()),
        };
        for n in 0u32.. {
            let stem = match n {
                0 => stem.clone(),
                n => {
                    let tail = n.to_string();
                    let keep = stem.len().min(8usize.saturating_sub(tail.len()));
                    format!("{}{tail}", &stem[..keep])
                }
            };
            let short = match (is_dir, extension.is_empty()) {
                (true, _) => stem,
                (false, true) => format!("{stem}."),
                (false, false) => format!("{stem}.{extension}"),
            };
            if self.0.insert(short.clone()) {
                return short;
            }
        }
        unreachable!("a directory never holds 2^32 names")
    }
}

/// ASCII only, so that byte positions are characters.
fn clean(text: &str, length: usize) -> String {
    let cleaned: String = text
        .chars()
        .map(|c| match c.to_ascii_uppercase() {
            c @ ('A'..='Z' | '0'..='9') => c,
            _ => '_',
        })
        .take(length)
        .collect();
    if cleaned.is_empty() {
        "_".into()
    } else {
        cleaned
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_names_are_8_3_and_unique() {
        let mut short = ShortNames::default();
        let made: Vec<String> = [
            "Autounattend.xml",
            "autounattended.xml",
            "README",
            "a.tar.gz",
            ".conf",
            "\u{e9}t\u{e9}.txt",
        ]
        .iter()
        .map(|n| short.make(n, false))
        .collect();
        assert_eq!(
            made,
            [
                "AUTOUNAT.XML",
                "AUTOUNA1.XML",
                "README.",
                "A_TAR.GZ",
                "_CONF.",
                "_T_.TXT"
            ]
        );
        assert_eq!(short.make("Program Files.d", true), "PROGRAM_");
    }
}
