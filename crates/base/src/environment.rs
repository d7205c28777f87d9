//! Environment variables set by users and secret stores.

/// Reads a variable; `None` if it is not set or empty.
pub fn read_variable(name: &str) -> Option<String> {
    trim_value(std::env::var(name).ok()?)
}

/// Removes unintended line breaks at the end of a value, which `echo` and secret stores add.
pub fn trim_value(text: String) -> Option<String> {
    let value = text.trim_end_matches(['\r', '\n']);
    (!value.is_empty()).then(|| value.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn line_breaks_at_the_end_are_no_part_of_a_value() {
        for (text, expected) in [
            ("hunter2\n", Some("hunter2")),
            ("hunter2\r\n\n", Some("hunter2")),
            ("hunter2 ", Some("hunter2 ")),
            ("line\nline\n", Some("line\nline")),
            ("\n", None),
            ("", None),
        ] {
            assert_eq!(trim_value(text.into()).as_deref(), expected, "{text:?}");
        }
    }
}
