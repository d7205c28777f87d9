//! Publishes to a folder of a server that accepts PUT: an artifact repository, WebDAV. (RFC 9110,
//! 9.3.4)
//!
//! Few such servers compute digests; if an answer has a digest, it is compared. An interrupted
//! transfer starts over: HTTP has no standard way to resume uploads.

use std::sync::Arc;

use reqwest::header::{CONTENT_LENGTH, CONTENT_TYPE, HeaderMap};
use reqwest::{Method, RequestBuilder, StatusCode};
use url::Url;

use super::address::AddressFault;
use super::body::ObjectBody;
use super::login::ServerLogin;
use super::{
    KnownBy, ObjectStatus, PublishHost, PublishImage, PublishObject, PublishedObject, RemoteObject,
    service, with_retries,
};
use crate::fetch::client::{HttpAnswer, HttpClient};
use crate::fetch::failure::{FetchFailure, classify_response};
use crate::fetch::policy::UrlSource;
use crate::fetch::{FetchOptions, upload};
use crate::store::ProgressWatch;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use winimg_base::digest::Digest;
use winimg_base::error::{Error, Kind, Result};

/// Digest header of artifact repositories (JFrog: deploy artifact by checksum).
const SHA256: &str = "x-checksum-sha256";
/// (RFC 9530)
const REPR_DIGEST: &str = "repr-digest";

pub struct FileServer {
    client: HttpClient,
    /// Ends with a slash.
    base: Url,
    login: Option<ServerLogin>,
    options: FetchOptions,
}

/// `https://host/folder`: a folder of a server. Ends with a slash.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerFolder(pub Url);

impl ServerFolder {
    /// Parses the whole address.
    pub fn parse(text: &str) -> Result<Self, AddressFault> {
        let mut url = Url::parse(text).map_err(|e| format!("is malformed: {e}"))?;
        if !url.username().is_empty() || url.password().is_some() {
            return Err(AddressFault::from("contains a user name or password").cure(
                "set WINIMG_PUBLISH_USER and WINIMG_PUBLISH_PASSWORD, or WINIMG_PUBLISH_TOKEN, \
                 instead",
            ));
        }
        if url.query().is_some() || url.fragment().is_some() {
            return Err("has more than a host and a folder".into());
        }
        let folder = format!("{}/", url.path().trim_end_matches('/'));
        url.set_path(&folder);
        Ok(Self(url))
    }
}

impl FileServer {
    pub fn new(ServerFolder(url): &ServerFolder, host: &PublishHost) -> Result<Self> {
        let login = ServerLogin::of_environment()?;
        let keeps_secrets = service::keeps_secrets(url);
        if login.is_some() && !keeps_secrets {
            let fact = "the password for the server would be sent unencrypted";
            return Err(Error::new(Kind::Recipe, fact).at(url).cure("use https"));
        }
        let client = HttpClient::new(&host.fetch.proxies, host.fetch.patience);
        Ok(Self {
            client: if keeps_secrets && url.scheme() == "http" {
                // A proxy would see the password, and localhost is another machine there.
                client.skip_proxies()
            } else {
                client
            },
            base: url.clone(),
            login,
            options: host.fetch.clone(),
        })
    }

    pub fn list_objects(self: &Arc<Self>, image: &PublishImage) -> Result<Vec<PublishObject>> {
        let objects = image.files.iter().map(|file| {
            let url = join_name(&self.base, &file.name).ok_or_else(|| {
                let fact = format!("{} has a name that cannot be part of a URL", file.name);
                Error::new(Kind::Publish, fact)
            })?;
            let remote = RemoteObject::Server(Arc::clone(self));
            Ok(PublishObject::from_file(file, url.to_string(), remote))
        });
        objects.collect()
    }

    pub async fn check_status(
        &self,
        object: &PublishObject,
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

    pub async fn send(
        &self,
        object: &PublishObject,
        watch: &ProgressWatch,
    ) -> Result<PublishedObject> {
        let sent = with_retries(&self.options, watch, async || self.put(object, watch).await);
        Ok(sent.await?.into())
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
        let url = self.parse_url(object)?;
        let to = (&url, UrlSource::ByUser);
        let limit = (&moved, self.options.patience.stall);
        let answer = service::send_file(&self.client, &object.name, to, request, limit).await?;
        if !answer.status().is_success() {
            return Err(classify_response(&object.name, &url, &answer));
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
        let request = service::request(&self.client, &object.name, method, &url)?;
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
        service::send(&self.client, &object.name, &url, request).await
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
