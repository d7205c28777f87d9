//! What a registry wants before it answers, and the tokens that are given for it.
//!
//! A registry says by its answer where tokens are given (`WWW-Authenticate: Bearer realm="…"`), and another server in its place
//! could name any address: the policy of all requests decides who is asked. (OCI Distribution Specification; Docker: Token
//! Authentication)

use std::time::{Duration, Instant};

use http_auth::parser::ChallengeParser;
use serde::Deserialize;
use serde_json::Value;

use super::Error;
use winimg_base::text::Secret;

/// What a token without a time holds. (Docker: Token Authentication, `expires_in`)
const HOLDS: Duration = Duration::from_secs(60);

/// No clock reaches further than a day.
const LONGEST: Duration = Duration::from_secs(24 * 60 * 60);

/// How requests to the registry are authorized.
#[derive(Clone)]
pub(super) enum Access {
    Open,
    Basic,
    Bearer { token: Secret, until: Instant },
}

impl Access {
    /// By a token that somebody else asked for.
    pub(super) fn of_token(token: &Secret) -> Self {
        Self::Bearer {
            token: token.clone(),
            until: Instant::now() + LONGEST,
        }
    }
}

/// What a registry asks for before it answers.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Challenge {
    None,
    Basic,
    Bearer {
        realm: String,
        service: Option<String>,
        /// The rights that the token has to give, several with spaces between them.
        scope: Option<String>,
    },
}

/// Of the values of `WWW-Authenticate`; the first that asks for a token counts.
pub(super) fn challenge<'a>(headers: impl Iterator<Item = &'a str>) -> Challenge {
    let mut found = Challenge::None;
    for header in headers {
        for challenge in ChallengeParser::new(header).flatten() {
            let parameter = |name: &str| {
                let mut all = challenge.params.iter();
                let one = all.find(|(key, _)| key.eq_ignore_ascii_case(name));
                one.map(|(_, value)| value.to_unescaped())
            };
            if challenge.scheme.eq_ignore_ascii_case("bearer")
                && let Some(realm) = parameter("realm")
            {
                return Challenge::Bearer {
                    realm,
                    service: parameter("service"),
                    scope: parameter("scope"),
                };
            }
            if challenge.scheme.eq_ignore_ascii_case("basic") {
                found = Challenge::Basic;
            }
        }
    }
    found
}

/// What gives tokens answers. (Docker: Token Authentication; OAuth2 calls it `access_token`)
#[derive(Deserialize)]
struct Given {
    token: Option<String>,
    access_token: Option<String>,
    /// Seconds. Some give them as a text.
    #[serde(default)]
    expires_in: Value,
}

/// The token in that answer.
pub(super) fn token(answer: &[u8]) -> Result<Access, Error> {
    let unread = |why: &str| Error::Unexpected(format!("the answer with a token: {why}"));
    // The parser's own words would show what stands there.
    let given: Given =
        serde_json::from_slice(answer).map_err(|_| unread("it is not JSON of a token"))?;
    // Some name both and leave one of them empty.
    let mut tokens = [given.token, given.access_token].into_iter().flatten();
    let token = tokens.find(|token| !token.is_empty());
    let token = token.ok_or_else(|| unread("it holds no token"))?;
    // Asked for anew a little earlier than it has to be.
    let holds = holds(&given.expires_in).unwrap_or(HOLDS);
    let holds = holds.min(LONGEST);
    Ok(Access::Bearer {
        token: Secret::new(token),
        until: Instant::now() + holds.saturating_sub(Duration::from_secs(5)),
    })
}

/// `None` where it is not said in a way that can be read: the token is one all the same.
fn holds(seconds: &Value) -> Option<Duration> {
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
            let Ok(Access::Bearer { token, until }) = token(answer.as_bytes()) else {
                panic!("no token: {said}");
            };
            assert_eq!(token.expose(), "t0ken");
            let found = (until - before).as_secs_f64();
            assert!((found - f64::from(held)).abs() < 2.0, "{said}: {found}");
        }
    }

    #[test]
    fn the_token_is_the_one_that_is_not_empty() {
        let read = |answer: &str| match token(answer.as_bytes()) {
            Ok(Access::Bearer { token, .. }) => token.expose().to_owned(),
            Ok(_) => panic!("another access"),
            Err(error) => error.to_string(),
        };
        assert_eq!(read(r#"{"token": "", "access_token": "a"}"#), "a");
        assert_eq!(read(r#"{"token": null, "access_token": "a"}"#), "a");
        assert_eq!(read(r#"{"token": "t", "access_token": "a"}"#), "t");
        let none = "the answer with a token: it holds no token";
        assert_eq!(read(r#"{"token": "", "access_token": ""}"#), none);
        assert_eq!(read("{}"), none);
    }

    #[test]
    fn challenges_are_read() {
        let read = |headers: &[&str]| challenge(headers.iter().copied());
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

    /// Each answer of `tests/real/registries.txt`: who gives tokens for what, or a password at once.
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
            assert_eq!(challenge([value].into_iter()), expected, "{registry}");
        }
    }
}
