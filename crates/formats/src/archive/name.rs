//! Which names of an archive can be files of a Windows guest, and of the host.
//!
//! Microsoft: Naming Files, Paths, and Namespaces. A name is taken as it is or refused; none is mended, since a
//! mended name is one that nobody signed.

use unicode_normalization::UnicodeNormalization as _;

use winimg_base::filename::{self, Fault, LONGEST};
use winimg_base::unseen::{is_invisible, is_unseen};

/// The path with `/` and without `.` segments, or what is wrong with it in words that fit after the name. An empty
/// path is the archive's root.
pub(super) fn normalise(raw: &[u8]) -> Result<String, String> {
    let text = std::str::from_utf8(raw).map_err(|_| "is not UTF-8".to_string())?;
    if text.contains('\0') {
        return Err("holds a NUL".into());
    }
    if text.chars().any(is_invisible) {
        return Err("holds an invisible character".into());
    }
    // Windows takes both, and some archivers write the wrong one.
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
            return Err("climbs out with ..".into());
        }
        if let Some(problem) = segment_problem(segment) {
            return Err(problem);
        }
        segments.push(segment);
    }
    Ok(segments.join("/"))
}

fn segment_problem(segment: &str) -> Option<String> {
    Some(match filename::fault(segment)? {
        Fault::Control(_) => "holds a control character".into(),
        Fault::Forbidden(':') => "names an alternate data stream (:)".into(),
        Fault::Forbidden(c) => format!("holds {c}, which Windows does not allow in names"),
        Fault::Trailing => "ends in a dot or blank, which Windows drops".into(),
        Fault::Device(device) => format!("is the Windows device {device}"),
        Fault::Long => format!("is longer than {LONGEST} characters"),
        Fault::Empty | Fault::Dots => "has an empty segment".into(),
    })
}

/// Equal for names that NTFS takes for one. Its table maps single characters, so do we.
pub(super) fn folded(path: &str) -> String {
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

/// Equal for names that Unicode takes for one (UAX #15, NFC): NTFS keeps both, and nobody can tell them apart.
pub(super) fn composed(folded: &str) -> String {
    folded.nfc().collect()
}

/// A raw name for messages: what a terminal could act on is escaped, and it is cut to a sensible length.
pub(super) fn shown(raw: &[u8]) -> String {
    let text: String = String::from_utf8_lossy(raw)
        .chars()
        .flat_map(|c| {
            let hidden = is_unseen(c);
            let escaped = hidden.then(|| c.escape_unicode());
            let plain = (!hidden).then_some(c);
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
            assert_eq!(normalise(raw.as_bytes()).as_deref(), Ok(path), "{raw}");
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
            (b"a/../../b", "climbs out with .."),
            (b"a\\..\\..\\b", "climbs out with .."),
            (b"..", "climbs out with .."),
            (b"a\0.exe", "holds a NUL"),
            (b"a\x1b[2J", "holds a control character"),
            (
                b"a.exe:Zone.Identifier",
                "names an alternate data stream (:)",
            ),
            (b"a?.exe", "holds ?, which Windows does not allow in names"),
            (b"a|b", "holds |, which Windows does not allow in names"),
            (b"a\"b", "holds \", which Windows does not allow in names"),
            (b"bin./a", "ends in a dot or blank, which Windows drops"),
            (b"a.exe ", "ends in a dot or blank, which Windows drops"),
            (b"...", "ends in a dot or blank, which Windows drops"),
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
            assert_eq!(normalise(raw).unwrap_err(), *problem, "{}", shown(raw));
        }
    }

    #[test]
    fn a_shown_name_cannot_act_on_the_terminal() {
        assert_eq!(shown(b"a\x1b[2J\nb"), "a\\u{1b}[2J\\u{a}b");
        assert_eq!(shown("exe\u{202e}fdp".as_bytes()), "exe\\u{202e}fdp");
    }

    #[test]
    fn folding_is_by_single_characters() {
        assert_eq!(folded("Bin/É.exe"), folded("bin/é.EXE"));
        assert_ne!(folded("straße"), folded("STRASSE"));
    }
}
