//! How the released program is compiled.

use std::fs;

/// Numbers of foreign files are counted with all over the readers: one that wraps around would point elsewhere.
#[test]
fn release_builds_check_overflows() {
    let text = fs::read_to_string(support::tree::root().join("Cargo.toml")).unwrap();
    let manifest: toml::Table = text.parse().unwrap();
    let release = &manifest["profile"]["release"];
    assert_eq!(release["overflow-checks"].as_bool(), Some(true));
}
