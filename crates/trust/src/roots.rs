//! Roots that a recipe can name instead of a file. None is trusted by default. `roots/README.md`
//! describes them.

/// The names used in recipes.
pub const NAMES: [&str; 7] = [
    "microsoft-root-2010",
    "microsoft-root-2011",
    "microsoft-identity-2020",
    "digicert-g4",
    "digicert-assured-id",
    "globalsign-r45",
    "globalsign-e45",
];

/// Returns the DER certificate with that name.
pub fn find_root(name: &str) -> Option<&'static [u8]> {
    Some(match name {
        "microsoft-root-2010" => include_bytes!("roots/microsoft-root-2010.der"),
        "microsoft-root-2011" => include_bytes!("roots/microsoft-root-2011.der"),
        "microsoft-identity-2020" => include_bytes!("roots/microsoft-identity-2020.der"),
        "digicert-g4" => include_bytes!("roots/digicert-g4.der"),
        "digicert-assured-id" => include_bytes!("roots/digicert-assured-id.der"),
        "globalsign-r45" => include_bytes!("roots/globalsign-r45.der"),
        "globalsign-e45" => include_bytes!("roots/globalsign-e45.der"),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use winimg_base::digest::Digest;

    #[test]
    fn every_name_has_the_certificate_that_the_table_lists() {
        let table = include_str!("roots/README.md");
        for name in NAMES {
            let digest = Digest::sha256_of(find_root(name).expect(name)).hex();
            let row = table
                .lines()
                .find(|l| l.starts_with(&format!("| `{name}` |")));
            let row = row.unwrap_or_else(|| panic!("no row for {name}"));
            assert!(row.contains(&format!("| `{digest}` |")), "{row}");
        }
        assert_eq!(find_root("microsoft"), None);
    }
}
