//! The HTTP client: TLS roots of the system (or `SSL_CERT_FILE`), proxies of the environment or the host's
//! configuration, and redirects that
//! never leave https.

use std::sync::OnceLock;

use reqwest::redirect::{Attempt, Policy};
use url::{Host, Url};

use winimg_base::error::{Error, Kind, Result};
use winimg_base::text::redact;

use super::{FetchOptions, Proxies};

/// Redirects of one request.
const REDIRECTS: usize = 10;

/// Built at the first use: a run over local files needs no TLS roots.
#[derive(Default)]
pub(super) struct Lazy(OnceLock<reqwest::Client>);

impl Lazy {
    pub fn get(&self, options: &FetchOptions) -> Result<&reqwest::Client> {
        if let Some(client) = self.0.get() {
            return Ok(client);
        }
        let client = builder(&options.proxies).connect_timeout(options.connect_timeout);
        let client = client.build();
        let client = client.map_err(|e| {
            let cause = super::failure::innermost(&e);
            Error::new(Kind::Host, format!("https cannot be set up: {cause}")).cure(
                "install the ca-certificates package, or set SSL_CERT_FILE to a file of PEM roots",
            )
        })?;
        Ok(self.0.get_or_init(|| client))
    }
}

/// What all clients have in common.
pub(super) fn builder(proxies: &Proxies) -> reqwest::ClientBuilder {
    let builder = reqwest::Client::builder()
        .user_agent(concat!("winimg/", env!("CARGO_PKG_VERSION")))
        .redirect(Policy::custom(|attempt: Attempt| {
            tracing::debug!(to = redact(attempt.url().as_str()), "redirect");
            match judge(attempt.previous(), attempt.url()) {
                Ok(()) => attempt.follow(),
                Err(problem) => attempt.error(problem),
            }
        }))
        // Referer would carry a signed URL to the next host.
        .referer(false);
    proxies.apply(builder)
}

/// Whether a host's name or address is this machine's own.
pub(super) fn is_here<S: AsRef<str>>(host: &Host<S>) -> bool {
    match host {
        Host::Domain(name) => name.as_ref() == "localhost",
        Host::Ipv4(ip) => ip.is_loopback(),
        Host::Ipv6(ip) => ip.is_loopback(),
    }
}

/// Whether a redirect from `previous` (oldest first) to `next` may be followed, else why not.
fn judge(previous: &[Url], next: &Url) -> std::result::Result<(), String> {
    let Some(last) = previous.last() else {
        return Ok(());
    };
    if previous.contains(next) {
        return Err(format!(
            "redirects go round in a circle at {}",
            redact(next.as_str())
        ));
    }
    if previous.len() > REDIRECTS {
        return Err(format!("there are more than {REDIRECTS} redirects"));
    }
    let secure = previous.iter().any(|u| u.scheme() == "https");
    match next.scheme() {
        "https" => Ok(()),
        "http" if !secure => Ok(()),
        scheme => Err(format!(
            "{} redirects to {scheme}, which is not followed ({})",
            redact(last.as_str()),
            redact(next.as_str())
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judged(previous: &[&str], next: &str) -> std::result::Result<(), String> {
        let previous: Vec<Url> = previous.iter().map(|u| Url::parse(u).unwrap()).collect();
        judge(&previous, &Url::parse(next).unwrap())
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
            "redirects go round in a circle at http://a.example/1"
        );
        let many: Vec<String> = (0..=REDIRECTS)
            .map(|n| format!("http://a.example/{n}"))
            .collect();
        let many: Vec<&str> = many.iter().map(String::as_str).collect();
        assert_eq!(judged(&many[..REDIRECTS], "http://a.example/x"), Ok(()));
        assert_eq!(
            judged(&many, "http://a.example/x").unwrap_err(),
            "there are more than 10 redirects"
        );
    }
}
