//! The HTTP client of all transfers: files, their evidence, container images, the shared cache.
//!
//! Uses the system's TLS roots (or `SSL_CERT_FILE`) and the proxies of the environment or the
//! host's configuration. `policy` decides on addresses, redirects and timeouts. Refuses bodies
//! longer than the reader allows, and decompresses nothing.

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
use super::policy::{
    Timeouts, TransferRate, UrlRefusal, UrlSource, check_reach, check_redirect, is_near,
};
use super::proxy::ProxyMatcher;
use super::redirect::{find_redirect, follow_redirect};
use super::resolver::ZoneResolver;
use super::zone::NetworkZone;

/// The zones that have a client of their own, farthest first. It only connects to addresses that
/// are at least as far.
const FLOORS: [NetworkZone; 3] = [NetworkZone::Public, NetworkZone::Private, NetworkZone::Here];

pub(crate) struct HttpClient {
    proxies: Proxies,
    /// Selects the addresses that go through a proxy; `None`: no proxy is used.
    proxy_matcher: Option<ProxyMatcher>,
    timeouts: Timeouts,
    /// For addresses that go through a proxy.
    proxied: OnceLock<reqwest::Client>,
    /// For other addresses that the user named.
    direct: OnceLock<reqwest::Client>,
    /// For addresses that a server names, by the zone of that server.
    by_zone: [OnceLock<reqwest::Client>; FLOORS.len()],
}

/// Route of a request out of this host.
enum RequestRoute {
    Proxied,
    /// Without a proxy; with a zone, only to addresses no nearer than it.
    Direct(Option<NetworkZone>),
}

/// Reason why a request got no response, or only a part of it.
#[derive(Debug)]
pub(crate) enum HttpFault {
    Refused(UrlRefusal),
    Unanswered(reqwest::Error),
    /// The body broke off.
    Broken(reqwest::Error),
    /// No byte in this time.
    Silent(Duration),
    /// Too few bytes in this time to continue.
    Slow {
        bytes: u64,
        within: Duration,
    },
    /// More than `limit` bytes.
    TooLong {
        limit: u64,
    },
    /// The host cannot make requests.
    Host(Error),
}

impl From<UrlRefusal> for HttpFault {
    fn from(refusal: UrlRefusal) -> Self {
        Self::Refused(refusal)
    }
}

impl fmt::Display for HttpFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refused(refusal) => refusal.fmt(f),
            Self::Unanswered(e) | Self::Broken(e) => f.write_str(&find_root_cause(e)),
            Self::Silent(time) => write!(f, "no data for {} s", time.as_secs_f64()),
            Self::Slow { bytes, within } => {
                write!(f, "only {bytes} bytes in {} s", within.as_secs_f64())
            }
            Self::TooLong { limit } => write!(f, "the answer exceeds {limit} bytes"),
            Self::Host(error) => f.write_str(error.fact()),
        }
    }
}

impl HttpClient {
    /// Sets up nothing before the first request, so a run without downloads needs no TLS roots.
    pub fn new(proxies: &Proxies, timeouts: Timeouts) -> Self {
        Self {
            proxies: proxies.clone(),
            proxy_matcher: Some(proxies.build_matcher()),
            timeouts,
            proxied: OnceLock::new(),
            direct: OnceLock::new(),
            by_zone: Default::default(),
        }
    }

    /// Returns the client without its proxies.
    pub fn skip_proxies(self) -> Self {
        Self {
            proxy_matcher: None,
            ..self
        }
    }

    /// Builds a request for [`HttpClient::send`].
    pub fn request(&self, method: Method, url: Url) -> Result<RequestBuilder, HttpFault> {
        let client = self.get_or_build(&self.direct, RequestRoute::Direct(None))?;
        let request = client.request(method, url);
        Ok(request.header(ACCEPT_ENCODING, "identity"))
    }

