//! Registry logins in files written by docker, podman and oras. Pure.
//!
//! (docker/cli: config file; containers-auth.json(5); Docker: credential helpers, identity tokens)

use base64::Engine as _;
use base64::alphabet::STANDARD;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use serde_json::{Map, Value};

use super::login::RegistryLogin;
use winimg_base::text::Secret;

/// Base64 with or without padding.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);
/// All names of Docker Hub in addresses and in files, the one of its logins first.
const DOCKER_HUB: [&str; 3] = ["index.docker.io", "docker.io", "registry-1.docker.io"];
/// Key of logins to Docker Hub.
const DOCKER_HUB_LOGIN: &str = "https://index.docker.io/v1/";

/// Entries of a file for one repository.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct FileLogins {
    /// The credential helper that has the login, by its name after `docker-credential-`, and the
    /// server to query it for.
    pub helper: Option<(String, String)>,
    /// The login in the file itself, with the key of its entry.
    pub login: Option<(String, RegistryLogin)>,
    /// The key of an entry that is not a valid login.
    pub unreadable: Option<String>,
}

/// Finds the entries for a repository of a registry. `None`: the text is not JSON of such a file.
pub(super) fn find(text: &[u8], registry: &str, repository: &str) -> Option<FileLogins> {
    let text = text.strip_prefix(b"\xef\xbb\xbf").unwrap_or(text);
    if text.trim_ascii().is_empty() {
        return Some(FileLogins::default());
    }
    let parsed: Value = serde_json::from_slice(text).ok()?;
    let whole = parsed.as_object()?;
    let known = ["auths", "credsStore", "credHelpers"];
    let auths = match find_field(whole, "auths") {
        Some(auths) => auths.as_object(),
        // In docker's first format, `.dockercfg`, the entries are at the top level.
        None if known.iter().all(|name| find_field(whole, name).is_none()) => Some(whole),
        None => None,
    };
    let mut found = FileLogins {
        helper: find_helper(whole, registry, repository),
        ..FileLogins::default()
    };
    let Some((key, entry)) = auths.and_then(|auths| find_best(auths, registry, repository)) else {
        return Some(found);
    };
    match read_login(entry) {
        Ok(Some(login)) => found.login = Some((key.clone(), login)),
        Ok(None) => {}
        Err(UnreadableLogin) => found.unreadable = Some(key.clone()),
    }
    Some(found)
}

/// Finds the helper for this registry, else the one for all.
fn find_helper(
    whole: &Map<String, Value>,
    registry: &str,
    repository: &str,
) -> Option<(String, String)> {
    let server = if is_docker_hub(&normalize_host(registry)) {
        DOCKER_HUB_LOGIN.to_owned()
    } else {
        registry.to_owned()
    };
    let own = find_field(whole, "credHelpers").and_then(Value::as_object);
    let own = own.and_then(|own| find_best(own, registry, repository));
    let name = own
        .map(|(_, name)| name)
        .or_else(|| find_field(whole, "credsStore"));
    let name = name.and_then(Value::as_str).filter(|name| !name.is_empty());
    name.map(|name| (name.to_owned(), server))
}

/// Finds a field by its name; docker ignores case.
fn find_field<'v>(map: &'v Map<String, Value>, name: &str) -> Option<&'v Value> {
    map.get(name).or_else(|| {
        let mut all = map.iter();
        all.find(|(key, _)| key.eq_ignore_ascii_case(name))
            .map(|(_, value)| value)
    })
}

/// Finds the entry whose key matches a repository best.
fn find_best<'v>(
    entries: &'v Map<String, Value>,
    registry: &str,
    repository: &str,
) -> Option<(&'v String, &'v Value)> {
    let ranked = entries
        .iter()
        .filter_map(|entry| Some((rank_key(entry.0, registry, repository)?, entry)));
    ranked.max_by_key(|(rank, _)| *rank).map(|(_, entry)| entry)
}

/// Ranks a key. Best is a parent folder of the repository, the longer the better; then the registry
/// itself; then another path of it, which older versions of docker wrote. `None`: another registry.
fn rank_key(key: &str, registry: &str, repository: &str) -> Option<(u8, usize)> {
    let (is_address, rest) = match key.split_once("://") {
        Some((_, rest)) => (true, rest),
        None => (false, key),
    };
    let (named, path) = rest.split_once('/').unwrap_or((rest, ""));
    if normalize_host(named) != normalize_host(registry) {
        return None;
    }
    let path = path.trim_matches('/');
    let is_within = repository == path || repository.starts_with(&format!("{path}/"));
    Some(match path {
        _ if key == registry => (3, 0),
        "" | "v1" | "v2" => (2, 0),
        _ if !is_address && is_within => (4, path.len()),
        _ => (1, 0),
    })
}

