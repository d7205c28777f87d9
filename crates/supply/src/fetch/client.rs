//! The HTTP client under every road: files, what proves them, container images, the shared cache down and up.
//!
//! TLS roots of the system (or `SSL_CERT_FILE`), proxies of the environment or the host's configuration. What is asked, where a
//! server may lead and how long it may take, `policy` decides. Refuses to hold an answer of more bytes than its reader allows, and
//! unpacks nothing: what a server calls compressed comes as it is.

use std::error::Error as _;
use std::fmt;
use std::ops::Deref;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use reqwest::header::ACCEPT_ENCODING;
use reqwest::redirect::Policy;
use reqwest::{Method, RequestBuilder, Response};
use tokio::time::timeout;
use url::{Host, Url};

use winimg_base::error::{Error, Kind};
use winimg_base::text::redact;

use super::Proxies;
use super::policy::{Led, Pace, Patience, Refusal, is_near, may_reach, may_redirect};
use super::proxy::Through;
use super::redirect::{moved, redirected};
use super::resolver::Within;
use super::space::Space;

/// The spaces whose servers may lead somewhere, the farthest first.
const FLOORS: [Space; 3] = [Space::Public, Space::Private, Space::Here];

pub(crate) struct Client {
    proxies: Proxies,
    /// Which addresses a proxy is asked for; `None`: no proxy is asked.
    through: Option<Through>,
    patience: Patience,
    /// For addresses that a proxy is asked for.
    proxied: OnceLock<reqwest::Client>,
    /// For other addresses that the user named.
    open: OnceLock<reqwest::Client>,
    /// For those that servers of the [`FLOORS`] name.
    within: [OnceLock<reqwest::Client>; FLOORS.len()],
}

/// How a request leaves this host.
enum Way {
    Proxied,
    /// Past every proxy, where it says so to addresses that lie no nearer than this.
    Straight(Option<Space>),
}

/// Why a request has no answer, or not the whole of it.
#[derive(Debug)]
pub(crate) enum Fault {
    Refused(Refusal),
    Unanswered(reqwest::Error),
    /// The body broke off.
    Broken(reqwest::Error),
    /// Not a byte in this time.
    Silent(Duration),
    /// So few bytes in so much time that the rest is not worth it.
    Slow {
        bytes: u64,
        within: Duration,
    },
    /// More than these bytes.
    TooLong {
        limit: u64,
    },
    /// The host lacks what a request needs.
    Host(Error),
}

impl From<Refusal> for Fault {
    fn from(refusal: Refusal) -> Self {
        Self::Refused(refusal)
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refused(refusal) => refusal.fmt(f),
            Self::Unanswered(e) | Self::Broken(e) => f.write_str(&innermost(e)),
            Self::Silent(time) => write!(f, "nothing came for {} s", time.as_secs_f64()),
            Self::Slow { bytes, within } => {
                write!(
                    f,
                    "only {bytes} bytes came within {} s",
                    within.as_secs_f64()
                )
            }
            Self::TooLong { limit } => write!(f, "an answer of more than {limit} bytes"),
            Self::Host(error) => f.write_str(error.fact()),
        }
    }
}

impl Client {
    /// Nothing is set up before the first request: a run over local files needs no TLS roots.
    pub fn new(proxies: &Proxies, patience: Patience) -> Self {
        Self {
            proxies: proxies.clone(),
            through: Some(proxies.through()),
            patience,
            proxied: OnceLock::new(),
            open: OnceLock::new(),
            within: Default::default(),
        }
    }

    /// The same past every proxy.
    pub fn direct(self) -> Self {
        Self {
            through: None,
            ..self
        }
    }

    /// A request to be sent by [`Client::send`].
    pub fn request(&self, method: Method, url: Url) -> Result<RequestBuilder, Fault> {
        let client = self.client(&self.open, Way::Straight(None))?;
        let request = client.request(method, url);
        Ok(request.header(ACCEPT_ENCODING, "identity"))
    }

