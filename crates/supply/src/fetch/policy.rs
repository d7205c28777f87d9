//! Request policy for files, signatures and registries, in both directions.
//!
//! Pure. Refuses the following in addresses that servers name (redirects, token realms, upload
//! locations): a downgrade from https, loops, addresses nearer to this machine than the server, and
//! hosts that must not see the password.

use std::fmt;
use std::net::IpAddr;
use std::time::Duration;

use url::{Host, Url};

use super::zone::NetworkZone;
use winimg_base::display_text;
use winimg_base::text::redact;

/// Maximum number of redirects of one request.
const MAX_REDIRECTS: usize = 10;
/// Minimum average rate of a transfer in bytes per second: a Windows medium would take a month at
/// this rate.
const MIN_RATE: u64 = 1 << 10;
/// Registries with a documented token server on another host. (Docker: Registry API,
/// authentication)
const DOCKER_HUB: [&str; 3] = ["docker.io", "index.docker.io", "registry-1.docker.io"];
const DOCKER_HUB_TOKENS: &str = "auth.docker.io";

/// Timeouts for servers.
#[derive(Clone, Copy, Debug)]
pub struct Timeouts {
    /// To connect.
    pub connect: Duration,
    /// For the head of an answer.
    pub answer: Duration,
    /// Without a byte.
    pub stall: Duration,
    /// Window for the average rate. Proxies pass single bytes while they scan the rest for viruses.
    pub slow: Duration,
}

/// Origin of a requested address.
#[derive(Clone, Copy, Debug)]
pub enum UrlSource {
    ByUser,
    /// A server in this zone.
    From(NetworkZone),
}

/// A server's request that the policy refuses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum UrlRefusal {
    /// A redirect loop, or a redirect to another scheme; the message.
    Redirect(String),
    /// An address nearer than the server that names it.
    Reach { host: String, address: IpAddr },
    /// A host that asks for credentials and must not see them.
    Credentials { host: String },
    /// A downgrade from https, or a scheme that registries do not use.
    Insecure { scheme: String },
}

impl std::error::Error for UrlRefusal {}

impl fmt::Display for UrlRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Redirect(message) => f.write_str(message),
            Self::Reach { host, address } => {
                let space = NetworkZone::from_ip(*address);
                write!(f, "the server redirects to {host}, {space}")?;
                if host.trim_matches(['[', ']']).parse() == Ok(*address) {
                    return Ok(());
                }
                write!(f, " ({address})")
            }
            Self::Credentials { host } => {
                write!(f, "the registry wants the password to be sent to {host}")
            }
            Self::Insecure { scheme } if scheme == "http" => {
                f.write_str("the registry redirects from https to http")
            }
            Self::Insecure { scheme } => write!(f, "the registry redirects to {scheme}"),
        }
    }
}

impl UrlRefusal {
    /// Cure for a refused address.
    pub const REACH_CURE: &str = "if that host is intended, name it in the recipe, in a rule under \
        [mirrors], or in `near` under [proxy] of this host's configuration";
}

/// Checks that a redirect from `previous` (oldest first) to `next` may be followed.
pub fn check_redirect(previous: &[Url], next: &Url) -> Result<(), UrlRefusal> {
    let Some(last) = previous.last() else {
        return Ok(());
    };
    if previous.contains(next) {
        return refuse_redirect(&format!("redirect loop at {}", redact(next.as_str())));
    }
    if previous.len() > MAX_REDIRECTS {
        return refuse_redirect(&format!("more than {MAX_REDIRECTS} redirects"));
    }
    let was_secure = previous.iter().any(|u| u.scheme() == "https");
    match next.scheme() {
        "https" => Ok(()),
        "http" if !was_secure => Ok(()),
        scheme => refuse_redirect(&format!(
            "{} redirects to {scheme}, which is not followed ({})",
            redact(last.as_str()),
            redact(next.as_str())
        )),
    }
}

fn refuse_redirect(fact: &str) -> Result<(), UrlRefusal> {
    Err(UrlRefusal::Redirect(display_text::sanitize_line(fact)))
}

/// Returns true if the host is in `near`: by its name, or by a parent domain with a leading dot.
pub fn is_near(near: &[String], url: &Url) -> bool {
    let host = url.host_str().unwrap_or_default();
    near.iter().any(|name| {
        let name = name.to_ascii_lowercase();
        host == name || name.starts_with('.') && host.ends_with(&name)
    })
}

