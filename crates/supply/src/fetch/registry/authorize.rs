//! Requests to a registry with the authorization that its answers ask for.

use std::sync::{MutexGuard, PoisonError};
use std::time::Instant;

use reqwest::header::{CONTENT_TYPE, WWW_AUTHENTICATE};
use reqwest::{Method, RequestBuilder, StatusCode};
use url::{Url, form_urlencoded};

use super::access::{self, Access, Challenge};
use super::login::Login;
use super::{Client, Error, Result, WORDS_LIMIT, error_of, malformed, parse};
use crate::fetch::client::Answer;
use crate::fetch::policy::{Led, may_ask_token};
use crate::fetch::space::Space;
use winimg_base::text::redact;

/// What a challenge asks for a token with.
struct Asked<'a> {
    realm: &'a str,
    service: Option<String>,
    /// Beside the right to the repository.
    scopes: &'a str,
}

impl Client {
    /// Sends a request whose body can be sent again: once more where the answer asks for an
    /// authorization that was not tried. Not every registry says at its first address how the rest
    /// of it is asked.
    pub(super) async fn ask(
        &self,
        method: Method,
        url: Url,
        writes: bool,
        led: Led,
        change: impl Fn(RequestBuilder) -> RequestBuilder,
    ) -> Result<Answer> {
        let request = self.request(method.clone(), url.clone(), writes).await?;
        let answer = self.http.send(change(request), led).await?;
        if answer.status() != StatusCode::UNAUTHORIZED || !self.renew(&answer, writes).await? {
            return Ok(answer);
        }
        let request = self.request(method, url, writes).await?;
        Ok(self.http.send(change(request), led).await?)
    }

    /// Takes the authorization that a refusal asks for; whether it is another one than was sent.
    async fn renew(&self, refusal: &Answer, writes: bool) -> Result<bool> {
        // A redirect may have led to another server, which is not to know who asks.
        if refusal.url().origin() != self.base.origin() {
            return Ok(false);
        }
        let held = self.known()[usize::from(writes)].clone();
        let login = self.credentials.as_ref().map(|known| &known.login);
        let has_password = matches!(login, Some(Login::Password { .. }));
        let access = match challenge_of(refusal) {
            Challenge::Basic if has_password && !matches!(held, Some(Access::Basic)) => {
                Access::Basic
            }
            Challenge::None | Challenge::Basic => return Ok(false),
            // The token of the login is all that there is.
            Challenge::Bearer { .. }
                if matches!(held, Some(Access::Bearer { .. })) && self.bearer().is_some() =>
            {
                return Ok(false);
            }
            Challenge::Bearer {
                realm,
                service,
                scope,
            } => {
                let scopes = scope.unwrap_or_default();
                let asked = Asked {
                    realm: &realm,
                    service,
                    scopes: &scopes,
                };
                self.token(asked, writes, refusal.from).await?
            }
        };
        self.known()[usize::from(writes)] = Some(access);
        Ok(true)
    }

    /// Authorized when it goes to the registry itself.
    pub(super) async fn request(
        &self,
        method: Method,
        url: Url,
        writes: bool,
    ) -> Result<RequestBuilder> {
        self.check_scheme(&url)?;
        let is_own = url.origin() == self.base.origin();
        tracing::debug!(%method, url = redact(url.as_str()), is_own, "request to a registry");
        let request = self.http.request(method, url)?;
        if !is_own {
            return Ok(request);
        }
        let login = self.credentials.as_ref().map(|known| &known.login);
        Ok(match (self.access(writes).await?, login) {
            (Access::Bearer { token, .. }, _) => request.bearer_auth(token.expose()),
            (Access::Basic, Some(Login::Password { user, password })) => {
                request.basic_auth(user, Some(password.expose()))
            }
            (Access::Basic | Access::Open, _) => request,
        })
    }

    /// The authorization for reading and for writing, once it is known.
    fn known(&self) -> MutexGuard<'_, [Option<Access>; 2]> {
        self.access.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn access(&self, writes: bool) -> Result<Access> {
        let at = usize::from(writes);
        let before = self.known()[at].clone();
        match before {
            Some(Access::Bearer { until, .. }) if until <= Instant::now() => {}
            Some(access) => return Ok(access),
            None => {}
        }
        let access = self.ask_access(writes).await?;
        self.known()[at] = Some(access.clone());
        Ok(access)
    }

    /// The registry's first answer says how it is asked. (OCI Distribution Specification:
    /// determining support)
    async fn ask_access(&self, writes: bool) -> Result<Access> {
        let url = self.base.join("/v2/").map_err(malformed)?;
        let request = self.http.request(Method::GET, url)?;
        let response = self.http.send(request, Led::ByUser).await?;
        let from = response.from;
        match challenge_of(&response) {
            Challenge::None if response.status().is_server_error() => Err(error_of(response).await),
            Challenge::None => Ok(Access::Open),
            Challenge::Basic => Ok(Access::Basic),
            Challenge::Bearer { realm, service, .. } => {
                let asked = Asked {
                    realm: &realm,
                    service,
                    scopes: "",
                };
                self.token(asked, writes, from).await
            }
        }
    }

    /// The token that a login left, for the registry itself.
    fn bearer(&self) -> Option<Access> {
        match &self.credentials.as_ref()?.login {
            Login::Bearer(token) => Some(Access::of_token(token)),
            Login::Password { .. } | Login::Identity(_) => None,
        }
    }

    /// A token of the realm that a server named which lies `from` there.
    async fn token(&self, asked: Asked<'_>, writes: bool, from: Space) -> Result<Access> {
        if let Some(access) = self.bearer() {
            return Ok(access);
        }
        let mut realm = parse(asked.realm)?;
        let credentials = self.credentials.as_ref();
        let token_host = credentials.map(|known| known.token_host.as_deref());
        may_ask_token(&self.base, &realm, token_host)?;
        let led = match token_host.flatten() {
            Some(named) if realm.host_str() == Some(named) => Led::ByUser,
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
            Some(Login::Identity(token)) => {
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
                    Some(Login::Password { user, password }) => {
                        request.basic_auth(user, Some(password.expose()))
                    }
                    _ => request,
                };
                self.http.send(request, led).await?
            }
        };
        let status = response.status();
        let answer = response.whole(WORDS_LIMIT).await?;
        if status.is_success() {
            access::token(&answer)
        } else {
            Err(Error::NoToken(
                String::from_utf8_lossy(&answer).into_owned(),
            ))
        }
    }
}

fn challenge_of(answer: &Answer) -> Challenge {
    let asked = answer.headers().get_all(WWW_AUTHENTICATE);
    access::challenge(asked.iter().filter_map(|value| value.to_str().ok()))
}
