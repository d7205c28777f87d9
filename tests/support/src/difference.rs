//! Renders a text as its difference from another one, for snapshots of similar texts.

use regex::Regex;
use similar::TextDiff;

/// Returns the lines that differ, with one line around them. The hunks have no places, which shift.
pub fn lines_that_differ(one: &str, other: &str) -> String {
    let hunks = TextDiff::from_lines(one, other)
        .unified_diff()
        .context_radius(1)
        .to_string();
    let place = Regex::new(r"(?m)^@@ .* @@$").expect("a pattern");
    place.replace_all(&hunks, "@@").into_owned()
}
