//! Names that Windows accepts, of files and computers, and how it compares them.
//!
//! Rules: Microsoft, "Naming Files, Paths, and Namespaces", and Unattended Windows Setup Reference, ComputerName.

use winimg_base::filename::{self, Fault, LONGEST};

/// Why, and what helps; the second is empty where nothing is to be said.
pub type Refusal = (String, String);

pub fn refusal<T>(why: impl Into<String>, help: impl Into<String>) -> Result<T, Refusal> {
    Err((why.into(), help.into()))
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

pub fn control_characters(text: &str) -> Result<(), Refusal> {
    match text.chars().find(|c| c.is_control()) {
        Some(c) => refusal(
            format!("it holds the control character {}", c.escape_default()),
            "put it into single quotes: in double quotes TOML reads \\t, \\n, \\b as control characters",
        ),
        None => Ok(()),
    }
}

/// As Windows compares names: without regard to case.
pub fn folded(text: &str) -> impl Iterator<Item = char> {
    text.chars().flat_map(char::to_lowercase)
}

/// Whether `path` is `folder` or lies below it; names are parted by backslashes.
pub fn is_below(path: &str, folder: &str) -> bool {
    let mut path = folded(path);
    folded(folder).all(|c| path.next() == Some(c)) && matches!(path.next(), None | Some('\\'))
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
