//! Names that stand where they do not belong, and names that mean a secret.

use super::keys;

/// Where a key of the recipe itself belongs that stands in a table: TOML takes a key after a table's header for one of
/// that table.
pub fn of_the_top(key: &str) -> Option<String> {
    let row = keys::of("recipe").find(key);
    row.is_some_and(|row| !row.takes.has_header()).then(|| {
        format!("`{key}` is a key of the top level: move it above the first [table] of the file")
    })
}

/// What a recipe may say about a secret: nothing.
pub const SECRET_HELP: &str = "a recipe holds no secrets: give the Administrator password in the environment variable \
     WINIMG_ADMIN_PASSWORD or with `--admin-password-file FILE`";

/// Whether a variable of this name would hold a secret. `token_path` names a place, not a secret.
pub fn is_secret(name: &str) -> bool {
    let lower = name.to_lowercase();
    let segments: Vec<&str> = lower.split(['_', '-', '.']).collect();
    let harmless = [
        "file", "path", "url", "ttl", "length", "policy", "name", "dir", "enabled",
    ];
    if segments.last().is_some_and(|last| harmless.contains(last)) {
        return false;
    }
    let revealing = [
        "password",
        "passwd",
        "passphrase",
        "pwd",
        "secret",
        "token",
        "credential",
        "credentials",
        "apikey",
    ];
    segments.iter().any(|s| revealing.contains(s))
        || ["api_key", "private_key", "access_key"]
            .iter()
            .any(|k| lower.replace('-', "_").contains(k))
        || lower.ends_with("password")
}

/// Known in every recipe: the version of this program.
pub const OWN_VERSION: &str = "winimg_version";

/// Whether it is the name of an environment variable, in capitals.
pub fn is_environment_variable(text: &str) -> bool {
    let fits = |c: char| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_';
    text.starts_with(|c: char| c.is_ascii_uppercase()) && text.chars().all(fits)
}

/// Why a variable cannot have this name, and the cure.
pub fn refused_name(name: &str) -> Option<(String, String)> {
    if is_secret(name) {
        let fact = format!("`{name}` would be a secret");
        return Some((fact, SECRET_HELP.into()));
    }
    if name == "name" || name == "version" {
        let fact = format!("a variable cannot be called `{name}`");
        let help = format!(
            "`{{{{{name}}}}}` is a component's own {name}: say whose, as in `image_{name}`"
        );
        return Some((fact, help));
    }
    if name == OWN_VERSION {
        let fact = format!("a variable cannot be called `{name}`");
        let help = format!("`{{{{{name}}}}}` is the version of this program");
        return Some((fact, help));
    }
    let plain = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let starts = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
    let reserved = [
        "true",
        "false",
        "null",
        "undefined",
        "this",
        "else",
        "as",
        "raw",
    ];
    if !starts || !name.chars().all(plain) || reserved.contains(&name) {
        let fact = format!("a variable cannot be called `{name}`");
        let help = "letters, digits and `_`, a letter first, and none of Handlebars' own words";
        return Some((fact, help.into()));
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_secrets() {
        for name in [
            "password",
            "windows_admin_password",
            "WINDOWS_ADMIN_PASSWORD",
            "join-token",
            "adminpassword",
            "aws_secret_access_key",
        ] {
            assert!(is_secret(name), "{name}");
        }
        for name in [
            "kubernetes_version",
            "token_path",
            "password_policy",
            "tokens",
        ] {
            assert!(!is_secret(name), "{name}");
        }
    }
}
