//! Publishes to a folder of a server that accepts PUT: an artifact repository, WebDAV. (RFC 9110,
//! 9.3.4)
//!
//! Few such servers compute digests; if an answer has a digest, it is compared. An interrupted
//! transfer starts over: HTTP has no standard way to resume uploads.

use std::sync::Arc;

use reqwest::header::{CONTENT_LENGTH, CONTENT_TYPE, HeaderMap};
use reqwest::{Method, RequestBuilder, StatusCode};
use url::Url;

use super::body::ObjectBody;
use super::{
    KnownBy, ObjectStatus, PublishImage, PublishObject, PublishTarget, PublishedObject,
    PublisherSettings, list_files, with_retries,
};
use crate::fetch::client::{HttpAnswer, HttpClient, HttpFault};
use crate::fetch::failure::{FetchFailure, classify_fault, classify_response};
use crate::fetch::policy::UrlSource;
use crate::fetch::registry::LoginVariables;
use crate::fetch::{FetchOptions, upload};
use crate::store::ProgressWatch;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use winimg_base::digest::Digest;
use winimg_base::environment::read_variable;
use winimg_base::error::{Error, Kind, Result};
use winimg_base::text::Secret;

/// Variables with the login for publishing to a server or a registry.
pub const OF_PUBLISH: LoginVariables = LoginVariables {
    user: "WINIMG_PUBLISH_USER",
    password: "WINIMG_PUBLISH_PASSWORD",
};
const TOKEN: &str = "WINIMG_PUBLISH_TOKEN";
/// Digest header of artifact repositories (JFrog: deploy artifact by checksum).
const SHA256: &str = "x-checksum-sha256";
/// (RFC 9530)
const REPR_DIGEST: &str = "repr-digest";

/// A login to a server.
pub enum ServerLogin {
    Password { user: String, password: Secret },
    Token(Secret),
}

impl ServerLogin {
    /// Reads `WINIMG_PUBLISH_TOKEN`, or `WINIMG_PUBLISH_USER` and `WINIMG_PUBLISH_PASSWORD`.
    pub fn of_environment() -> Result<Option<Self>> {
        let user = read_variable(OF_PUBLISH.user);
        match (
            read_variable(TOKEN),
            user,
            read_variable(OF_PUBLISH.password),
        ) {
            (None, None, None) => Ok(None),
            (Some(token), None, None) if token.chars().all(|c| c.is_ascii_graphic()) => {
                Ok(Some(Self::Token(Secret::new(token))))
            }
            (Some(_), None, None) => Err(Error::new(
                Kind::Recipe,
                "a token contains a space, a line break or another invalid character",
            )
            .at(TOKEN)
            .cure("set it to the token only, in one line")),
            (None, Some(user), Some(password)) => Ok(Some(Self::Password {
                user,
                password: Secret::new(password),
            })),
            _ => Err(Error::new(
                Kind::Recipe,
                "the environment has an incomplete or ambiguous login for publishing",
            )
            .expected(
                "WINIMG_PUBLISH_TOKEN alone, or WINIMG_PUBLISH_USER and WINIMG_PUBLISH_PASSWORD",
            )),
        }
    }
}

pub struct FileServer {
    client: HttpClient,
    /// Ends with a slash.
    base: Url,
    login: Option<ServerLogin>,
    options: FetchOptions,
}

impl PublishTarget for FileServer {
    /// Every object is a file.
    type Slot = ();

    async fn list_objects(
        self: &Arc<Self>,
        image: &PublishImage,
        _: &ProgressWatch,
    ) -> Result<Vec<PublishObject>> {
        list_files(self, image, |name| {
            let url = join_name(&self.base, name).ok_or_else(|| {
                let fact = format!("{name} has a name that cannot be part of a URL");
                Error::new(Kind::Publish, fact)
            })?;
            Ok(url.to_string())
        })
    }

    async fn check_status(
        &self,
        object: &PublishObject,
        (): &(),
        watch: &ProgressWatch,
    ) -> Result<ObjectStatus> {
        with_retries(&self.options, watch, async || {
            let Some(answer) = self.find_object(object).await? else {
                return Ok(ObjectStatus::Absent);
            };
            let size = size(answer.headers());
            Ok(match read_digest(answer.headers()) {
                Some(digest) if digest == object.sha256 => ObjectStatus::Same(None),
                Some(digest) => ObjectStatus::Other(digest.to_string()),
                None => ObjectStatus::Unknown { size },
            })
        })
        .await
    }

    async fn send(
        &self,
        object: &PublishObject,
        (): &(),
        watch: &ProgressWatch,
    ) -> Result<PublishedObject> {
        let sent = with_retries(&self.options, watch, async || self.put(object, watch).await);
        Ok(sent.await?.into())
    }
}