    /// Sends a request and follows redirects within the policy.
    pub async fn send(
        &self,
        request: RequestBuilder,
        source: UrlSource,
    ) -> Result<HttpAnswer, HttpFault> {
        let mut request = request.build().map_err(HttpFault::Unanswered)?;
        let named_host = match source {
            UrlSource::ByUser => request.url().host_str().map(str::to_owned),
            UrlSource::From(_) => None,
        };
        let (mut source, mut previous) = (source, Vec::new());
        loop {
            let (url, copy) = (request.url().clone(), request.try_clone());
            let shown = redact(url.as_str());
            tracing::debug!(url = shown, method = %request.method(), "request");
            let client = self.choose_client(&url, source)?;
            let sent = client.execute(request);
            let response = match &copy {
                // A streamed upload has no time limit.
                None => sent.await,
                Some(_) => match timeout(self.timeouts.answer, sent).await {
                    Ok(answered) => answered,
                    Err(_) => return Err(HttpFault::Silent(self.timeouts.answer)),
                },
            };
            let response = response.map_err(convert_error)?;
            let status = response.status().as_u16();
            tracing::debug!(
                status,
                url = shown,
                bytes = response.content_length(),
                "response"
            );
            let from = self.locate_server(&url, &response);
            let Some(next) = find_redirect(&response) else {
                return Ok(HttpAnswer {
                    response,
                    from,
                    timeouts: self.timeouts,
                    rate: TransferRate::default(),
                });
            };
            tracing::debug!(to = redact(next.as_str()), "redirect");
            previous.push(url);
            check_redirect(&previous, &next)?;
            source = match next.host_str() {
                host if host.is_some() && host == named_host.as_deref() => UrlSource::ByUser,
                _ => UrlSource::From(from),
            };
            request = follow_redirect(copy, response.status(), next)?;
        }
    }

    /// Sends a request whose body is a secret. Redirects are refused.
    pub async fn send_secret(
        &self,
        request: RequestBuilder,
        source: UrlSource,
    ) -> Result<HttpAnswer, HttpFault> {
        let request = request.build().map_err(HttpFault::Unanswered)?;
        let url = request.url().clone();
        tracing::debug!(url = redact(url.as_str()), method = %request.method(), "request");
        let sent = self.choose_client(&url, source)?.execute(request);
        let answered = timeout(self.timeouts.answer, sent).await;
        let answered = answered.map_err(|_| HttpFault::Silent(self.timeouts.answer))?;
        let response = answered.map_err(convert_error)?;
        if let Some(next) = find_redirect(&response) {
            let message = format!(
                "{} redirects a login, which is not followed ({})",
                redact(url.as_str()),
                redact(next.as_str())
            );
            return Err(
                UrlRefusal::Redirect(winimg_base::display_text::sanitize_line(&message)).into(),
            );
        }
        Ok(HttpAnswer {
            from: self.locate_server(&url, &response),
            response,
            timeouts: self.timeouts,
            rate: TransferRate::default(),
        })
    }

    /// Chooses the client that resolves names only to permitted addresses.
    fn choose_client(&self, url: &Url, source: UrlSource) -> Result<&reqwest::Client, HttpFault> {
        let from = match source {
            UrlSource::From(from) if !is_near(&self.proxies.near, url) => from,
            UrlSource::ByUser | UrlSource::From(_) if self.is_proxied(url) => {
                return self.get_or_build(&self.proxied, RequestRoute::Proxied);
            }
            UrlSource::ByUser | UrlSource::From(_) => {
                return self.get_or_build(&self.direct, RequestRoute::Direct(None));
            }
        };
        check_reach(from, url)?;
        // A proxy looks the name up, in its own network.
        if self.is_proxied(url) {
            return self.get_or_build(&self.proxied, RequestRoute::Proxied);
        }
        let floor = FLOORS.iter().rposition(|floor| *floor <= from).unwrap_or(0);
        self.get_or_build(
            &self.by_zone[floor],
            RequestRoute::Direct(Some(FLOORS[floor])),
        )
    }