/// Normalizes a registry's host and port.
fn normalize_host(text: &str) -> String {
    let host = text.to_ascii_lowercase();
    let host = host.strip_suffix(":443").unwrap_or(&host);
    if is_docker_hub(host) {
        DOCKER_HUB[0].to_owned()
    } else {
        host.to_owned()
    }
}

fn is_docker_hub(host: &str) -> bool {
    DOCKER_HUB.contains(&host)
}

struct UnreadableLogin;

/// Reads the login of an entry. `Ok(None)`: it is empty, which is usual with a helper.
fn read_login(entry: &Value) -> Result<Option<RegistryLogin>, UnreadableLogin> {
    let entry = entry.as_object().ok_or(UnreadableLogin)?;
    if let Some(token) = get_text(entry, "identitytoken") {
        return Ok(Some(RegistryLogin::Identity(Secret::new(token))));
    }
    if let Some(token) = get_text(entry, "registrytoken") {
        return Ok(Some(RegistryLogin::Bearer(Secret::new(token))));
    }
    let (user, password) = match (
        get_text(entry, "auth"),
        get_text(entry, "username"),
        get_text(entry, "password"),
    ) {
        (Some(auth), ..) => {
            let decoded = BASE64.decode(auth.trim()).map_err(|_| UnreadableLogin)?;
            let decoded = String::from_utf8(decoded).map_err(|_| UnreadableLogin)?;
            let (user, password) = decoded.split_once(':').ok_or(UnreadableLogin)?;
            // Old versions of docker padded it with NUL bytes.
            (user.to_owned(), password.trim_matches('\0').to_owned())
        }
        (None, Some(user), Some(password)) => (user.to_owned(), password.to_owned()),
        (None, None, None) => return Ok(None),
        (None, _, _) => return Err(UnreadableLogin),
    };
    if user.is_empty() {
        Err(UnreadableLogin)
    } else {
        Ok(Some(RegistryLogin::Password {
            user,
            password: Secret::new(password),
        }))
    }
}

