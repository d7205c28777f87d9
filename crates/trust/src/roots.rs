//! Roots that a recipe may name instead of a file. None is trusted unless it does: what each is stands in `roots/README.md`.

/// The names, as a recipe writes them.
pub const NAMES: [&str; 7] = [
    "microsoft-root-2010",
    "microsoft-root-2011",
    "microsoft-identity-2020",
    "digicert-g4",
    "digicert-assured-id",
    "globalsign-r45",
    "globalsign-e45",
];

/// The DER certificate of that name.
pub fn named(name: &str) -> Option<&'static [u8]> {
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
    fn every_name_has_the_certificate_that_the_table_tells() {
        let table = include_str!("roots/README.md");
        for name in NAMES {
            let digest = Digest::sha256_of(named(name).expect(name)).hex();
            let row = table
                .lines()
                .find(|l| l.starts_with(&format!("| `{name}` |")));
            let row = row.unwrap_or_else(|| panic!("no row for {name}"));
            assert!(row.contains(&format!("| `{digest}` |")), "{row}");
        }
        assert_eq!(named("microsoft"), None);
    }
}
