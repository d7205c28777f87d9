//! Names that Windows accepts: paths, file names, registry keys, computer names.
//!
//! Rules: Microsoft, "Naming Files, Paths, and Namespaces", "Registry Element Size Limits", and Unattended Windows
//! Setup Reference, ComputerName. Errors are (why, help).

use winimg_base::filename::{self, Fault, LONGEST};

type Refusal = (String, String);

fn refusal<T>(why: impl Into<String>, help: impl Into<String>) -> Result<T, Refusal> {
    Err((why.into(), help.into()))
}

/// An absolute drive path, `C:\k\kubelet.exe`; a trailing backslash is allowed.
pub fn path(text: &str) -> Result<(), Refusal> {
    control_characters(text)?;
    if text.contains('%') && text.find('%') < text.find('\\') {
        let help = "write the folder itself, such as 'C:\\Program Files'";
        return refusal("environment variables are not expanded", help);
    }
    if text.starts_with("\\\\") {
        return refusal(
            "it is a network or device path",
            "write an absolute path: 'C:\\k'",
        );
    }
    let bytes = text.as_bytes();
    let drive = bytes.len() >= 2 && bytes[0].is_ascii_alphabetic() && bytes[1] == b':';
    if text.contains('/') {
        let turned = text.replace('/', "\\");
        let help = match drive {
            true => format!("write '{turned}'"),
            false => "write an absolute path: 'C:\\k'".into(),
        };
        return refusal("it has forward slashes", help);
    }
    if !drive || bytes.get(2) != Some(&b'\\') {
        return refusal("it is not absolute", "write it with its drive: 'C:\\k'");
    }
    if !text.starts_with(['C', 'c']) {
        let why = "the image has one volume, C:";
        return refusal(why, format!("write 'C:\\{}'", &text[3..]));
    }
    let rest = text[3..].strip_suffix('\\').unwrap_or(&text[3..]);
    if rest.is_empty() {
        return Ok(());
    }
    rest.split('\\').try_for_each(file_name)
}

/// One segment of a path.
pub fn file_name(name: &str) -> Result<(), Refusal> {
    let Some(fault) = filename::fault(name) else {
        return Ok(());
    };
    match fault {
        Fault::Control(_) => control_characters(name),
        Fault::Empty => refusal(
            "a name in it is empty",
            "write each backslash once, in single quotes",
        ),
        Fault::Dots => refusal(format!("it has `{name}` in it"), "write the folder itself"),
        Fault::Forbidden(bad) => refusal(format!("Windows allows no `{bad}` in a file name"), ""),
        Fault::Trailing => refusal(
            format!("`{name}` ends in a dot or a space, which Windows drops"),
            "",
        ),
        Fault::Device(_) => refusal(format!("`{name}` is the name of a device"), ""),
        Fault::Long => refusal(
            format!("a name in it has more than {LONGEST} characters"),
            "",
        ),
    }
}

fn control_characters(text: &str) -> Result<(), Refusal> {
    match text.chars().find(|c| c.is_control()) {
        Some(c) => refusal(
            format!("it holds the control character {}", c.escape_default()),
            "put it into single quotes: in double quotes TOML reads \\t, \\n, \\b as control characters",
        ),
        None => Ok(()),
    }
}

/// The roots whose hives an image holds.
const ROOTS: &[(&str, &str)] = &[("HKLM", "HKEY_LOCAL_MACHINE"), ("HKU", "HKEY_USERS")];