fn get_text<'v>(entry: &'v Map<String, Value>, name: &str) -> Option<&'v str> {
    let value = find_field(entry, name).and_then(Value::as_str);
    value.filter(|text| !text.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The key and the login that are found, in one line.
    fn found(text: &str, registry: &str, repository: &str) -> String {
        let found = find(text.as_bytes(), registry, repository).expect("JSON");
        match (found.login, found.helper, found.unreadable) {
            (Some((key, login)), ..) => format!("{key}: {}", shown(&login)),
            (None, Some((name, server)), _) => format!("docker-credential-{name} for {server}"),
            (None, None, Some(key)) => format!("{key} is unreadable"),
            (None, None, None) => "nothing".into(),
        }
    }

    fn shown(login: &RegistryLogin) -> String {
        match login {
            RegistryLogin::Password { user, password } => format!("{user}:{}", password.expose()),
            RegistryLogin::Identity(token) => format!("identity {}", token.expose()),
            RegistryLogin::Bearer(token) => format!("bearer {}", token.expose()),
        }
    }

    #[test]
    fn an_entry_is_found_by_every_key_that_clients_write() {
        for (key, registry, is_found) in [
            ("r.example.com", "r.example.com", true),
            ("R.example.com", "r.example.com", true),
            ("r.example.com/", "r.example.com", true),
            ("r.example.com:443", "r.example.com", true),
            ("https://r.example.com", "r.example.com", true),
            ("https://r.example.com/v2/", "r.example.com", true),
            ("http://r.example.com:5000/v1/", "r.example.com:5000", true),
            ("r.example.com/other", "r.example.com", true),
            ("r.example.com/team", "r.example.com", true),
            ("https://index.docker.io/v1/", "docker.io", true),
            ("index.docker.io", "registry-1.docker.io", true),
            ("docker.io", "index.docker.io", true),
            ("r.example.com:5000", "r.example.com", false),
            ("r.example.com", "r.example.com:5000", false),
            ("xr.example.com", "r.example.com", false),
            ("r.example.com.evil.example", "r.example.com", false),
            ("https://evil.example/r.example.com", "r.example.com", false),
            ("hub.docker.io", "docker.io", false),
        ] {
            // user:pass:word
            let text = format!(r#"{{"auths": {{"{key}": {{"auth": "dXNlcjpwYXNzOndvcmQ="}}}}}}"#);
            let expected = if is_found {
                format!("{key}: user:pass:word")
            } else {
                "nothing".into()
            };
            assert_eq!(found(&text, registry, "team/node"), expected, "{key}");
        }
    }

    #[test]
    fn the_entry_of_the_longest_folder_is_taken() {
        let text = r#"{"auths": {
            "r.example.com/other": {"username": "other", "password": "p"},
            "https://r.example.com/v2/": {"username": "address", "password": "p"},
            "r.example.com/team/node": {"username": "node", "password": "p"},
            "r.example.com/team": {"username": "team", "password": "p"},
            "r.example.com": {"username": "all", "password": "p"}
        }}"#;
        for (repository, user) in [
            ("team/node", "node"),
            ("team/node/more", "node"),
            ("team/nodes", "team"),
            ("teams/x", "all"),
        ] {
            let found = found(text, "r.example.com", repository);
            assert!(found.ends_with(&format!(": {user}:p")), "{found}");
        }
    }

    #[test]
    fn an_entry_is_read_in_every_form() {
        let of = |entry: &str| {
            let text = format!(r#"{{"auths": {{"r": {entry}}}}}"#);
            found(&text, "r", "x")
        };
        for (entry, expected) in [
            (r#"{"auth": "dXNlcjpwYXNz"}"#, "r: user:pass"),
            // Without the characters that fill it up, and with a line break.
            (r#"{"auth": "dXNlcjpwYXNzOndvcmQ\n"}"#, "r: user:pass:word"),
            (r#"{"auth": "dXNlcjpwAAA="}"#, "r: user:p"),
            (r#"{"username": "u", "password": "p"}"#, "r: u:p"),
            (
                r#"{"Username": "u", "Password": "p", "auth": ""}"#,
                "r: u:p",
            ),
            (
                // As `az acr login` writes it.
                r#"{"auth": "MDAwMDAwMDAtMDAwMC0wMDAwLTAwMDAtMDAwMDAwMDAwMDAwOg==", "identitytoken": "IDT"}"#,
                "r: identity IDT",
            ),
            (r#"{"identityToken": "IDT"}"#, "r: identity IDT"),
            (r#"{"registrytoken": "RT"}"#, "r: bearer RT"),
            (r#"{"email": "a@b"}"#, "nothing"),
            ("{}", "nothing"),
            (r#"{"auth": "*"}"#, "r is unreadable"),
            (r#"{"auth": "bm9jb2xvbg=="}"#, "r is unreadable"),
            (r#"{"auth": "OnBhc3M="}"#, "r is unreadable"),
            (r#"{"username": "u"}"#, "r is unreadable"),
            (r#""dXNlcjpwYXNz""#, "r is unreadable"),
        ] {
            assert_eq!(of(entry), expected, "{entry}");
        }
    }

    #[test]
    fn a_helper_is_named_with_the_server_that_it_is_asked_for() {
        let store = r#"{"auths": {"r.example.com": {}}, "credsStore": "desktop"}"#;
        assert_eq!(
            found(store, "r.example.com", "x"),
            "docker-credential-desktop for r.example.com"
        );
        assert_eq!(
            found(store, "docker.io", "x"),
            "docker-credential-desktop for https://index.docker.io/v1/"
        );
        let own = r#"{"credsStore": "desktop", "credHelpers": {"1.dkr.ecr.x.amazonaws.com": "ecr-login"}}"#;
        assert_eq!(
            found(own, "1.dkr.ecr.x.amazonaws.com", "x"),
            "docker-credential-ecr-login for 1.dkr.ecr.x.amazonaws.com"
        );
        assert_eq!(found(r#"{"credsStore": ""}"#, "r", "x"), "nothing");
    }

    #[test]
    fn files_of_other_ages_and_editors_are_read() {
        // docker's first file has no `auths`; Windows' editors begin with a mark.
        let old = "\u{feff}{\"https://r.example.com/v1/\": {\"auth\": \"dXNlcjpwYXNz\", \"email\": \"\"}}";
        assert_eq!(
            found(old, "r.example.com", "x"),
            "https://r.example.com/v1/: user:pass"
        );
        for empty in [
            "",
            " \n",
            "{}",
            r#"{"auths": null}"#,
            r#"{"HttpHeaders": {"r": "x"}, "auths": {}}"#,
        ] {
            assert_eq!(found(empty, "r", "x"), "nothing", "{empty}");
        }
        for other in ["hunter2", "[]", "\"x\"", "{"] {
            assert_eq!(find(other.as_bytes(), "r", "x"), None, "{other}");
        }
    }
}
