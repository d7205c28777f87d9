//! Authorization that a registry requires, and its tokens.
//!
//! A registry names its token server in an answer (`WWW-Authenticate: Bearer realm="…"`). A
//! malicious registry could name any address, so the request policy decides on it. (OCI
//! Distribution Specification; Docker: Token Authentication)

use std::time::{Duration, Instant};

use http_auth::ChallengeRef;
use http_auth::parser::ChallengeParser;
use serde::Deserialize;
use serde_json::Value;

use super::RegistryError;
use winimg_base::text::Secret;

/// Lifetime of a token without `expires_in`. (Docker: Token Authentication, `expires_in`)
const HOLDS: Duration = Duration::from_secs(60);

/// Maximum lifetime of a token.
const MAX_TOKEN_LIFETIME: Duration = Duration::from_secs(24 * 60 * 60);

/// Authorization of requests to the registry.
#[derive(Clone)]
pub(super) enum RegistryAccess {
    Open,
    Basic,
    Bearer { token: Secret, until: Instant },
}

impl RegistryAccess {
    /// Creates the authorization by an existing token.
    pub(super) fn of_token(token: &Secret) -> Self {
        Self::Bearer {
            token: token.clone(),
            until: Instant::now() + MAX_TOKEN_LIFETIME,
        }
    }
}

/// Authorization that a registry requires.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Challenge {
    None,
    Basic,
    Bearer {
        realm: String,
        service: Option<String>,
        /// Required scopes of the token, separated by spaces.
        scope: Option<String>,
    },
}

/// Parses the values of `WWW-Authenticate`. The first one that requires a token takes precedence.
pub(super) fn parse_challenge<'a>(headers: impl Iterator<Item = &'a str>) -> Challenge {
    let mut found = Challenge::None;
    for header in headers {
        for challenge in ChallengeParser::new(header).flatten() {
            if challenge.scheme.eq_ignore_ascii_case("bearer")
                && let Some(realm) = get_parameter(&challenge, "realm")
            {
                return Challenge::Bearer {
                    realm,
                    service: get_parameter(&challenge, "service"),
                    scope: get_parameter(&challenge, "scope"),
                };
            }
            if challenge.scheme.eq_ignore_ascii_case("basic") {
                found = Challenge::Basic;
            }
        }
    }
    found
}

fn get_parameter(challenge: &ChallengeRef<'_>, name: &str) -> Option<String> {
    let mut all = challenge.params.iter();
    let one = all.find(|(key, _)| key.eq_ignore_ascii_case(name));
    one.map(|(_, value)| value.to_unescaped())
}

/// Answer of a token server. (Docker: Token Authentication; OAuth2 calls it `access_token`)
#[derive(Deserialize)]
struct TokenResponse {
    token: Option<String>,
    access_token: Option<String>,
    /// Seconds. Some servers send a string.
    #[serde(default)]
    expires_in: Value,
}

/// Parses the answer of a token server.
pub(super) fn parse_token(answer: &[u8]) -> Result<RegistryAccess, RegistryError> {
    // The parser's message would show the token.
    let given: TokenResponse = serde_json::from_slice(answer)
        .map_err(|_| RegistryError::Unexpected("the token answer is not JSON of a token".into()))?;
    // Some servers send both and leave one of them empty.
    let mut tokens = [given.token, given.access_token].into_iter().flatten();
    let token = tokens.find(|token| !token.is_empty());
    let token = token
        .ok_or_else(|| RegistryError::Unexpected("the token answer contains no token".into()))?;
    // Renewed a little before it expires.
    let holds = parse_lifetime(&given.expires_in).unwrap_or(HOLDS);
    let holds = holds.min(MAX_TOKEN_LIFETIME);
    Ok(RegistryAccess::Bearer {
        token: Secret::new(token),
        until: Instant::now() + holds.saturating_sub(Duration::from_secs(5)),
    })
}

/// Parses the lifetime. `None` if it is not readable, which does not invalidate the token.
fn parse_lifetime(seconds: &Value) -> Option<Duration> {
    let seconds = match seconds {
        Value::Number(number) => number.as_f64(),
        Value::String(text) => text.parse().ok(),
        _ => None,
    };
    Duration::try_from_secs_f64(seconds?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_counts_whatever_is_said_of_its_time() {
        for (said, held) in [
            ("300", 295),
            ("300.0", 295),
            ("\"300\"", 295),
            ("-1", 55),
            ("null", 55),
            ("\"soon\"", 55),
            ("{}", 55),
            ("1e300", 55),
            ("99999999999", 86395),
        ] {
            let answer = format!(r#"{{"token": "t0ken", "expires_in": {said}}}"#);
            let before = Instant::now();
            let Ok(RegistryAccess::Bearer { token, until }) = parse_token(answer.as_bytes()) else {
                panic!("no token: {said}");
            };
            assert_eq!(token.expose(), "t0ken");
            let found = (until - before).as_secs_f64();
            assert!((found - f64::from(held)).abs() < 2.0, "{said}: {found}");
        }
    }

    #[test]
    fn the_token_is_the_one_that_is_not_empty() {
        let read = |answer: &str| match parse_token(answer.as_bytes()) {
            Ok(RegistryAccess::Bearer { token, .. }) => token.expose().to_owned(),
            Ok(_) => panic!("another access"),
            Err(error) => error.to_string(),
        };
        assert_eq!(read(r#"{"token": "", "access_token": "a"}"#), "a");
        assert_eq!(read(r#"{"token": null, "access_token": "a"}"#), "a");
        assert_eq!(read(r#"{"token": "t", "access_token": "a"}"#), "t");
        let none = "the token answer contains no token";
        assert_eq!(read(r#"{"token": "", "access_token": ""}"#), none);
        assert_eq!(read("{}"), none);
    }

    #[test]
    fn challenges_are_read() {
        let read = |headers: &[&str]| parse_challenge(headers.iter().copied());
        assert_eq!(read(&[]), Challenge::None);
        assert_eq!(read(&["Basic realm=\"cache\""]), Challenge::Basic);
        let bearer = Challenge::Bearer {
            realm: "https://a.example/token".into(),
            service: Some("r.example".into()),
            scope: Some("x".into()),
        };
        let text = "Bearer realm=\"https://a.example/token\",service=\"r.example\",scope=\"x\"";
        assert_eq!(read(&[text]), bearer);
        assert_eq!(read(&["Basic realm=\"cache\"", text]), bearer);
        assert_eq!(read(&["Negotiate", "junk \u{1}"]), Challenge::None);
    }

    /// Each answer of `tests/real/registries.txt`: who gives tokens for what, or a password at
    /// once.
    #[test]
    fn the_challenges_of_real_registries_are_read() {
        let lines = support::real::lines("registries.txt");
        assert!(lines.len() > 5);
        for line in lines {
            let (registry, value) = line.split_once(" | ").expect("a registry and its answer");
            let part = |name: &str| {
                let (_, after) = value.split_once(&format!("{name}=\""))?;
                Some(after.split_once('"')?.0.to_owned())
            };
            let expected = if value.starts_with("Bearer ") {
                Challenge::Bearer {
                    realm: part("realm").expect("a realm"),
                    service: part("service"),
                    scope: part("scope"),
                }
            } else {
                Challenge::Basic
            };
            assert_eq!(parse_challenge([value].into_iter()), expected, "{registry}");
        }
    }
}