impl FileServer {
    pub fn new(url: &Url, settings: PublisherSettings) -> Result<Self> {
        let is_here = url
            .host()
            .is_some_and(|host| crate::fetch::client::is_here(&host));
        if settings.login.is_some() && url.scheme() != "https" && !is_here {
            let fact = "the password for the server would be sent unencrypted";
            return Err(Error::new(Kind::Recipe, fact).at(url).cure("use https"));
        }
        let client = HttpClient::new(&settings.options.proxies, settings.options.patience);
        Ok(Self {
            client: if is_here && url.scheme() != "https" {
                // A proxy would see the password, and localhost is another machine there.
                client.skip_proxies()
            } else {
                client
            },
            base: url.clone(),
            login: settings.login,
            options: settings.options,
        })
    }

    /// Looks the object up; `None`: it is not there.
    async fn find_object(
        &self,
        object: &PublishObject,
    ) -> Result<Option<HttpAnswer>, FetchFailure> {
        let request = self.request(Method::HEAD, object)?;
        let answer = self.send_request(request, object).await?;
        match answer.status() {
            StatusCode::NOT_FOUND | StatusCode::GONE => Ok(None),
            status if status.is_success() => Ok(Some(answer)),
            _ => Err(classify_response(
                &object.name,
                &self.parse_url(object)?,
                &answer,
            )),
        }
    }

    async fn put(
        &self,
        object: &PublishObject,
        watch: &ProgressWatch,
    ) -> Result<KnownBy, FetchFailure> {
        let ObjectBody::File { path, start } = &object.body else {
            return Err(Error::failed("this object is not a file").into());
        };
        let (body, moved) = upload::open_range(path, *start, object.size, watch)?;
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
            answer = self.send_request(request, object) => answer?,
            () = moved.stands_still(stall) => {
                let url = self.parse_url(object)?;
                return Err(classify_fault(&object.name, &url, HttpFault::Silent(stall)));
            }
        };
        if !answer.status().is_success() {
            return Err(classify_response(
                &object.name,
                &self.parse_url(object)?,
                &answer,
            ));
        }
        self.verify_upload(object).await
    }

    /// Checks the file on the server after the upload.
    async fn verify_upload(&self, object: &PublishObject) -> Result<KnownBy, FetchFailure> {
        let Some(answer) = self.find_object(object).await? else {
            return Err(report_mismatch(object, "nothing"));
        };
        match (size(answer.headers()), read_digest(answer.headers())) {
            (_, Some(digest)) if digest == object.sha256 => Ok(KnownBy::Digest),
            (_, Some(digest)) => Err(report_mismatch(object, &digest.to_string())),
            (Some(size), None) if size != object.size => {
                Err(report_mismatch(object, &format!("{size} bytes")))
            }
            _ => Ok(KnownBy::Size),
        }
    }

    fn parse_url(&self, object: &PublishObject) -> Result<Url> {
        Url::parse(&object.at)
            .map_err(|e| Error::new(Kind::Publish, "an address is malformed").because(e))
    }

    fn request(
        &self,
        method: Method,
        object: &PublishObject,
    ) -> Result<RequestBuilder, FetchFailure> {
        let url = self.parse_url(object)?;
        let request = self
            .client
            .request(method, url.clone())
            .map_err(|fault| classify_fault(&object.name, &url, fault))?;
        Ok(match &self.login {
            Some(ServerLogin::Token(token)) => request.bearer_auth(token.expose()),
            Some(ServerLogin::Password { user, password }) => {
                request.basic_auth(user, Some(password.expose()))
            }
            None => request,
        })
    }

    async fn send_request(
        &self,
        request: RequestBuilder,
        object: &PublishObject,
    ) -> Result<HttpAnswer, FetchFailure> {
        let url = self.parse_url(object)?;
        let sent = self.client.send(request, UrlSource::ByUser).await;
        sent.map_err(|fault| classify_fault(&object.name, &url, fault))
    }
}

fn report_mismatch(object: &PublishObject, found: &str) -> FetchFailure {
    let fact = format!(
        "{} is different on the server after the upload",
        object.name
    );
    let error = Error::new(Kind::Publish, fact)
        .at(&object.at)
        .expected(format!("{} bytes, {}", object.size, object.sha256))
        .found(found);
    FetchFailure::retryable(error)
}

/// Builds the address of a file in a folder. Its name is escaped, so it is never a URL or a query.
fn join_name(folder: &Url, name: &str) -> Option<Url> {
    let mut url = folder.clone();
    if name.split('/').any(|part| matches!(part, "" | "." | "..")) {
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

/// Reads the SHA-256 in the headers, hex or as a structured field.
fn read_digest(headers: &HeaderMap) -> Option<Digest> {
    if let Some(hex) = headers.get(SHA256).and_then(|value| value.to_str().ok()) {
        return Digest::from_hex(hex.trim()).ok();
    }
    let all = headers.get(REPR_DIGEST)?.to_str().ok()?.split(',');
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
            let found = join_name(&folder, name).map(String::from);
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
            read_digest(&HeaderMap::from_iter([(
                name.parse().unwrap(),
                value.parse().unwrap(),
            )]))
        };
        assert_eq!(of(SHA256, &expected.hex()), Some(expected.clone()));
        assert_eq!(of(REPR_DIGEST, &repr), Some(expected));
        assert_eq!(of(REPR_DIGEST, "sha-256=AAAA"), None);
    }
}
