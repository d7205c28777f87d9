//! Who may learn a password or a token: the registry itself, over https, and the host that gives its tokens.
//!
//! A registry says by its answer where tokens are given (`WWW-Authenticate: Bearer realm="…"`), and another server in its place
//! could name any address. Anonymous tokens are asked for wherever it says, over https. Credentials go to the registry's own
//! host, or to one that the user named; Docker Hub's is known. (OCI Distribution Specification; Docker: Token Authentication)

use std::time::{Duration, Instant};

use http_auth::parser::ChallengeParser;
use serde::Deserialize;
use serde_json::Value;
use url::Url;

use super::{Credentials, Error, Refusal};
use winimg_base::text::Secret;

/// The registries whose tokens another host gives by its publisher's own words. (Docker: Registry API, authentication)
const DOCKER_HUB: [&str; 3] = ["docker.io", "index.docker.io", "registry-1.docker.io"];
const DOCKER_HUB_TOKENS: &str = "auth.docker.io";
/// What a token without a time holds. (Docker: Token Authentication, `expires_in`)
const HOLDS: Duration = Duration::from_secs(60);

/// How requests to the registry are authorized.
#[derive(Clone)]
pub(super) enum Access {
    Open,
    Basic,
    Bearer { token: Secret, until: Instant },
}

/// What a registry asks for before it answers.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Challenge {
    None,
    Basic,
    Bearer {
        realm: String,
        service: Option<String>,
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
                let service = parameter("service");
                return Challenge::Bearer { realm, service };
            }
            if challenge.scheme.eq_ignore_ascii_case("basic") {
                found = Challenge::Basic;
            }
        }
    }
    found
}

/// Whether a token may be asked for at `realm`, with credentials where there are some.
pub(super) fn may_ask(
    registry: &Url,
    realm: &Url,
    credentials: Option<&Credentials>,
) -> Result<(), Refusal> {
    let is_plain = registry.scheme() == "http" && realm.scheme() == "http";
    if realm.scheme() != "https" && !is_plain {
        let scheme = realm.scheme().to_owned();
        return Err(Refusal::Insecure { scheme });
    }
    let Some(credentials) = credentials else {
        return Ok(());
    };
    let (host, own) = (realm.host_str(), registry.host_str());
    let is_own = match is_plain {
        // This machine's, or there were no credentials: not every port of it is the registry's.
        true => realm.origin() == registry.origin(),
        false => host == own,
    };
    let is_named = !is_plain && host.is_some() && host == credentials.token_host.as_deref();
    let is_hub = !is_plain
        && host == Some(DOCKER_HUB_TOKENS)
        && own.is_some_and(|own| DOCKER_HUB.contains(&own));
    match is_own || is_named || is_hub {
        true => Ok(()),
        false => Err(Refusal::Credentials {
            host: host.unwrap_or_default().to_owned(),
        }),
    }
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
    let token = given.token.or(given.access_token);
    let token = token.ok_or_else(|| unread("it holds no token"))?;
    // Asked for anew a little earlier than it has to be; no clock reaches further than a day.
    let holds = holds(&given.expires_in).unwrap_or(HOLDS);
    let holds = holds.min(Duration::from_secs(24 * 60 * 60));
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

    fn rendered(registry: &str, realm: &str, token_host: Option<&str>) -> String {
        let url = |text: &str| Url::parse(text).unwrap();
        let mut credentials = Credentials::new("ci", Secret::new("open-sesame"));
        credentials.token_host = token_host.map(str::to_owned);
        match may_ask(&url(registry), &url(realm), Some(&credentials)) {
            Ok(()) => "goes".into(),
            Err(refusal) => refusal.to_string(),
        }
    }

    #[test]
    fn credentials_go_to_the_registry_and_to_hosts_that_were_named() {
        let to = |host: &str| format!("the registry wants the password to be sent to {host}");
        let (goes, plain) = (
            "goes".to_string(),
            "the registry leads from https to http".into(),
        );
        let (r, here, hub) = (
            "https://r.example",
            "http://127.0.0.1:5000",
            "https://index.docker.io",
        );
        for (registry, realm, token_host, expected) in [
            (r, "https://r.example/token", None, &goes),
            (
                "https://r.example:5000",
                "https://r.example/token",
                None,
                &goes,
            ),
            (r, "https://other.example/token", None, &to("other.example")),
            (r, "https://r.example.org/token", None, &to("r.example.org")),
            (r, "http://r.example/token", None, &plain),
            (
                r,
                "http://other.example/token",
                Some("other.example"),
                &plain,
            ),
            (
                r,
                "https://login.example/token",
                Some("login.example"),
                &goes,
            ),
            (hub, "https://auth.docker.io/token", None, &goes),
            (
                r,
                "https://auth.docker.io/token",
                None,
                &to("auth.docker.io"),
            ),
            (here, "http://127.0.0.1:5000/token", None, &goes),
            (here, "http://127.0.0.1:80/token", None, &to("127.0.0.1")),
            (
                here,
                "http://r.example/token",
                Some("r.example"),
                &to("r.example"),
            ),
            (
                r,
                "ftp://r.example/token",
                None,
                &"the registry leads from https to ftp".into(),
            ),
        ] {
            let rendered = rendered(registry, realm, token_host);
            assert_eq!(rendered, *expected, "{registry} {realm}");
        }
        // Without credentials any host may give a token, over https.
        let url = |text: &str| Url::parse(text).unwrap();
        let (registry, other) = (url("https://r.example"), url("https://other.example/token"));
        assert_eq!(may_ask(&registry, &other, None), Ok(()));
        assert!(may_ask(&registry, &url("http://other.example/token"), None).is_err());
    }

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
    fn challenges_are_read() {
        let read = |headers: &[&str]| challenge(headers.iter().copied());
        assert_eq!(read(&[]), Challenge::None);
        assert_eq!(read(&["Basic realm=\"cache\""]), Challenge::Basic);
        let bearer = Challenge::Bearer {
            realm: "https://a.example/token".into(),
            service: Some("r.example".into()),
        };
        let text = "Bearer realm=\"https://a.example/token\",service=\"r.example\",scope=\"x\"";
        assert_eq!(read(&[text]), bearer);
        assert_eq!(read(&["Basic realm=\"cache\"", text]), bearer);
        assert_eq!(read(&["Negotiate", "junk \u{1}"]), Challenge::None);
    }
}
