//! Misplaced names, names of secrets, and invalid names of variables.

use crate::keys;

/// Explains a misplaced top-level key: TOML assigns a key after a table's header to that table.
pub fn of_the_top(key: &str) -> Option<String> {
    let row = keys::find_table("recipe").find(key);
    row.is_some_and(|row| !row.takes.has_header()).then(|| {
        format!("`{key}` is a key of the top level: move it above the first [table] of the file")
    })
}

/// Help for secrets, which do not belong in a recipe.
pub const SECRET_HELP: &str = "a recipe contains no secrets: set the Administrator password in the \
     environment variable WINIMG_ADMIN_PASSWORD or with `--admin-password-file FILE`";

/// Returns true for a name of a secret. `token_path` is a path, not a secret.
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

/// Top-level keys of a recipe that are unlikely names of variables.
pub const DECIDING: &[&str] = &["policy", "include", "schema"];

/// Predefined variable: the version of this program.
pub const OWN_VERSION: &str = "winimg_version";

/// Returns true for a name of an environment variable, in capitals.
pub fn is_environment_variable(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_uppercase())
        && text
            .chars()
            .all(|c| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_')
}

/// Explains why a variable cannot have this name: a fact and its cure.
pub fn refused_name(name: &str) -> Option<(String, String)> {
    if is_secret(name) {
        let fact = format!("`{name}` looks like a secret");
        return Some((fact, SECRET_HELP.into()));
    }
    if name == "name" || name == "version" {
        let fact = format!("a variable cannot be named `{name}`");
        let help = format!(
            "`{{{{{name}}}}}` is a component's own {name}: use another name, such as `image_{name}`"
        );
        return Some((fact, help));
    }
    if name == OWN_VERSION {
        let fact = format!("a variable cannot be named `{name}`");
        let help = format!("`{{{{{name}}}}}` is the version of this program");
        return Some((fact, help));
    }
    let is_plain = name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
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
    if !starts || !is_plain || reserved.contains(&name) {
        let fact = format!("a variable cannot be named `{name}`");
        let help = "use letters, digits and `_`, a letter first, and no keyword of Handlebars";
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
