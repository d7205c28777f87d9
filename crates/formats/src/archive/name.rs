//! Checks that names in an archive are valid on the Windows guest and on the host.
//!
//! Microsoft: Naming Files, Paths, and Namespaces. A name is used unchanged or refused, never
//! corrected: a corrected name would not be the signed one.

use unicode_normalization::UnicodeNormalization as _;

use winimg_base::display_text::{is_invisible, is_unprintable};
use winimg_base::filename::{self, FilenameFault, MAX_LEN};

/// Normalizes a path to `/` and no `.` segments. The error is worded to follow the name. An empty
/// path is the archive's root.
pub(super) fn normalize_path(raw: &[u8]) -> Result<String, String> {
    let text = std::str::from_utf8(raw).map_err(|_| "is not UTF-8".to_string())?;
    if text.contains('\0') {
        return Err("contains a NUL character".into());
    }
    if text.chars().any(is_invisible) {
        return Err("contains an invisible character".into());
    }
    // Windows accepts both, and some archivers write the wrong one.
    let text = text.replace('\\', "/");
    if text.starts_with('/') {
        return Err("is an absolute path".into());
    }
    if matches!(text.as_bytes(), [letter, b':', ..] if letter.is_ascii_alphabetic()) {
        return Err("names a drive".into());
    }
    let mut segments = Vec::new();
    for segment in text.split('/') {
        if segment.is_empty() || segment == "." {
            continue;
        }
        if segment == ".." {
            return Err("contains a .. segment".into());
        }
        if let Some(problem) = segment_problem(segment) {
            return Err(problem);
        }
        segments.push(segment);
    }
    Ok(segments.join("/"))
}

fn segment_problem(segment: &str) -> Option<String> {
    Some(match filename::find_fault(segment)? {
        FilenameFault::Control(_) => "contains a control character".into(),
        FilenameFault::Forbidden(':') => "names an alternate data stream (:)".into(),
        FilenameFault::Forbidden(c) => {
            format!("contains {c}, which Windows does not allow in names")
        }
        FilenameFault::Trailing => "ends in a dot or space, which Windows drops".into(),
        FilenameFault::Device(device) => format!("is the Windows device {device}"),
        FilenameFault::Long => format!("is longer than {MAX_LEN} characters"),
        FilenameFault::Empty | FilenameFault::Dots => "has an empty segment".into(),
    })
}

/// Folds case as NTFS does, whose table maps single characters.
pub(super) fn fold_case(path: &str) -> String {
    path.chars()
        .map(|c| {
            let mut upper = c.to_uppercase();
            match (upper.next(), upper.next()) {
                (Some(one), None) => one,
                _ => c,
            }
        })
        .collect()
}

/// Composes a name (UAX #15, NFC): NTFS keeps both spellings, but they look the same.
pub(super) fn compose_unicode(folded: &str) -> String {
    folded.nfc().collect()
}

/// Renders a raw name for messages: escaped for terminals, and truncated.
pub(super) fn escape_name(raw: &[u8]) -> String {
    let text: String = String::from_utf8_lossy(raw)
        .chars()
        .flat_map(|c| {
            let is_hidden = is_unprintable(c);
            let escaped = is_hidden.then(|| c.escape_unicode());
            let plain = (!is_hidden).then_some(c);
            escaped.into_iter().flatten().chain(plain)
        })
        .collect();
    if text.chars().count() > 120 {
        let head: String = text.chars().take(117).collect();
        return format!("{head}…");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn good_names_are_taken() {
        for (raw, path) in [
            ("bin/containerd.exe", "bin/containerd.exe"),
            ("./bin//a", "bin/a"),
            ("bin\\a.dll", "bin/a.dll"),
            ("./", ""),
            (
                "CONTAINERD/COM10/console.txt",
                "CONTAINERD/COM10/console.txt",
            ),
            (".hidden/a..b", ".hidden/a..b"),
            ("Ünïcode/名.txt", "Ünïcode/名.txt"),
        ] {
            assert_eq!(normalize_path(raw.as_bytes()).as_deref(), Ok(path), "{raw}");
        }
    }

    #[test]
    fn each_bad_name_has_its_sentence() {
        let long = "x".repeat(256);
        let cases: &[(&[u8], &str)] = &[
            (b"/etc/passwd", "is an absolute path"),
            (b"\\\\host\\share\\a", "is an absolute path"),
            (b"\\Windows\\a", "is an absolute path"),
            (b"C:\\Windows\\a", "names a drive"),
            (b"c:a", "names a drive"),
            (b"a/../../b", "contains a .. segment"),
            (b"a\\..\\..\\b", "contains a .. segment"),
            (b"..", "contains a .. segment"),
            (b"a\0.exe", "contains a NUL character"),
            (b"a\x1b[2J", "contains a control character"),
            (
                b"a.exe:Zone.Identifier",
                "names an alternate data stream (:)",
            ),
            (
                b"a?.exe",
                "contains ?, which Windows does not allow in names",
            ),
            (b"a|b", "contains |, which Windows does not allow in names"),
            (
                b"a\"b",
                "contains \", which Windows does not allow in names",
            ),
            (b"bin./a", "ends in a dot or space, which Windows drops"),
            (b"a.exe ", "ends in a dot or space, which Windows drops"),
            (b"...", "ends in a dot or space, which Windows drops"),
            (b"x/con", "is the Windows device CON"),
            (b"Aux.txt", "is the Windows device AUX"),
            (b"nul.tar.gz", "is the Windows device NUL"),
            (b"COM1/a", "is the Windows device COM1"),
            ("lpt³.log".as_bytes(), "is the Windows device LPT³"),
            (b"conin$", "is the Windows device CONIN$"),
            (b"NUL .txt", "is the Windows device NUL"),
            (b"caf\xe9", "is not UTF-8"),
            (long.as_bytes(), "is longer than 255 characters"),
        ];
        for (raw, problem) in cases {
            assert_eq!(
                normalize_path(raw).unwrap_err(),
                *problem,
                "{}",
                escape_name(raw)
            );
        }
    }

    #[test]
    fn a_shown_name_cannot_act_on_the_terminal() {
        assert_eq!(escape_name(b"a\x1b[2J\nb"), "a\\u{1b}[2J\\u{a}b");
        assert_eq!(escape_name("exe\u{202e}fdp".as_bytes()), "exe\\u{202e}fdp");
    }

    #[test]
    fn folding_is_by_single_characters() {
        assert_eq!(fold_case("Bin/É.exe"), fold_case("bin/é.EXE"));
        assert_ne!(fold_case("straße"), fold_case("STRASSE"));
    }
}
