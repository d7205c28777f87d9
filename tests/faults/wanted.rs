//! Which cases run: those of `FAULTS=word,word`, all without it.

use support::rows;

pub fn wanted(group: &str, name: &str) -> bool {
    let words = std::env::var("FAULTS").unwrap_or_default();
    rows::is_wanted(&words, &[name, group])
}
