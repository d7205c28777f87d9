//! Authorization of requests to a registry, as its answers require.

use std::sync::{MutexGuard, PoisonError};
use std::time::Instant;

use reqwest::header::{CONTENT_TYPE, WWW_AUTHENTICATE};
use reqwest::{Method, RequestBuilder, StatusCode};
use url::{Url, form_urlencoded};

use super::access::{self, Challenge, RegistryAccess};
use super::login::RegistryLogin;
use super::{
    ERROR_BODY_LIMIT, RegistryClient, RegistryError, RegistryResult, error_of, parse,
    report_malformed,
};
use crate::fetch::client::HttpAnswer;
use crate::fetch::policy::{UrlSource, check_token_server};
use crate::fetch::zone::NetworkZone;
use winimg_base::text::redact;

/// Parameters of a token request, from a challenge.
struct TokenRequest<'a> {
    realm: &'a str,
    service: Option<String>,
    /// Additional scopes beside the repository's.
    scopes: &'a str,
}

impl RegistryClient {
    /// Sends a request whose body can be sent again: a second time if the answer requires an
    /// authorization that was not tried. Not every registry announces it at its first address.
    pub(super) async fn ask(
        &self,
        method: Method,
        url: Url,
        writes: bool,
        led: UrlSource,
        change: impl Fn(RequestBuilder) -> RequestBuilder,
    ) -> RegistryResult<HttpAnswer> {
        let request = self.request(method.clone(), url.clone(), writes).await?;
        let answer = self.http.send(change(request), led).await?;
        if answer.status() != StatusCode::UNAUTHORIZED
            || !self.renew_access(&answer, writes).await?
        {
            return Ok(answer);
        }
        let request = self.request(method, url, writes).await?;
        Ok(self.http.send(change(request), led).await?)
    }

    /// Obtains the authorization that a refusal requires; returns true if it differs from the one
    /// sent.
    async fn renew_access(&self, refusal: &HttpAnswer, writes: bool) -> RegistryResult<bool> {
        // A redirect may have led to another server, which must not see the credentials.
        if refusal.url().origin() != self.base.origin() {
            return Ok(false);
        }
        let held = self.lock_access()[usize::from(writes)].clone();
        let login = self.credentials.as_ref().map(|known| &known.login);
        let has_password = matches!(login, Some(RegistryLogin::Password { .. }));
        let access = match challenge_of(refusal) {
            Challenge::Basic if has_password && !matches!(held, Some(RegistryAccess::Basic)) => {
                RegistryAccess::Basic
            }
            Challenge::None | Challenge::Basic => return Ok(false),
            // There is no other token than the login's.
            Challenge::Bearer { .. }
                if matches!(held, Some(RegistryAccess::Bearer { .. }))
                    && self.find_bearer().is_some() =>
            {
                return Ok(false);
            }
            Challenge::Bearer {
                realm,
                service,
                scope,
            } => {
                let scopes = scope.unwrap_or_default();
                let asked = TokenRequest {
                    realm: &realm,
                    service,
                    scopes: &scopes,
                };
                self.fetch_token(asked, writes, refusal.from).await?
            }
        };
        self.lock_access()[usize::from(writes)] = Some(access);
        Ok(true)
    }

    /// Builds a request; it is authorized if it goes to the registry itself.
    pub(super) async fn request(
        &self,
        method: Method,
        url: Url,
        writes: bool,
    ) -> RegistryResult<RequestBuilder> {
        self.check_scheme(&url)?;
        let is_own = url.origin() == self.base.origin();
        tracing::debug!(%method, url = redact(url.as_str()), is_own, "request to a registry");
        let request = self.http.request(method, url)?;
        if !is_own {
            return Ok(request);
        }
        let login = self.credentials.as_ref().map(|known| &known.login);
        Ok(match (self.find_access(writes).await?, login) {
            (RegistryAccess::Bearer { token, .. }, _) => request.bearer_auth(token.expose()),
            (RegistryAccess::Basic, Some(RegistryLogin::Password { user, password })) => {
                request.basic_auth(user, Some(password.expose()))
            }
            (RegistryAccess::Basic | RegistryAccess::Open, _) => request,
        })
    }

