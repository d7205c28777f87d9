//! File and computer names that Windows accepts, and its comparison of names.
//!
//! Rules: Microsoft, "Naming Files, Paths, and Namespaces", and Unattended Windows Setup Reference,
//! ComputerName.

use winimg_base::filename::{self, FilenameFault, MAX_LEN};

/// The reason and the help; the help may be empty.
pub type NameRefusal = (String, String);

pub fn refuse<T>(why: impl Into<String>, help: impl Into<String>) -> Result<T, NameRefusal> {
    Err((why.into(), help.into()))
}

/// Checks one segment of a path.
pub fn file_name(name: &str) -> Result<(), NameRefusal> {
    let Some(fault) = filename::find_fault(name) else {
        return Ok(());
    };
    match fault {
        FilenameFault::Control(_) => control_characters(name),
        FilenameFault::Empty => refuse(
            "it has an empty path component",
            "write each backslash once, in single quotes",
        ),
        FilenameFault::Dots => refuse(format!("it contains `{name}`"), "write the resolved path"),
        FilenameFault::Forbidden(bad) => {
            refuse(format!("Windows does not allow `{bad}` in file names"), "")
        }
        FilenameFault::Trailing => refuse(
            format!("`{name}` ends in a dot or a space, which Windows drops"),
            "",
        ),
        FilenameFault::Device(_) => refuse(format!("`{name}` is a reserved device name"), ""),
        FilenameFault::Long => refuse(
            format!("a path component has more than {MAX_LEN} characters"),
            "",
        ),
    }
}

pub fn control_characters(text: &str) -> Result<(), NameRefusal> {
    match text.chars().find(|c| c.is_control()) {
        Some(c) => refuse(
            format!("it contains the control character {}", c.escape_default()),
            "put it in single quotes: in double quotes TOML reads \\t, \\n and \\b as control \
             characters",
        ),
        None => Ok(()),
    }
}

/// Folds the case of a name, because Windows compares names without regard to case.
pub fn fold_case(text: &str) -> impl Iterator<Item = char> {
    text.chars().flat_map(char::to_lowercase)
}

/// Returns true if `path` is `folder` or is below it. The separator is a backslash.
pub fn is_below(path: &str, folder: &str) -> bool {
    let mut path = fold_case(path);
    fold_case(folder).all(|c| path.next() == Some(c)) && matches!(path.next(), None | Some('\\'))
}

/// Checks a computer name: `*` (Windows generates one), or up to 15 letters, digits and hyphens,
/// not digits alone.
pub fn computer_name(text: &str) -> Result<(), NameRefusal> {
    if text == "*" {
        return Ok(());
    }
    let count = text.chars().count();
    if count == 0 || count > 15 {
        return refuse(
            format!("it has {count} characters"),
            "use 1 to 15, or \"*\" for a random name",
        );
    }
    if let Some(bad) = text
        .chars()
        .find(|c| !c.is_ascii_alphanumeric() && *c != '-')
    {
        return refuse(
            format!("it contains `{bad}`"),
            "letters, digits and hyphens are allowed",
        );
    }
    if text.chars().all(|c| c.is_ascii_digit()) {
        return refuse("it has only digits", "add a letter");
    }
    if text.starts_with('-') || text.ends_with('-') {
        return refuse("it starts or ends with a hyphen", "");
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