/// Checks an IP address named by a server in zone `from`; names are checked by their resolver.
pub fn check_reach(from: NetworkZone, url: &Url) -> Result<(), UrlRefusal> {
    let address: IpAddr = match url.host() {
        Some(Host::Ipv4(ip)) => ip.into(),
        Some(Host::Ipv6(ip)) => ip.into(),
        Some(Host::Domain(_)) | None => return Ok(()),
    };
    if from.may_lead_to(NetworkZone::from_ip(address)) {
        return Ok(());
    }
    Err(UrlRefusal::Reach {
        host: url.host_str().unwrap_or_default().to_owned(),
        address,
    })
}

/// Checks the token server at `realm`. `credentials`: if there are any, the user's token host.
pub fn check_token_server(
    registry: &Url,
    realm: &Url,
    credentials: Option<Option<&str>>,
) -> Result<(), UrlRefusal> {
    let is_plain = registry.scheme() == "http" && realm.scheme() == "http";
    if realm.scheme() != "https" && !is_plain {
        let scheme = realm.scheme().to_owned();
        return Err(UrlRefusal::Insecure { scheme });
    }
    let Some(token_host) = credentials else {
        return Ok(());
    };
    let (host, own) = (realm.host_str(), registry.host_str());
    // GitLab's registry has its own port, and its tokens come from port 443 of the same host.
    let is_beside = !is_plain && host == own && realm.port_or_known_default() == Some(443);
    let is_own = realm.origin() == registry.origin() || is_beside;
    let is_named = !is_plain && host.is_some() && host == token_host;
    let is_hub = !is_plain
        && host == Some(DOCKER_HUB_TOKENS)
        && own.is_some_and(|own| DOCKER_HUB.contains(&own));
    if is_own || is_named || is_hub {
        return Ok(());
    }
    Err(UrlRefusal::Credentials {
        host: match (host.unwrap_or_default(), realm.port()) {
            (host, Some(port)) => format!("{host}:{port}"),
            (host, None) => host.to_owned(),
        },
    })
}

/// Measures the rate of a transfer while it is awaited.
#[derive(Default)]
pub struct TransferRate {
    waited: Duration,
    received: u64,
}

