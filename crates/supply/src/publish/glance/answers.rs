//! What Keystone and Glance say in JSON, and what they refuse. (OpenStack: Identity API v3, Image API v2)

use std::collections::BTreeMap;

use reqwest::StatusCode;
use serde::Deserialize;
use serde_json::Value;

use crate::fetch::client::Answer;
use crate::fetch::failure::{Failure, is_passing};
use winimg_base::error::{Error, Kind};
use winimg_base::unseen;

/// Bytes of an answer.
pub const LONGEST: u64 = 8 << 20;

/// What a token is for and where the services are.
#[derive(Deserialize)]
pub struct Granted {
    pub token: Token,
}

#[derive(Deserialize)]
pub struct Token {
    pub project: Option<Project>,
    #[serde(default)]
    pub catalog: Vec<Service>,
}

#[derive(Deserialize)]
pub struct Project {
    pub id: String,
}

#[derive(Deserialize)]
pub struct Service {
    #[serde(rename = "type")]
    pub kind: String,
    #[serde(default)]
    pub endpoints: Vec<Endpoint>,
}

#[derive(Deserialize)]
pub struct Endpoint {
    pub interface: String,
    /// The old name stands beside the new one.
    pub region: Option<String>,
    pub region_id: Option<String>,
    pub url: String,
}

/// A page of images.
#[derive(Deserialize)]
pub struct Page {
    pub images: Vec<Info>,
    /// The address of the next one, without its host.
    pub next: Option<String>,
}

/// An image.
#[derive(Clone, Debug, Deserialize)]
pub struct Info {
    pub id: String,
    pub name: Option<String>,
    /// `queued`, `saving`, `active` …
    pub status: String,
    /// Bytes, where all of them are there.
    pub size: Option<u64>,
    pub os_hash_algo: Option<String>,
    pub os_hash_value: Option<String>,
    /// Properties stand beside the attributes.
    #[serde(flatten)]
    pub more: BTreeMap<String, Value>,
}

impl Info {
    pub fn property(&self, name: &str) -> Option<&str> {
        self.more.get(name)?.as_str()
    }
}

pub fn read<T: for<'de> Deserialize<'de>>(who: &str, bytes: &[u8]) -> Result<T, Failure> {
    serde_json::from_slice(bytes).map_err(|e| unexpected(who, &e.to_string()).into())
}

pub fn unexpected(who: &str, words: &str) -> Error {
    let fact = format!("{who} sent an answer that is not OpenStack's");
    Error::new(Kind::Publish, fact).found(unseen::line(words))
}

/// An answer of another status than a good one.
pub async fn refused(answer: Answer, who: &str, what: &str, at: &str) -> Failure {
    let status = answer.status();
    let bytes = answer.whole(1 << 16).await.unwrap_or_default();
    let text = String::from_utf8_lossy(&bytes);
    let fact = format!("{what}: {who} answered {}", status.as_u16());
    let error = Error::new(Kind::Publish, fact).at(at);
    let error = match words(&text) {
        words if words.is_empty() => error,
        words => error.found(unseen::line(&words)),
    };
    judged(status, error)
}

fn judged(status: StatusCode, error: Error) -> Failure {
    let cure = match status.as_u16() {
        // A full store is not asked again, although Glance may say that it will be there.
        413 => {
            "make room in the image store, or raise the project's limits: openstack limit set, openstack registered limit set"
        }
        401 => {
            "check user, project, domains and password: Keystone says the same of a wrong password and of a project that is not there"
        }
        403 => "give the user a role in the project that may make images: member",
        409 => "another run sends this image, or the image is protected",
        _ if is_passing(status) => return Failure::again(error),
        _ => return error.into(),
    };
    error.cure(cure).into()
}

/// The words of an error, of which each service has a form of its own: JSON, or a page. Glance has either, as it is asked, and tags of
/// the page in its JSON. (WebOb: exceptions)
fn words(text: &str) -> String {
    if let Ok(value) = serde_json::from_str::<Value>(text) {
        let error = value.get("error").unwrap_or(&value);
        let message = error.get("message").and_then(Value::as_str);
        return line(&message.unwrap_or_default().replace("<br />", " "));
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
    line(&plain)
}

fn line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_found_in_each_services_form() {
        let keystone = r#"{"error":{"code":401,"message":"The request you have made requires authentication.","title":"Unauthorized"}}"#;
        assert_eq!(
            words(keystone),
            "The request you have made requires authentication."
        );
        let glance = "<html>\n <head>\n  <title>403 Forbidden</title>\n </head>\n <body>\n  <h1>403 Forbidden</h1>\n  You are not authorized.<br /><br />\n </body>\n</html>";
        assert_eq!(words(glance), "403 Forbidden You are not authorized.");
        let glance = "<body>\n  <h1>400 Bad Request</h1>\n  &#x27;&lt;b&gt;&#x27; &amp;lt;<br /><br />\n </body>";
        assert_eq!(words(glance), "400 Bad Request '<b>' &lt;");
        let glance = r#"{"message": "Invalid &amp; '<x>'<br /><br />\n\n\n", "code": "400 Bad Request", "title": "Bad Request"}"#;
        assert_eq!(words(glance), "Invalid &amp; '<x>'");
    }

    #[test]
    fn an_image_has_its_properties_beside_its_attributes() {
        let text = br#"{"id": "1", "name": "node", "status": "active", "size": 5, "os_hash_algo": "sha512", "os_hidden": true,
            "winimg_sha256": "ab", "tags": [], "min_disk": 0}"#;
        let info: Info = read("Glance", text).ok().unwrap();
        assert_eq!(info.property("winimg_sha256"), Some("ab"));
        assert_eq!(info.property("tags"), None);
        assert_eq!(info.os_hash_value, None);
    }
}