    /// The answer, wherever redirects lead within the policy.
    pub async fn send(&self, request: RequestBuilder, led: Led) -> Result<Answer, Fault> {
        let mut request = request.build().map_err(Fault::Unanswered)?;
        let named = match led {
            Led::ByUser => request.url().host_str().map(str::to_owned),
            Led::From(_) => None,
        };
        let (mut led, mut previous) = (led, Vec::new());
        loop {
            let (url, again) = (request.url().clone(), request.try_clone());
            let shown = redact(url.as_str());
            tracing::debug!(url = shown, method = %request.method(), "request");
            let client = self.reaching(&url, led)?;
            let sent = client.execute(request);
            let response = match &again {
                // What a stream brings takes as long as it takes.
                None => sent.await,
                Some(_) => match timeout(self.patience.answer, sent).await {
                    Ok(answered) => answered,
                    Err(_) => return Err(Fault::Silent(self.patience.answer)),
                },
            };
            let response = response.map_err(unanswered)?;
            let status = response.status().as_u16();
            tracing::debug!(
                status,
                url = shown,
                bytes = response.content_length(),
                "response"
            );
            let from = self.space(&url, &response);
            let Some(next) = redirected(&response) else {
                return Ok(Answer {
                    response,
                    from,
                    patience: self.patience,
                    pace: Pace::default(),
                });
            };
            tracing::debug!(to = redact(next.as_str()), "redirect");
            previous.push(url);
            may_redirect(&previous, &next)?;
            led = match next.host_str() {
                host if host.is_some() && host == named.as_deref() => Led::ByUser,
                _ => Led::From(from),
            };
            request = moved(again, response.status(), next)?;
        }
    }

    /// The answer to a request whose body is a secret: it goes to no other address, so a redirect
    /// is refused.
    pub async fn send_secret(&self, request: RequestBuilder, led: Led) -> Result<Answer, Fault> {
        let request = request.build().map_err(Fault::Unanswered)?;
        let url = request.url().clone();
        tracing::debug!(url = redact(url.as_str()), method = %request.method(), "request");
        let sent = self.reaching(&url, led)?.execute(request);
        let answered = timeout(self.patience.answer, sent).await;
        let answered = answered.map_err(|_| Fault::Silent(self.patience.answer))?;
        let response = answered.map_err(unanswered)?;
        if let Some(next) = redirected(&response) {
            let words = format!(
                "{} redirects a login, which is not followed ({})",
                redact(url.as_str()),
                redact(next.as_str())
            );
            return Err(Refusal::Redirect(winimg_base::unseen::line(&words)).into());
        }
        Ok(Answer {
            from: self.space(&url, &response),
            response,
            patience: self.patience,
            pace: Pace::default(),
        })
    }

    /// The client whose names lead no nearer than they may.
    fn reaching(&self, url: &Url, led: Led) -> Result<&reqwest::Client, Fault> {
        let from = match led {
            Led::From(from) if !is_near(&self.proxies.near, url) => from,
            Led::ByUser | Led::From(_) if self.is_proxied(url) => {
                return self.client(&self.proxied, Way::Proxied);
            }
            Led::ByUser | Led::From(_) => return self.client(&self.open, Way::Straight(None)),
        };
        may_reach(from, url)?;
        // A proxy looks the name up, in its own network.
        if self.is_proxied(url) {
            return self.client(&self.proxied, Way::Proxied);
        }
        let floor = FLOORS.iter().rposition(|floor| *floor <= from).unwrap_or(0);
        self.client(&self.within[floor], Way::Straight(Some(FLOORS[floor])))
    }

