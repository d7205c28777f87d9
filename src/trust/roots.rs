//! Roots.

pub const NAMES: &[&str] = &[];

pub fn named(_name: &str) -> Option<&'static [u8]> {
    None
}
