//! Names on a disc: valid Joliet names, and the 8.3 names that replace them in the primary tree.

use std::collections::HashSet;

/// Longest Joliet name, in UTF-16 units. The specification says 64; a directory record has room for
/// 103 with a version number, and Windows reads those.
pub(super) const MAX_JOLIET: usize = 103;

/// Describes a problem with a name, worded to follow it; `None` if Joliet and Windows allow it.
pub(super) fn find_problem(name: &str) -> Option<String> {
    let length = name.encode_utf16().count();
    if name.is_empty() || name == "." || name == ".." {
        return Some("is not a file name".into());
    }
    if length > MAX_JOLIET {
        return Some(format!(
            "has {length} characters; a name on a CD can have at most {MAX_JOLIET}"
        ));
    }
    if let Some(c) = name.chars().find(|c| is_forbidden(*c)) {
        return Some(format!("contains {c:?}, which names on a CD cannot have"));
    }
    if name.chars().any(|c| c.len_utf16() > 1) {
        return Some("contains a character outside the Basic Multilingual Plane".into());
    }
    if name.ends_with(['.', ' ']) {
        return Some("ends in a dot or a space, which Windows drops".into());
    }
    None
}

/// Joliet excludes some of these and the control characters; Windows forbids the others in any
/// name.
fn is_forbidden(c: char) -> bool {
    c.is_control()
        || matches!(
            c,
            '*' | '/' | ':' | ';' | '?' | '\\' | '<' | '>' | '"' | '|'
        )
}

/// Makes names of ISO 9660 level 1 that are unique within one directory.
#[derive(Default)]
pub(super) struct ShortNames(HashSet<String>);

impl ShortNames {
    /// Makes a unique short name: up to 8.3 of `A`-`Z`, `0`-`9`, `_` for files, up to 8 without a
    /// dot for folders.
    pub fn make(&mut self, name: &str, is_dir: bool) -> String {
        let (stem, extension) = match name.rsplit_once('.') {
            Some((stem, extension)) if !is_dir && !stem.is_empty() => {
                (sanitize(stem, 8), sanitize(extension, 3))
            }
            _ => (sanitize(name, 8), String::new()),
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
        unreachable!("a directory never has 2^32 names")
    }
}

/// Replaces characters outside `A`-`Z`, `0`-`9`. The result is ASCII, so byte positions are
/// characters.
fn sanitize(text: &str, length: usize) -> String {
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
