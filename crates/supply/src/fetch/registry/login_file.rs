//! A login to a registry in a file as docker, podman and oras write it. Pure.
//!
//! (docker/cli: config file; containers-auth.json(5); Docker: credential helpers, identity tokens)

use base64::Engine as _;
use base64::alphabet::STANDARD;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use serde_json::{Map, Value};

use super::login::Login;
use winimg_base::text::Secret;

/// Base64 with or without the characters that fill it up.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);
/// Every name of Docker Hub in addresses and in files, the one of its logins first.
const DOCKER_HUB: [&str; 3] = ["index.docker.io", "docker.io", "registry-1.docker.io"];
/// The address by which docker keeps logins to Docker Hub.
const DOCKER_HUB_LOGIN: &str = "https://index.docker.io/v1/";

/// What a file has for one repository.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Found {
    /// The program that keeps the login, by its name behind `docker-credential-`, and the server
    /// that it is asked for.
    pub helper: Option<(String, String)>,
    /// The login that the file itself has, with the key of its entry.
    pub login: Option<(String, Login)>,
    /// The key of an entry that is no login.
    pub unreadable: Option<String>,
}

/// Reads what the file has for a repository of a registry. `None`: it is not JSON of such a file.
pub(super) fn find(text: &[u8], registry: &str, repository: &str) -> Option<Found> {
    let text = text.strip_prefix(b"\xef\xbb\xbf").unwrap_or(text);
    if text.trim_ascii().is_empty() {
        return Some(Found::default());
    }
    let parsed: Value = serde_json::from_slice(text).ok()?;
    let whole = parsed.as_object()?;
    let known = ["auths", "credsStore", "credHelpers"];
    let auths = match field(whole, "auths") {
        Some(auths) => auths.as_object(),
        // docker's first form, `.dockercfg`, has nothing around the entries.
        None if known.iter().all(|name| field(whole, name).is_none()) => Some(whole),
        None => None,
    };
    let mut found = Found {
        helper: helper(whole, registry, repository),
        ..Found::default()
    };
    let Some((key, entry)) = auths.and_then(|auths| best(auths, registry, repository)) else {
        return Some(found);
    };
    match login(entry) {
        Ok(Some(login)) => found.login = Some((key.clone(), login)),
        Ok(None) => {}
        Err(Unreadable) => found.unreadable = Some(key.clone()),
    }
    Some(found)
}

/// The program for this registry, else the one for all.
fn helper(
    whole: &Map<String, Value>,
    registry: &str,
    repository: &str,
) -> Option<(String, String)> {
    let server = if is_docker_hub(&host(registry)) {
        DOCKER_HUB_LOGIN.to_owned()
    } else {
        registry.to_owned()
    };
    let own = field(whole, "credHelpers").and_then(Value::as_object);
    let own = own.and_then(|own| best(own, registry, repository));
    let name = own
        .map(|(_, name)| name)
        .or_else(|| field(whole, "credsStore"));
    let name = name.and_then(Value::as_str).filter(|name| !name.is_empty());
    name.map(|name| (name.to_owned(), server))
}

/// docker reads the names of fields in any case.
fn field<'v>(map: &'v Map<String, Value>, name: &str) -> Option<&'v Value> {
    let other = || map.iter().find(|(key, _)| key.eq_ignore_ascii_case(name));
    map.get(name).or_else(|| other().map(|(_, value)| value))
}

/// The entry whose key fits a repository best.
fn best<'v>(
    entries: &'v Map<String, Value>,
    registry: &str,
    repository: &str,
) -> Option<(&'v String, &'v Value)> {
    let ranked = entries
        .iter()
        .filter_map(|entry| Some((rank(entry.0, registry, repository)?, entry)));
    ranked.max_by_key(|(rank, _)| *rank).map(|(_, entry)| entry)
}

/// How well a key fits: a folder of the registry that the repository lies in, the longer the
/// better; then the registry itself; then another path of it, as docker's older versions wrote one.
/// `None`: another registry.
fn rank(key: &str, registry: &str, repository: &str) -> Option<(u8, usize)> {
    let (is_address, rest) = match key.split_once("://") {
        Some((_, rest)) => (true, rest),
        None => (false, key),
    };
    let (named, path) = rest.split_once('/').unwrap_or((rest, ""));
    if host(named) != host(registry) {
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

/// A registry's host and port in one form.
fn host(text: &str) -> String {
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

struct Unreadable;

/// The login of an entry. `Ok(None)`: it is empty, as beside a helper.
fn login(entry: &Value) -> Result<Option<Login>, Unreadable> {
    let entry = entry.as_object().ok_or(Unreadable)?;
    let text = |name| {
        let value = field(entry, name).and_then(Value::as_str);
        value.filter(|text| !text.is_empty())
    };
    if let Some(token) = text("identitytoken") {
        return Ok(Some(Login::Identity(Secret::new(token))));
    }
    if let Some(token) = text("registrytoken") {
        return Ok(Some(Login::Bearer(Secret::new(token))));
    }
    let (user, password) = match (text("auth"), text("username"), text("password")) {
        (Some(auth), ..) => {
            let decoded = BASE64.decode(auth.trim()).map_err(|_| Unreadable)?;
            let decoded = String::from_utf8(decoded).map_err(|_| Unreadable)?;
            let (user, password) = decoded.split_once(':').ok_or(Unreadable)?;
            // Old versions of docker filled it up with zeros.
            (user.to_owned(), password.trim_matches('\0').to_owned())
        }
        (None, Some(user), Some(password)) => (user.to_owned(), password.to_owned()),
        (None, None, None) => return Ok(None),
        (None, _, _) => return Err(Unreadable),
    };
    if user.is_empty() {
        Err(Unreadable)
    } else {
        Ok(Some(Login::Password {
            user,
            password: Secret::new(password),
        }))
    }
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

    fn shown(login: &Login) -> String {
        match login {
            Login::Password { user, password } => format!("{user}:{}", password.expose()),
            Login::Identity(token) => format!("identity {}", token.expose()),
            Login::Bearer(token) => format!("bearer {}", token.expose()),
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