/// A registry key with its root in the short form, `HKLM\SOFTWARE\…`.
pub fn registry_key(text: &str) -> Result<String, Refusal> {
    control_characters(text)?;
    let (root, rest) = text.split_once('\\').unwrap_or((text, ""));
    let upper = root.to_uppercase();
    if upper.ends_with(':') {
        let plain = root.trim_end_matches(':');
        return refusal(
            "the colon is PowerShell's, not the registry's",
            format!("write '{plain}\\{}'", rest.trim_start_matches('\\')),
        );
    }
    if text.contains('/') && !text.contains('\\') {
        return refusal(
            "it has forward slashes",
            format!("write '{}'", text.replace('/', "\\")),
        );
    }
    if upper == "HKCU" || upper == "HKEY_CURRENT_USER" {
        return refusal(
            "steps run as SYSTEM, whose HKCU no one else sees",
            "write to HKLM, or to HKU\\.DEFAULT",
        );
    }
    if upper == "HKCR" || upper == "HKEY_CLASSES_ROOT" {
        return refusal(
            "HKCR is a view of two other keys",
            format!("write 'HKLM\\SOFTWARE\\Classes\\{rest}'"),
        );
    }
    let known = ROOTS
        .iter()
        .find(|(short, long)| upper == *short || upper == *long);
    let Some((short, _)) = known else {
        let roots: Vec<&str> = ROOTS.iter().map(|(short, _)| *short).collect();
        return refusal(
            format!("it does not start with {}", roots.join(" or ")),
            "write 'HKLM\\SOFTWARE\\…', in single quotes",
        );
    };
    let rest = rest.strip_suffix('\\').unwrap_or(rest);
    if rest.is_empty() {
        return refusal("it names only the root", "name a key below it");
    }
    for segment in rest.split('\\') {
        if segment.is_empty() {
            return refusal(
                "a key name in it is empty",
                "write each backslash once, in single quotes",
            );
        }
        if segment.chars().count() > 255 {
            return refusal("a key name has at most 255 characters", "");
        }
    }
    Ok(format!("{short}\\{rest}"))
}

/// `*` (Windows makes one up) or up to 15 letters, digits and hyphens, not digits alone.
pub fn computer_name(text: &str) -> Result<(), Refusal> {
    if text == "*" {
        return Ok(());
    }
    let count = text.chars().count();
    if count == 0 || count > 15 {
        return refusal(
            format!("it has {count} characters"),
            "give 1 to 15, or \"*\" for a random name",
        );
    }
    if let Some(bad) = text
        .chars()
        .find(|c| !c.is_ascii_alphanumeric() && *c != '-')
    {
        return refusal(
            format!("it has `{bad}` in it"),
            "letters, digits and hyphens are allowed",
        );
    }
    if text.chars().all(|c| c.is_ascii_digit()) {
        return refusal("it is digits alone", "put a letter in");
    }
    if text.starts_with('-') || text.ends_with('-') {
        return refusal("it starts or ends with a hyphen", "");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths() {
        for good in ["C:\\k", "C:\\", "c:\\Program Files\\x y\\", "C:\\a.b\\.c"] {
            assert_eq!(path(good), Ok(()), "{good}");
        }
        for (bad, why) in [
            ("k\\x", "it is not absolute"),
            ("C:k", "it is not absolute"),
            ("D:\\k", "the image has one volume, C:"),
            ("C:/k", "it has forward slashes"),
            ("\\\\server\\x", "it is a network or device path"),
            (
                "%ProgramFiles%\\x",
                "environment variables are not expanded",
            ),
            ("C:\\a\\..\\b", "it has `..` in it"),
            ("C:\\a\\\\b", "a name in it is empty"),
            ("C:\\a:b", "Windows allows no `:` in a file name"),
            ("C:\\x\\nul.txt", "`nul.txt` is the name of a device"),
            (
                "C:\\x.",
                "`x.` ends in a dot or a space, which Windows drops",
            ),
            ("C:\temp", "it holds the control character \\t"),
        ] {
            assert_eq!(path(bad).map_err(|(w, _)| w), Err(why.to_string()), "{bad}");
        }
    }

    #[test]
    fn registry_keys_come_out_short() {
        assert_eq!(
            registry_key("hkey_local_machine\\SOFTWARE\\X\\"),
            Ok("HKLM\\SOFTWARE\\X".into())
        );
        assert_eq!(
            registry_key("HKLM:\\SOFTWARE\\X"),
            Err((
                "the colon is PowerShell's, not the registry's".into(),
                "write 'HKLM\\SOFTWARE\\X'".into()
            ))
        );
        for bad in [
            "HKLM",
            "HKLM\\",
            "SOFTWARE\\X",
            "HKCU\\X",
            "HKCR\\.txt",
            "HKLM\\a\\\\b",
        ] {
            assert!(registry_key(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn computer_names() {
        for good in ["*", "node-1", "WINIMG-BUILD"] {
            assert_eq!(computer_name(good), Ok(()), "{good}");
        }
        for bad in [
            "",
            "12345",
            "a_b",
            "sixteen-letters-",
            "seventeen-letters",
            "-a",
        ] {
            assert!(computer_name(bad).is_err(), "{bad}");
        }
    }
}
