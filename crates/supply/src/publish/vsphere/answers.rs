//! What vCenter says in JSON, and what its refusals mean. Pure. (vSphere Automation API: content library, ovf, vm template, inventory;
//! error types)

use reqwest::StatusCode;
use serde::Deserialize;
use serde_json::Value;

use crate::fetch::failure::{Failure, is_passing};
use winimg_base::error::{Error, Kind};
use winimg_base::unseen;

#[derive(Debug, Deserialize)]
pub struct Library {
    pub name: String,
    #[serde(rename = "type", default)]
    pub kind: String,
}

#[derive(Debug, Deserialize)]
pub struct ItemInfo {
    #[serde(default)]
    pub name: String,
    #[serde(default)]
    pub description: String,
    #[serde(rename = "type", default)]
    pub kind: String,
}

/// A file of an item.
#[derive(Debug, Deserialize)]
pub struct FileInfo {
    pub name: String,
    /// Bytes.
    pub size: Option<u64>,
    pub checksum_info: Option<Checksum>,
}

#[derive(Debug, Deserialize)]
pub struct Checksum {
    /// vCenter leaves it out where it is SHA1.
    #[serde(default)]
    pub algorithm: String,
    pub checksum: String,
}

impl Checksum {
    /// Hex, if it is one.
    pub fn sha256(&self) -> Option<&str> {
        let is_one = self.algorithm == "SHA256" && !self.checksum.is_empty();
        is_one.then_some(&self.checksum)
    }
}

#[derive(Debug, Deserialize)]
pub struct UpdateSession {
    pub library_item_id: String,
    pub state: String,
    pub error_message: Option<Message>,
}

/// A file of an update session.
#[derive(Debug, Deserialize)]
pub struct UpdateFile {
    #[serde(default)]
    pub name: String,
    /// `NONE`: the session leaves the file as it is.
    #[serde(default)]
    pub source_type: String,
    pub status: String,
    /// Bytes, when all of them came.
    pub size: Option<u64>,
    pub checksum_info: Option<Checksum>,
    pub error_message: Option<Message>,
    pub upload_endpoint: Option<Endpoint>,
}

#[derive(Debug, Deserialize)]
pub struct Endpoint {
    pub uri: String,
}

#[derive(Debug, Deserialize)]
pub struct Message {
    #[serde(default)]
    pub default_message: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct Validation {
    pub has_errors: bool,
    pub missing_files: Vec<String>,
    pub invalid_files: Vec<InvalidFile>,
}

#[derive(Debug, Deserialize)]
pub struct InvalidFile {
    pub name: String,
    pub error_message: Message,
}

/// One line of a list of the inventory.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Listed {
    pub name: String,
    /// vCenter's name of it.
    #[serde(
        alias = "cluster",
        alias = "datacenter",
        alias = "datastore",
        alias = "folder",
        alias = "network",
        alias = "resource_pool",
        alias = "vm"
    )]
    pub id: String,
}

#[derive(Debug, Deserialize)]
pub struct DatacenterInfo {
    /// The one that its machines and their folders are in.
    pub vm_folder: String,
}

#[derive(Debug, Deserialize)]
pub struct ClusterInfo {
    /// The one that all its others are in.
    pub resource_pool: String,
}

/// How the deployment of an OVF ended.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct Deployment {
    pub succeeded: bool,
    pub resource_id: Option<Deployed>,
    error: Option<Complaints>,
}

#[derive(Debug, Deserialize)]
pub struct Deployed {
    pub id: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Complaints {
    errors: Vec<Value>,
}

impl Deployment {
    /// vCenter's words for why there is no machine.
    pub fn complaints(&self) -> Vec<String> {
        let errors = self.error.iter().flat_map(|error| &error.errors);
        errors.flat_map(words).collect()
    }
}

/// The template of an item.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct TemplateInfo {
    /// The inventory's name of it, since the API's version 6.9.1.
    pub vm_template: Option<String>,
}

/// The words of a message, or of several, in whatever depth.
fn words(value: &Value) -> Vec<String> {
    match value {
        Value::Array(all) => all.iter().flat_map(words).collect(),
        Value::Object(members) => match members.get("default_message").and_then(Value::as_str) {
            Some(text) if !text.is_empty() => vec![unseen::line(text)],
            _ => members.values().flat_map(words).collect(),
        },
        _ => Vec::new(),
    }
}

/// The last word of an error's type: `already_exists`.
fn error_type(text: &str) -> String {
    let value: Value = serde_json::from_str(text).unwrap_or_default();
    let said = |name: &str| value.get(name).and_then(Value::as_str);
    let kind = said("type")
        .or_else(|| said("error_type"))
        .unwrap_or_default();
    let last = kind.rsplit('.').next().unwrap_or_default();
    unseen::line(&last.to_ascii_lowercase())
}

/// Whether vCenter refuses because something else is being done.
pub fn is_busy(text: &str) -> bool {
    means_busy(&error_type(text))
}

fn means_busy(error_type: &str) -> bool {
    matches!(error_type, "resource_busy" | "resource_in_use")
}

/// What vCenter refuses, and whether asking again helps.
pub fn refused(what: &str, status: StatusCode, text: &str) -> Failure {
    let kind = error_type(text);
    let fact = match kind.is_empty() {
        true => format!("vCenter answered {}", status.as_u16()),
        false => format!("vCenter answered {} {kind}", status.as_u16()),
    };
    let said = words(&serde_json::from_str(text).unwrap_or_default());
    let mut error = Error::new(Kind::Publish, fact).at(what);
    if !said.is_empty() {
        error = error.found(said.join("; "));
    }
    let passes = matches!(kind.as_str(), "service_unavailable" | "timed_out") || means_busy(&kind);
    if passes || is_passing(status) {
        return Failure::again(error);
    }
    if status == StatusCode::FORBIDDEN || kind == "unauthorized" {
        error = error.cure("the user needs the privileges of docs/publish.md, \"vSphere\"");
    }
    error.into()
}

pub fn unexpected(what: &str, words: impl ToString) -> Failure {
    Error::new(
        Kind::Publish,
        "vCenter sent an answer that is not its API's",
    )
    .at(what)
    .found(unseen::line(&words.to_string()))
    .into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(status: u16, text: &str) -> (bool, String) {
        match refused("item", StatusCode::from_u16(status).unwrap(), text) {
            Failure::Again { error, .. } | Failure::Slow(error) => (true, error.to_string()),
            Failure::Final(error) => (false, error.to_string()),
        }
    }

    #[test]
    fn refusals_are_shown_with_their_words_and_asked_again_where_that_helps() {
        let exists = r#"{"type":"com.vmware.vapi.std.errors.already_exists","value":{"messages":[{"args":["demo"],
            "default_message":"An item 'demo' already exists.","id":"x"}]}}"#;
        assert_eq!(
            shown(400, exists),
            (
                false,
                "vCenter answered 400 already_exists\n  at: item\n  found: An item 'demo' already exists.".into()
            )
        );
        assert!(shown(503, "").0 && shown(400, r#"{"error_type":"RESOURCE_BUSY"}"#).0);
        let (again, text) = shown(403, r#"{"type":"com.vmware.vapi.std.errors.unauthorized"}"#);
        assert!(!again && text.contains("cure: the user needs"), "{text}");
    }
}
