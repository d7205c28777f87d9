//! JSON answers and errors of Keystone and Glance. (OpenStack: Identity API v3, Image API v2)

use std::collections::BTreeMap;

use reqwest::StatusCode;
use serde::Deserialize;
use serde_json::Value;

use crate::fetch::client::HttpAnswer;
use crate::fetch::failure::{FetchFailure, is_passing};
use winimg_base::display_text;
use winimg_base::error::{Error, Kind};

/// Maximum size of an answer in bytes.
pub const LONGEST: u64 = 8 << 20;

/// Answer to a login: the token's project and the service catalog.
#[derive(Deserialize)]
pub struct KeystoneLogin {
    pub token: KeystoneToken,
}

#[derive(Deserialize)]
pub struct KeystoneToken {
    pub project: Option<KeystoneProject>,
    #[serde(default)]
    pub catalog: Vec<CatalogService>,
}

#[derive(Deserialize)]
pub struct KeystoneProject {
    pub id: String,
}

#[derive(Deserialize)]
pub struct CatalogService {
    #[serde(rename = "type")]
    pub kind: String,
    #[serde(default)]
    pub endpoints: Vec<CatalogEndpoint>,
}

#[derive(Deserialize)]
pub struct CatalogEndpoint {
    pub interface: String,
    /// The old name of `region_id`.
    pub region: Option<String>,
    pub region_id: Option<String>,
    pub url: String,
}

/// A page of images.
#[derive(Deserialize)]
pub struct ImagePage {
    pub images: Vec<ImageInfo>,
    /// Address of the next page, without its host.
    pub next: Option<String>,
}

/// An image.
#[derive(Clone, Debug, Deserialize)]
pub struct ImageInfo {
    pub id: String,
    pub name: Option<String>,
    /// `queued`, `saving`, `active` …
    pub status: String,
    /// Bytes, once all of them are there.
    pub size: Option<u64>,
    pub os_hash_algo: Option<String>,
    pub os_hash_value: Option<String>,
    /// Properties are beside the attributes.
    #[serde(flatten)]
    pub more: BTreeMap<String, Value>,
}

impl ImageInfo {
    pub fn find_property(&self, name: &str) -> Option<&str> {
        self.more.get(name)?.as_str()
    }
}

pub fn read<T: for<'de> Deserialize<'de>>(who: &str, bytes: &[u8]) -> Result<T, FetchFailure> {
    serde_json::from_slice(bytes).map_err(|e| report_unexpected(who, &e.to_string()).into())
}

pub fn report_unexpected(who: &str, words: &str) -> Error {
    let fact = format!("{who} sent an answer that is not OpenStack's");
    Error::new(Kind::Publish, fact).found(display_text::sanitize_line(words))
}

/// Converts an error answer.
pub async fn read_failure(answer: HttpAnswer, who: &str, what: &str, at: &str) -> FetchFailure {
    let status = answer.status();
    let bytes = answer.read_body(1 << 16).await.unwrap_or_default();
    let text = String::from_utf8_lossy(&bytes);
    let fact = format!("{what}: {who} answered {}", status.as_u16());
    let error = Error::new(Kind::Publish, fact).at(at);
    let error = match extract_message(&text) {
        words if words.is_empty() => error,
        words => error.found(display_text::sanitize_line(&words)),
    };
    classify_error(status, error)
}

fn classify_error(status: StatusCode, error: Error) -> FetchFailure {
    let cure = match status.as_u16() {
        // A full store is not retried, although Glance may ask for that.
        413 => {
            "free space in the image store, or raise the project's limits: openstack limit set, \
             openstack registered limit set"
        }
        401 => {
            "check user, project, domains and password: Keystone has the same answer for a wrong \
             password and a missing project"
        }
        403 => "grant the user a role in the project that may create images: member",
        409 => "another run is sending this image, or the image is protected",
        _ if is_passing(status) => return FetchFailure::retryable(error),
        _ => return error.into(),
    };
    error.cure(cure).into()
}

/// Extracts the message of an error. Each service has its own form: JSON, or a page. Glance has
/// either, depending on the request, with HTML tags in its JSON. (WebOb: exceptions)
fn extract_message(text: &str) -> String {
    if let Ok(value) = serde_json::from_str::<Value>(text) {
        let error = value.get("error").unwrap_or(&value);
        let message = error.get("message").and_then(Value::as_str);
        return join_words(&message.unwrap_or_default().replace("<br />", " "));
    }
    let body = text.split_once("<body>").map_or(text, |(_, body)| body);
    let mut plain = String::new();
    let mut is_tag = false;
    for c in body.chars() {
        match c {
            '<' => is_tag = true,
            '>' => (is_tag, plain) = (false, plain + " "),
            c if !is_tag => plain.push(c),
            _ => {}
        }
    }
    for (name, c) in [
        ("&lt;", "<"),
        ("&gt;", ">"),
        ("&quot;", "\""),
        ("&#x27;", "'"),
        ("&amp;", "&"),
    ] {
        plain = plain.replace(name, c);
    }
    join_words(&plain)
}

fn join_words(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_found_in_each_services_form() {
        let keystone = r#"{"error":{"code":401,"message":"The request you have made requires authentication.","title":"Unauthorized"}}"#;
        assert_eq!(
            extract_message(keystone),
            "The request you have made requires authentication."
        );
        let glance = "<html>\n <head>\n  <title>403 Forbidden</title>\n </head>\n <body>\n  <h1>403 Forbidden</h1>\n  You are not authorized.<br /><br />\n </body>\n</html>";
        assert_eq!(
            extract_message(glance),
            "403 Forbidden You are not authorized."
        );
        let glance = "<body>\n  <h1>400 Bad Request</h1>\n  &#x27;&lt;b&gt;&#x27; &amp;lt;<br /><br />\n </body>";
        assert_eq!(extract_message(glance), "400 Bad Request '<b>' &lt;");
        let glance = r#"{"message": "Invalid &amp; '<x>'<br /><br />\n\n\n", "code": "400 Bad Request", "title": "Bad Request"}"#;
        assert_eq!(extract_message(glance), "Invalid &amp; '<x>'");
    }

    #[test]
    fn an_image_has_its_properties_beside_its_attributes() {
        let text = br#"{"id": "1", "name": "node", "status": "active", "size": 5, "os_hash_algo": "sha512", "os_hidden": true,
            "winimg_sha256": "ab", "tags": [], "min_disk": 0}"#;
        let info: ImageInfo = read("Glance", text).ok().unwrap();
        assert_eq!(info.find_property("winimg_sha256"), Some("ab"));
        assert_eq!(info.find_property("tags"), None);
        assert_eq!(info.os_hash_value, None);
    }
}
