//! A folder of a server that takes files by PUT: a repository of artifacts, WebDAV. (RFC 9110, 9.3.4)
//!
//! Few such servers compute digests; where one names a digest in its answers, it is compared. A file whose transfer breaks off is
//! sent again from its beginning: HTTP has no agreed way to continue.

use std::sync::Arc;

use reqwest::header::{CONTENT_LENGTH, CONTENT_TYPE, HeaderMap};
use reqwest::{Method, RequestBuilder, StatusCode};
use url::Url;

use super::body::Body;
use super::{Arrived, Image, Known, Object, Settings, Standing, Target, files, patiently};
use crate::fetch::client::{Answer, Client, Fault};
use crate::fetch::failure::{Failure, refused, unanswered};
use crate::fetch::policy::Led;
use crate::fetch::registry::Variables;
use crate::fetch::{FetchOptions, upload};
use crate::store::Watch;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use winimg_base::digest::Digest;
use winimg_base::environment::variable;
use winimg_base::error::{Error, Kind, Result};
use winimg_base::text::Secret;

/// The variables of whoever publishes to a server or a registry.
pub const OF_PUBLISH: Variables = Variables {
    user: "WINIMG_PUBLISH_USER",
    password: "WINIMG_PUBLISH_PASSWORD",
};
const TOKEN: &str = "WINIMG_PUBLISH_TOKEN";
/// The digest as repositories of artifacts take and name it (JFrog: deploy artifact by checksum).
const SHA256: &str = "x-checksum-sha256";
/// (RFC 9530)
const REPR_DIGEST: &str = "repr-digest";

/// Who sends.
pub enum Login {
    Password { user: String, password: Secret },
    Token(Secret),
}

impl Login {
    /// `WINIMG_PUBLISH_TOKEN`, or `WINIMG_PUBLISH_USER` and `WINIMG_PUBLISH_PASSWORD`.
    pub fn of_environment() -> Result<Option<Self>> {
        let user = variable(OF_PUBLISH.user);
        match (variable(TOKEN), user, variable(OF_PUBLISH.password)) {
            (None, None, None) => Ok(None),
            (Some(token), None, None) if token.chars().all(|c| c.is_ascii_graphic()) => {
                Ok(Some(Self::Token(Secret::new(token))))
            }
            (Some(_), None, None) => Err(Error::new(
                Kind::Recipe,
                "a token holds a space, a line break or another character that no token has",
            )
            .at(TOKEN)
            .cure("set it to the token alone, in one line")),
            (None, Some(user), Some(password)) => Ok(Some(Self::Password {
                user,
                password: Secret::new(password),
            })),
            _ => Err(Error::new(
                Kind::Recipe,
                "the environment does not say clearly who publishes",
            )
            .expected(
                "WINIMG_PUBLISH_TOKEN alone, or WINIMG_PUBLISH_USER and WINIMG_PUBLISH_PASSWORD",
            )),
        }
    }
}

pub struct Server {
    client: Client,
    /// Ends with a slash.
    base: Url,
    login: Option<Login>,
    options: FetchOptions,
}

impl Target for Server {
    /// Every object is a file.
    type Slot = ();

    async fn objects(self: &Arc<Self>, image: &Image, _: &Watch) -> Result<Vec<Object>> {
        files(self, image, |name| {
            let url = below(&self.base, name).ok_or_else(|| {
                let fact = format!("{name} has a name that no address takes");
                Error::new(Kind::Publish, fact)
            })?;
            Ok(url.to_string())
        })
    }

    async fn standing(&self, object: &Object, (): &(), watch: &Watch) -> Result<Standing> {
        patiently(&self.options, watch, async || {
            let Some(answer) = self.look(object).await? else {
                return Ok(Standing::Absent);
            };
            let size = size(answer.headers());
            Ok(match digest(answer.headers()) {
                Some(digest) if digest == object.sha256 => Standing::Same(None),
                Some(digest) => Standing::Other(digest.to_string()),
                None => Standing::Unknown { size },
            })
        })
        .await
    }

    async fn send(&self, object: &Object, (): &(), watch: &Watch) -> Result<Arrived> {
        let sent = patiently(&self.options, watch, async || self.put(object, watch).await);
        Ok(sent.await?.into())
    }
}

impl Server {
    pub fn new(url: &Url, settings: Settings) -> Result<Self> {
        let is_here = url
            .host()
            .is_some_and(|host| crate::fetch::client::is_here(&host));
        if settings.login.is_some() && url.scheme() != "https" && !is_here {
            let fact = "a password for the server would be readable on its way";
            return Err(Error::new(Kind::Recipe, fact).at(url).cure("use https"));
        }
        let client = Client::new(&settings.options.proxies, settings.options.patience);
        Ok(Self {
            client: match is_here && url.scheme() != "https" {
                // A proxy would read the password, and has another machine for localhost.
                true => client.direct(),
                false => client,
            },
            base: url.clone(),
            login: settings.login,
            options: settings.options,
        })
    }

    /// `None`: there is nothing.
    async fn look(&self, object: &Object) -> Result<Option<Answer>, Failure> {
        let request = self.request(Method::HEAD, object)?;
        let answer = self.answer(request, object).await?;
        match answer.status() {
            StatusCode::NOT_FOUND | StatusCode::GONE => Ok(None),
            status if status.is_success() => Ok(Some(answer)),
            _ => Err(refused(&object.name, &self.url(object)?, &answer)),
        }
    }