    /// Locks the known authorizations for reading and for writing.
    fn lock_access(&self) -> MutexGuard<'_, [Option<RegistryAccess>; 2]> {
        self.access.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn find_access(&self, writes: bool) -> RegistryResult<RegistryAccess> {
        let at = usize::from(writes);
        let before = self.lock_access()[at].clone();
        match before {
            Some(RegistryAccess::Bearer { until, .. }) if until <= Instant::now() => {}
            Some(access) => return Ok(access),
            None => {}
        }
        let access = self.ask_access(writes).await?;
        self.lock_access()[at] = Some(access.clone());
        Ok(access)
    }

    /// Queries the registry for its kind of authorization. (OCI Distribution Specification:
    /// determining support)
    async fn ask_access(&self, writes: bool) -> RegistryResult<RegistryAccess> {
        let url = self.base.join("/v2/").map_err(report_malformed)?;
        let request = self.http.request(Method::GET, url)?;
        let response = self.http.send(request, UrlSource::ByUser).await?;
        let from = response.from;
        match challenge_of(&response) {
            Challenge::None if response.status().is_server_error() => Err(error_of(response).await),
            Challenge::None => Ok(RegistryAccess::Open),
            Challenge::Basic => Ok(RegistryAccess::Basic),
            Challenge::Bearer { realm, service, .. } => {
                let asked = TokenRequest {
                    realm: &realm,
                    service,
                    scopes: "",
                };
                self.fetch_token(asked, writes, from).await
            }
        }
    }

    /// Returns the registry's own token from a login, if there is one.
    fn find_bearer(&self) -> Option<RegistryAccess> {
        match &self.credentials.as_ref()?.login {
            RegistryLogin::Bearer(token) => Some(RegistryAccess::of_token(token)),
            RegistryLogin::Password { .. } | RegistryLogin::Identity(_) => None,
        }
    }

    /// Fetches a token from the realm that a server in zone `from` named.
    async fn fetch_token(
        &self,
        asked: TokenRequest<'_>,
        writes: bool,
        from: NetworkZone,
    ) -> RegistryResult<RegistryAccess> {
        if let Some(access) = self.find_bearer() {
            return Ok(access);
        }
        let mut realm = parse(asked.realm)?;
        let credentials = self.credentials.as_ref();
        let token_host = credentials.map(|known| known.token_host.as_deref());
        check_token_server(&self.base, &realm, token_host)?;
        let led = match token_host.flatten() {
            Some(named) if realm.host_str() == Some(named) => UrlSource::ByUser,
            _ => self.led_to(&realm, from),
        };
        let rights = if writes { "pull,push" } else { "pull" };
        let own = format!("repository:{}:{rights}", self.repository);
        let more = asked
            .scopes
            .split_whitespace()
            .filter(|scope| *scope != own);
        let scopes: Vec<&str> = std::iter::once(own.as_str()).chain(more).collect();
        let response = match credentials.map(|known| &known.login) {
            // (Docker: Token Authentication, OAuth2)
            Some(RegistryLogin::Identity(token)) => {
                let form = form_urlencoded::Serializer::new(String::new())
                    .append_pair("grant_type", "refresh_token")
                    .append_pair("refresh_token", token.expose())
                    .append_pair("client_id", "winimg")
                    .append_pair("service", asked.service.as_deref().unwrap_or_default())
                    .append_pair("scope", &scopes.join(" "))
                    .finish();
                let request = self.http.request(Method::POST, realm)?;
                let request = request
                    .header(CONTENT_TYPE, "application/x-www-form-urlencoded")
                    .body(form);
                self.http.send_secret(request, led).await?
            }
            login => {
                for scope in scopes {
                    realm.query_pairs_mut().append_pair("scope", scope);
                }
                if let Some(service) = asked.service {
                    realm.query_pairs_mut().append_pair("service", &service);
                }
                let request = self.http.request(Method::GET, realm)?;
                let request = match login {
                    Some(RegistryLogin::Password { user, password }) => {
                        request.basic_auth(user, Some(password.expose()))
                    }
                    _ => request,
                };
                self.http.send(request, led).await?
            }
        };
        let status = response.status();
        let answer = response.read_body(ERROR_BODY_LIMIT).await?;
        if status.is_success() {
            access::parse_token(&answer)
        } else {
            Err(RegistryError::NoToken(
                String::from_utf8_lossy(&answer).into_owned(),
            ))
        }
    }
}

fn challenge_of(answer: &HttpAnswer) -> Challenge {
    let asked = answer.headers().get_all(WWW_AUTHENTICATE);
    access::parse_challenge(asked.iter().filter_map(|value| value.to_str().ok()))
}