    fn get_or_build<'c>(
        &self,
        cell: &'c OnceLock<reqwest::Client>,
        route: RequestRoute,
    ) -> Result<&'c reqwest::Client, HttpFault> {
        if let Some(client) = cell.get() {
            return Ok(client);
        }
        let builder = reqwest::Client::builder()
            .user_agent(concat!("winimg/", env!("CARGO_PKG_VERSION")))
            .redirect(Policy::none())
            // Referer would carry a signed URL to the next host.
            .referer(false)
            .connect_timeout(self.timeouts.connect);
        let builder = match route {
            RequestRoute::Proxied => self.proxies.apply(builder),
            RequestRoute::Direct(None) => builder.no_proxy(),
            RequestRoute::Direct(Some(floor)) => builder
                .no_proxy()
                .dns_resolver(Arc::new(ZoneResolver(floor))),
        };
        let client = builder.build().map_err(|e| {
            let fact = format!("https cannot be set up: {}", find_root_cause(&e));
            HttpFault::Host(Error::new(Kind::Host, fact).cure(
                "install the ca-certificates package, or set SSL_CERT_FILE to a file of PEM roots",
            ))
        })?;
        Ok(cell.get_or_init(|| client))
    }

    fn is_proxied(&self, url: &Url) -> bool {
        self.proxy_matcher
            .as_ref()
            .is_some_and(|matcher| matcher.matches(url))
    }

    /// Returns the zone of the server. Behind a proxy it is unknown and counts as public.
    fn locate_server(&self, url: &Url, response: &Response) -> NetworkZone {
        match response.remote_addr().filter(|_| !self.is_proxied(url)) {
            Some(address) => NetworkZone::from_ip(address.ip()),
            None => NetworkZone::Public,
        }
    }
}

/// Iterates over the causes of an error, outermost first. The error that an I/O error wraps is not
/// among its sources.
pub(crate) fn iter_causes(
    e: &reqwest::Error,
) -> impl Iterator<Item = &(dyn std::error::Error + 'static)> {
    std::iter::successors(e.source(), |&cause| {
        match cause.downcast_ref::<std::io::Error>() {
            Some(e) => e.get_ref().map(|inner| inner as &dyn std::error::Error),
            None => cause.source(),
        }
    })
}

/// Returns the last cause of an error, the one that people can act on. It never contains a URL.
pub(crate) fn find_root_cause(e: &reqwest::Error) -> String {
    let last = iter_causes(e).last().map(ToString::to_string);
    // Only reqwest's own text contains the URL.
    last.unwrap_or_else(|| "the request failed".into())
}

/// Turns an error into a fault: a refusal by the policy during the connection is not a failure.
fn convert_error(e: reqwest::Error) -> HttpFault {
    let refused = iter_causes(&e).find_map(|cause| cause.downcast_ref::<UrlRefusal>().cloned());
    refused.map_or(HttpFault::Unanswered(e), HttpFault::Refused)
}

/// A response whose body is read piece by piece.
pub(crate) struct HttpAnswer {
    response: Response,
    /// Zone of the server.
    pub from: NetworkZone,
    timeouts: Timeouts,
    rate: TransferRate,
}

impl Deref for HttpAnswer {
    type Target = Response;

    fn deref(&self) -> &Response {
        &self.response
    }
}

impl HttpAnswer {
    /// Reads the next piece; `None` at the end.
    pub async fn read_chunk(
        &mut self,
    ) -> Result<Option<impl Deref<Target = [u8]> + Send + use<>>, HttpFault> {
        let started = Instant::now();
        let bytes = match timeout(self.timeouts.stall, self.response.chunk()).await {
            Ok(Ok(Some(bytes))) => bytes,
            Ok(Ok(None)) => return Ok(None),
            Ok(Err(e)) => return Err(HttpFault::Broken(e)),
            Err(_) => return Err(HttpFault::Silent(self.timeouts.stall)),
        };
        let within = self.timeouts.slow;
        let recorded = self
            .rate
            .record(started.elapsed(), bytes.len() as u64, within);
        recorded.map_err(|bytes| HttpFault::Slow { bytes, within })?;
        Ok(Some(bytes))
    }

    /// Reads the whole body, up to `limit` bytes.
    pub async fn read_body(mut self, limit: u64) -> Result<Vec<u8>, HttpFault> {
        let too_long = Err(HttpFault::TooLong { limit });
        if self.content_length().is_some_and(|length| length > limit) {
            return too_long;
        }
        let mut all = Vec::new();
        while let Some(bytes) = self.read_chunk().await? {
            if (all.len() + bytes.len()) as u64 > limit {
                return too_long;
            }
            all.extend_from_slice(&bytes);
        }
        Ok(all)
    }
}

/// Returns true if a host name or address is this machine's own.
pub(crate) fn is_here<S: AsRef<str>>(host: &Host<S>) -> bool {
    match host {
        Host::Domain(name) => name.as_ref() == "localhost",
        Host::Ipv4(ip) => ip.is_loopback(),
        Host::Ipv6(ip) => ip.is_loopback(),
    }
}