    async fn put(&self, object: &Object, watch: &Watch) -> Result<Known, Failure> {
        let Body::File { path, start } = &object.body else {
            return Err(Error::failed("this object is no file").into());
        };
        let (body, moved) = upload::body(path, *start, object.size, watch)?;
        let bytes = STANDARD.encode(object.sha256.bytes());
        let request = self
            .request(Method::PUT, object)?
            .header(CONTENT_LENGTH, object.size)
            .header(CONTENT_TYPE, &object.media_type)
            .header(SHA256, object.sha256.hex())
            .header(REPR_DIGEST, format!("sha-256=:{bytes}:"))
            .body(body);
        let stall = self.options.patience.stall;
        let answer = tokio::select! {
            answer = self.answer(request, object) => answer?,
            () = moved.stands_still(stall) => {
                return Err(unanswered(&object.name, &self.url(object)?, Fault::Silent(stall)));
            }
        };
        if !answer.status().is_success() {
            return Err(refused(&object.name, &self.url(object)?, &answer));
        }
        self.arrived(object).await
    }

    /// What the server says of the file that it has now.
    async fn arrived(&self, object: &Object) -> Result<Known, Failure> {
        let other = |found: String| {
            let fact = format!("{} arrived at the server as something else", object.name);
            let expected = format!("{} bytes, {}", object.size, object.sha256);
            Failure::again(
                Error::new(Kind::Publish, fact)
                    .at(&object.at)
                    .expected(expected)
                    .found(found),
            )
        };
        let Some(answer) = self.look(object).await? else {
            return Err(other("nothing".into()));
        };
        match (size(answer.headers()), digest(answer.headers())) {
            (_, Some(digest)) if digest == object.sha256 => Ok(Known::Digest),
            (_, Some(digest)) => Err(other(digest.to_string())),
            (Some(size), None) if size != object.size => Err(other(format!("{size} bytes"))),
            _ => Ok(Known::Size),
        }
    }

    fn url(&self, object: &Object) -> Result<Url> {
        let malformed = |e| Error::new(Kind::Publish, "an address is malformed").because(e);
        Url::parse(&object.at).map_err(malformed)
    }

    fn request(&self, method: Method, object: &Object) -> Result<RequestBuilder, Failure> {
        let url = self.url(object)?;
        let failed = |fault| unanswered(&object.name, &url, fault);
        let request = self.client.request(method, url.clone()).map_err(failed)?;
        Ok(match &self.login {
            Some(Login::Token(token)) => request.bearer_auth(token.expose()),
            Some(Login::Password { user, password }) => {
                request.basic_auth(user, Some(password.expose()))
            }
            None => request,
        })
    }

    async fn answer(&self, request: RequestBuilder, object: &Object) -> Result<Answer, Failure> {
        let url = self.url(object)?;
        let sent = self.client.send(request, Led::ByUser).await;
        sent.map_err(|fault| unanswered(&object.name, &url, fault))
    }
}

/// The address of a file below a folder's, whatever characters are in its name: a name is never an address of its own, nor a query.
fn below(folder: &Url, name: &str) -> Option<Url> {
    let mut url = folder.clone();
    let is_plain = |part: &str| !matches!(part, "" | "." | "..");
    if !name.split('/').all(is_plain) {
        return None;
    }
    url.path_segments_mut()
        .ok()?
        .pop_if_empty()
        .extend(name.split('/'));
    Some(url)
}

fn size(headers: &HeaderMap) -> Option<u64> {
    headers.get(CONTENT_LENGTH)?.to_str().ok()?.parse().ok()
}

/// The SHA-256 that the server names, hex or as a structured field.
fn digest(headers: &HeaderMap) -> Option<Digest> {
    let header = |name: &str| headers.get(name)?.to_str().ok();
    if let Some(hex) = header(SHA256) {
        return Digest::from_hex(hex.trim()).ok();
    }
    let all = header(REPR_DIGEST)?.split(',');
    let mut named = all.filter_map(|one| one.trim().strip_prefix("sha-256=:"));
    let bytes = STANDARD.decode(named.next()?.strip_suffix(':')?).ok()?;
    Digest::from_hex(&hex_of(&bytes)).ok()
}

fn hex_of(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_never_leads_out_of_the_folder() {
        let folder = Url::parse("https://h.example/images/").unwrap();
        for (name, expected) in [
            ("node.ova", Some("https://h.example/images/node.ova")),
            (
                "logs/a b.log",
                Some("https://h.example/images/logs/a%20b.log"),
            ),
            ("a?x#y%2f", Some("https://h.example/images/a%3Fx%23y%252f")),
            ("https:x", Some("https://h.example/images/https:x")),
            ("https://evil.example/x", None),
            ("//evil.example/x", None),
            ("../x", None),
            ("a/../../x", None),
            ("", None),
        ] {
            let found = below(&folder, name).map(String::from);
            assert_eq!(found.as_deref(), expected, "{name}");
        }
    }

    #[test]
    fn a_digest_is_read_as_servers_name_it() {
        let expected = Digest::sha256_of(b"x");
        let repr = format!(
            "sha-512=:AAAA:, sha-256=:{}:",
            STANDARD.encode(expected.bytes())
        );
        let of = |name: &'static str, value: &str| {
            digest(&HeaderMap::from_iter([(
                name.parse().unwrap(),
                value.parse().unwrap(),
            )]))
        };
        assert_eq!(of(SHA256, &expected.hex()), Some(expected.clone()));
        assert_eq!(of(REPR_DIGEST, &repr), Some(expected));
        assert_eq!(of(REPR_DIGEST, "sha-256=AAAA"), None);
    }
}
