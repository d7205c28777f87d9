//! Variables of the environment that people and stores of secrets set.

/// The value of a variable. `None`: it is not set, or empty.
pub fn variable(name: &str) -> Option<String> {
    value(std::env::var(name).ok()?)
}

/// A value without the line breaks at its end, which `echo` and stores of secrets leave there and
/// nobody means.
pub fn value(text: String) -> Option<String> {
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
            assert_eq!(value(text.into()).as_deref(), expected, "{text:?}");
        }
    }
}
