//! Parses the configuration and key files of OpenSSH's server. Pure. Source: OpenSSH,
//! sshd_config(5); Microsoft, OpenSSH Server configuration for Windows.

use super::AdministratorKeysFile;

/// Returns the file in which sshd looks for an administrator's keys: from the block for
/// administrators, or else from the global section. The first of several lines wins.
pub fn find_administrators_file(config: &str) -> AdministratorKeysFile {
    let (mut all, mut of_block, mut block) = (None, None, None);
    for line in config.lines() {
        let line = line.trim();
        let (name, value) = line.split_once([' ', '\t', '=']).unwrap_or((line, ""));
        if name.eq_ignore_ascii_case("Match") {
            let value = value.to_lowercase();
            let mut words = value.split_whitespace();
            block = Some(match words.next() {
                Some("all") => true,
                Some("group") => words
                    .next()
                    .is_some_and(|groups| groups.split(',').any(|group| group == "administrators")),
                _ => false,
            });
        }
        if name.eq_ignore_ascii_case("AuthorizedKeysFile") {
            let file = if value
                .to_lowercase()
                .contains("administrators_authorized_keys")
            {
                AdministratorKeysFile::Machine
            } else {
                AdministratorKeysFile::Profile
            };
            match block {
                None => _ = all.get_or_insert(file),
                Some(true) => _ = of_block.get_or_insert(file),
                Some(false) => {}
            }
        }
    }
    of_block.or(all).unwrap_or(AdministratorKeysFile::Profile)
}

/// Returns the lines with keys.
pub fn parse_keys(text: &str) -> Vec<String> {
    let lines = text.trim_start_matches('\u{feff}').lines().map(str::trim);
    let keys = lines.filter(|line| !line.is_empty() && !line.starts_with('#'));
    keys.map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn administrators_keys_are_where_the_block_for_them_says() {
        let own = "AuthorizedKeysFile .ssh/authorized_keys";
        let block = "Match Group administrators\n  AuthorizedKeysFile __PROGRAMDATA__/ssh/administrators_authorized_keys";
        for (config, file) in [
            (String::new(), AdministratorKeysFile::Profile),
            (own.to_owned(), AdministratorKeysFile::Profile),
            (format!("{own}\r\n{block}\r\n"), AdministratorKeysFile::Machine),
            (format!("{own}\n#{}", block.replace('\n', "\n#")), AdministratorKeysFile::Profile),
            (
                "Match User anna\nAuthorizedKeysFile __PROGRAMDATA__/ssh/administrators_authorized_keys".to_owned(),
                AdministratorKeysFile::Profile,
            ),
            (
                "AuthorizedKeysFile __PROGRAMDATA__/ssh/administrators_authorized_keys".to_owned(),
                AdministratorKeysFile::Machine,
            ),
        ] {
            assert_eq!(find_administrators_file(&config), file, "{config}");
        }
    }
}
