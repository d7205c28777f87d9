//! JSON answers and errors of vCenter. Pure. (vSphere Automation API: content library, ovf, vm
//! template, inventory; error types)

use reqwest::StatusCode;
use serde::Deserialize;
use serde_json::Value;

use super::super::service;
use crate::fetch::failure::{FetchFailure, is_passing};
use winimg_base::display_text;
use winimg_base::error::{Error, Kind};

#[derive(Debug, Deserialize)]
pub struct LibraryInfo {
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
    pub checksum_info: Option<FileChecksum>,
}

#[derive(Debug, Deserialize)]
pub struct FileChecksum {
    /// vCenter omits it for SHA1.
    #[serde(default)]
    pub algorithm: String,
    pub checksum: String,
}

impl FileChecksum {
    /// Returns the SHA-256 in hex, if it is one.
    pub fn sha256(&self) -> Option<&str> {
        let is_one = self.algorithm == "SHA256" && !self.checksum.is_empty();
        is_one.then_some(&self.checksum)
    }
}

#[derive(Debug, Deserialize)]
pub struct UpdateSession {
    pub library_item_id: String,
    pub state: String,
    pub error_message: Option<LocalizedMessage>,
}

/// A file of an update session.
#[derive(Debug, Deserialize)]
pub struct UpdateFile {
    #[serde(default)]
    pub name: String,
    /// `NONE`: the session does not change the file.
    #[serde(default)]
    pub source_type: String,
    pub status: String,
    /// Bytes, once all of them arrived.
    pub size: Option<u64>,
    pub checksum_info: Option<FileChecksum>,
    pub error_message: Option<LocalizedMessage>,
    pub upload_endpoint: Option<UploadEndpoint>,
}

#[derive(Debug, Deserialize)]
pub struct UploadEndpoint {
    pub uri: String,
}

#[derive(Debug, Deserialize)]
pub struct LocalizedMessage {
    #[serde(default)]
    pub default_message: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct ValidationResult {
    pub has_errors: bool,
    pub missing_files: Vec<String>,
    pub invalid_files: Vec<InvalidFile>,
}

#[derive(Debug, Deserialize)]
pub struct InvalidFile {
    pub name: String,
    pub error_message: LocalizedMessage,
}

/// One entry in a list of the inventory.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct InventoryEntry {
    pub name: String,
    /// vCenter's ID.
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
    /// Root folder of its machines.
    pub vm_folder: String,
}

#[derive(Debug, Deserialize)]
pub struct ClusterInfo {
    /// Root of its resource pools.
    pub resource_pool: String,
}

/// Result of deploying an OVF.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct OvfDeployment {
    pub succeeded: bool,
    pub resource_id: Option<DeployedMachine>,
    error: Option<DeploymentErrors>,
}

#[derive(Debug, Deserialize)]
pub struct DeployedMachine {
    pub id: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct DeploymentErrors {
    errors: Vec<Value>,
}

impl OvfDeployment {
    /// Returns vCenter's messages about a failed deployment.
    pub fn complaints(&self) -> Vec<String> {
        let errors = self.error.iter().flat_map(|error| &error.errors);
        errors.flat_map(collect_messages).collect()
    }
}

/// The template of an item.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct TemplateInfo {
    /// ID in the inventory, since API version 6.9.1.
    pub vm_template: Option<String>,
}

/// Collects the texts of messages at any depth.
fn collect_messages(value: &Value) -> Vec<String> {
    match value {
        Value::Array(all) => all.iter().flat_map(collect_messages).collect(),
        Value::Object(members) => match members.get("default_message").and_then(Value::as_str) {
            Some(text) if !text.is_empty() => vec![display_text::sanitize_line(text)],
            _ => members.values().flat_map(collect_messages).collect(),
        },
        _ => Vec::new(),
    }
}

/// Parses the last part of an error's type: `already_exists`.
fn error_type(text: &str) -> String {
    let value: Value = serde_json::from_str(text).unwrap_or_default();
    let kind = ["type", "error_type"]
        .iter()
        .find_map(|name| value.get(*name)?.as_str())
        .unwrap_or_default();
    let last = kind.rsplit('.').next().unwrap_or_default();
    display_text::sanitize_line(&last.to_ascii_lowercase())
}

/// Returns true if vCenter refuses because of another operation.
pub fn is_busy(text: &str) -> bool {
    means_busy(&error_type(text))
}

fn means_busy(error_type: &str) -> bool {
    matches!(error_type, "resource_busy" | "resource_in_use")
}

/// Classifies an error of vCenter.
pub fn refused(what: &str, status: StatusCode, text: &str) -> FetchFailure {
    let kind = error_type(text);
    let said = collect_messages(&serde_json::from_str(text).unwrap_or_default()).join("; ");
    let error = service::report_refusal("vCenter", what, Some(status), &kind, &said);
    let passes = matches!(kind.as_str(), "service_unavailable" | "timed_out") || means_busy(&kind);
    let is_denied = status == StatusCode::FORBIDDEN || kind == "unauthorized";
    let cure = "the user needs the privileges of docs/publish.md, \"vSphere\"";
    service::classify_refusal(
        error,
        passes || is_passing(status),
        is_denied.then_some(cure),
    )
}

pub fn unexpected(what: &str, words: impl ToString) -> FetchFailure {
    Error::new(
        Kind::Publish,
        "vCenter sent an answer that is not its API's",
    )
    .at(what)
    .found(display_text::sanitize_line(&words.to_string()))
    .into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(status: u16, text: &str) -> (bool, String) {
        match refused("item", StatusCode::from_u16(status).unwrap(), text) {
            FetchFailure::Again { error, .. } | FetchFailure::Slow(error) => {
                (true, error.to_string())
            }
            FetchFailure::Final(error) => (false, error.to_string()),
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