    fn client<'c>(
        &self,
        made: &'c OnceLock<reqwest::Client>,
        way: Way,
    ) -> Result<&'c reqwest::Client, Fault> {
        if let Some(client) = made.get() {
            return Ok(client);
        }
        let builder = reqwest::Client::builder()
            .user_agent(concat!("winimg/", env!("CARGO_PKG_VERSION")))
            .redirect(Policy::none())
            // Referer would carry a signed URL to the next host.
            .referer(false)
            .connect_timeout(self.patience.connect);
        let builder = match way {
            Way::Proxied => self.proxies.apply(builder),
            Way::Straight(None) => builder.no_proxy(),
            Way::Straight(Some(floor)) => builder.no_proxy().dns_resolver(Arc::new(Within(floor))),
        };
        let client = builder.build().map_err(|e| {
            let fact = format!("https cannot be set up: {}", innermost(&e));
            Fault::Host(Error::new(Kind::Host, fact).cure(
                "install the ca-certificates package, or set SSL_CERT_FILE to a file of PEM roots",
            ))
        })?;
        Ok(made.get_or_init(|| client))
    }

    fn is_proxied(&self, url: &Url) -> bool {
        let through = self.through.as_ref();
        through.is_some_and(|through| through.takes(url))
    }

    /// Of a server behind a proxy nobody knows where it lies.
    fn space(&self, url: &Url, response: &Response) -> Space {
        match response.remote_addr().filter(|_| !self.is_proxied(url)) {
            Some(address) => Space::of(address.ip()),
            None => Space::Public,
        }
    }
}

/// The causes of an error, the outermost first. What an I/O error wraps is not among its sources.
pub(crate) fn causes(
    e: &reqwest::Error,
) -> impl Iterator<Item = &(dyn std::error::Error + 'static)> {
    std::iter::successors(e.source(), |&cause| {
        match cause.downcast_ref::<std::io::Error>() {
            Some(e) => e.get_ref().map(|inner| inner as &dyn std::error::Error),
            None => cause.source(),
        }
    })
}

/// The last cause of an error, which is the one that people can act on. Never holds a URL.
pub(crate) fn innermost(e: &reqwest::Error) -> String {
    let last = causes(e).last().map(ToString::to_string);
    // Only reqwest's own words show the URL.
    last.unwrap_or_else(|| "the request failed".into())
}

/// What the policy refused inside of a connection is a refusal, no failure.
fn unanswered(e: reqwest::Error) -> Fault {
    let refused = causes(&e).find_map(|cause| cause.downcast_ref::<Refusal>().cloned());
    refused.map_or(Fault::Unanswered(e), Fault::Refused)
}

/// An answer, whose body is read piece by piece.
pub(crate) struct Answer {
    response: Response,
    /// Where the server lies.
    pub from: Space,
    patience: Patience,
    pace: Pace,
}

impl Deref for Answer {
    type Target = Response;

    fn deref(&self) -> &Response {
        &self.response
    }
}

impl Answer {
    /// The next piece; `None` at the end.
    pub async fn chunk(
        &mut self,
    ) -> Result<Option<impl Deref<Target = [u8]> + Send + use<>>, Fault> {
        let begun = Instant::now();
        let bytes = match timeout(self.patience.stall, self.response.chunk()).await {
            Ok(Ok(Some(bytes))) => bytes,
            Ok(Ok(None)) => return Ok(None),
            Ok(Err(e)) => return Err(Fault::Broken(e)),
            Err(_) => return Err(Fault::Silent(self.patience.stall)),
        };
        let within = self.patience.slow;
        let took = self.pace.took(begun.elapsed(), bytes.len() as u64, within);
        took.map_err(|bytes| Fault::Slow { bytes, within })?;
        Ok(Some(bytes))
    }

    /// The body, of no more bytes than these.
    pub async fn whole(mut self, limit: u64) -> Result<Vec<u8>, Fault> {
        let too_long = Err(Fault::TooLong { limit });
        if self.content_length().is_some_and(|said| said > limit) {
            return too_long;
        }
        let mut all = Vec::new();
        while let Some(bytes) = self.chunk().await? {
            if (all.len() + bytes.len()) as u64 > limit {
                return too_long;
            }
            all.extend_from_slice(&bytes);
        }
        Ok(all)
    }
}

/// Whether a host's name or address is this machine's own.
pub(crate) fn is_here<S: AsRef<str>>(host: &Host<S>) -> bool {
    match host {
        Host::Domain(name) => name.as_ref() == "localhost",
        Host::Ipv4(ip) => ip.is_loopback(),
        Host::Ipv6(ip) => ip.is_loopback(),
    }
}