impl TransferRate {
    /// Records received bytes. The error is the number of bytes in `span`, if it is too low.
    pub fn record(&mut self, waited: Duration, bytes: u64, span: Duration) -> Result<(), u64> {
        self.waited += waited;
        self.received += bytes;
        if self.waited < span {
            return Ok(());
        }
        let Self { received, .. } = std::mem::take(self);
        if received < (span.as_secs_f64() * MIN_RATE as f64) as u64 {
            return Err(received);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn url(text: &str) -> Url {
        Url::parse(text).unwrap()
    }

    fn judged(previous: &[&str], next: &str) -> Result<(), String> {
        let previous: Vec<Url> = previous.iter().map(|u| url(u)).collect();
        check_redirect(&previous, &url(next)).map_err(|refusal| refusal.to_string())
    }

    #[test]
    fn redirects_never_leave_https() {
        let (secure, plain) = ("https://a.example/", "http://a.example/");
        let by_a_detour = [plain, "https://b.example/"];
        for (previous, next, refused) in [
            (&[secure][..], "https://b.example/", None),
            (&[plain], "http://b.example/", None),
            (&[plain], "https://b.example/", None),
            (
                &["https://u:p@a.example/x?sig=1"],
                "http://b.example/y?sig=2",
                Some(
                    "https://a.example/x?… redirects to http, which is not followed (http://b.example/y?…)",
                ),
            ),
            (
                &by_a_detour,
                "http://c.example/",
                Some(
                    "https://b.example/ redirects to http, which is not followed (http://c.example/)",
                ),
            ),
            (
                &[plain],
                "ftp://a.example/x",
                Some(
                    "http://a.example/ redirects to ftp, which is not followed (ftp://a.example/x)",
                ),
            ),
            (
                &[plain],
                "file:///etc/passwd",
                Some(
                    "http://a.example/ redirects to file, which is not followed (file:///etc/passwd)",
                ),
            ),
        ] {
            assert_eq!(judged(previous, next).err().as_deref(), refused);
        }
    }

    #[test]
    fn redirects_end() {
        assert_eq!(
            judged(
                &["http://a.example/1", "http://a.example/2"],
                "http://a.example/1"
            )
            .unwrap_err(),
            "redirect loop at http://a.example/1"
        );
        let many: Vec<String> = (0..=MAX_REDIRECTS)
            .map(|n| format!("http://a.example/{n}"))
            .collect();
        let many: Vec<&str> = many.iter().map(String::as_str).collect();
        assert_eq!(judged(&many[..MAX_REDIRECTS], "http://a.example/x"), Ok(()));
        assert_eq!(
            judged(&many, "http://a.example/x").unwrap_err(),
            "more than 10 redirects"
        );
    }

    #[test]
    fn no_server_leads_nearer_than_it_lies() {
        use NetworkZone::{Here, Private, Public, Special};
        let to = |from: NetworkZone, text: &str| {
            let refusal = check_reach(from, &url(text)).err();
            refusal.map_or_else(|| "asked".into(), |refusal| refusal.to_string())
        };
        let (asked, private) = (
            "asked",
            "the server redirects to 10.0.0.5, an address of a private network",
        );
        let special = "the server redirects to 169.254.169.254, a link-local or reserved address";
        for (from, address, expected) in [
            (Public, "https://93.184.216.34/", asked),
            (Public, "https://files.example/", asked),
            (Public, "https://10.0.0.5/", private),
            (Public, "https://0x0a000005/", private),
            (
                Public,
                "https://[::ffff:10.0.0.5]/",
                "the server redirects to [::ffff:a00:5], an address of a private network",
            ),
            (
                Public,
                "https://[::1]/",
                "the server redirects to [::1], an address of this machine",
            ),
            (Public, "http://169.254.169.254/latest", special),
            (Private, "https://10.0.0.5/", asked),
            (
                Private,
                "https://127.0.0.1/",
                "the server redirects to 127.0.0.1, an address of this machine",
            ),
            (Private, "http://169.254.169.254/", special),
            (Here, "https://127.0.0.1/", asked),
            (Here, "https://10.0.0.5/", asked),
            (Here, "http://169.254.169.254/", special),
            (Special, "http://169.254.169.254/", special),
        ] {
            assert_eq!(to(from, address), expected, "{from:?} {address}");
        }
        let named = UrlRefusal::Reach {
            host: "files.example".into(),
            address: "10.0.0.5".parse().unwrap(),
        };
        assert_eq!(
            named.to_string(),
            "the server redirects to files.example, an address of a private network (10.0.0.5)"
        );
    }

    #[test]
    fn hosts_are_near_by_their_whole_names() {
        let near = ["S3.corp.example", ".internal.example", "10.0.0.5"].map(str::to_owned);
        for (address, is) in [
            ("https://s3.corp.example/x", true),
            ("https://xs3.corp.example/", false),
            ("https://a.s3.corp.example/", false),
            ("https://a.b.internal.example/", true),
            ("https://internal.example/", false),
            ("https://10.0.0.5/", true),
            ("https://10.0.0.50/", false),
        ] {
            assert_eq!(is_near(&near, &url(address)), is, "{address}");
        }
    }

    #[test]
    fn credentials_go_to_the_registry_and_to_hosts_that_were_named() {
        let to = |host: &str| format!("the registry wants the password to be sent to {host}");
        let (goes, plain) = (
            "goes".to_string(),
            "the registry redirects from https to http".into(),
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
                "https://r.example:5001/token",
                None,
                &to("r.example:5001"),
            ),
            (r, "https://r.example:5001/token", Some("r.example"), &goes),
            (
                "https://r.example:5050",
                "https://r.example:5050/token",
                None,
                &goes,
            ),
            (
                "https://r.example:5050",
                "https://r.example:5051/token",
                None,
                &to("r.example:5051"),
            ),
            (
                r,
                "ftp://r.example/token",
                None,
                &"the registry redirects to ftp".into(),
            ),
        ] {
            let asked = check_token_server(&url(registry), &url(realm), Some(token_host));
            let rendered = asked.map_or_else(|refusal| refusal.to_string(), |()| "goes".into());
            assert_eq!(rendered, *expected, "{registry} {realm}");
        }
        // Without credentials any host may give a token, over https.
        let (registry, other) = (url("https://r.example"), url("https://other.example/token"));
        assert_eq!(check_token_server(&registry, &other, None), Ok(()));
        assert!(check_token_server(&registry, &url("http://other.example/token"), None).is_err());
    }

    #[test]
    fn what_drips_is_given_up_and_what_flows_is_not() {
        let (second, span) = (Duration::from_secs(1), Duration::from_secs(600));
        let mut pace = TransferRate::default();
        let mut after = 0;
        let given_up = loop {
            after += 1;
            if let Err(slow) = pace.record(second, 1, span) {
                break slow;
            }
        };
        assert_eq!((after, given_up), (600, 600));
        // A scanner that lets nothing through for five minutes, and then all of it.
        let mut pace = TransferRate::default();
        for _ in 0..5 * 60 {
            assert_eq!(pace.record(second, 1, span), Ok(()));
        }
        for _ in 0..20 * 60 {
            assert_eq!(pace.record(second, 4 << 10, span), Ok(()));
        }
    }
}
