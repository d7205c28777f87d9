//! Errors of blob storage, and whether a retry helps. (Azure Storage: status and error codes)

use reqwest::StatusCode;
use reqwest::header::HeaderMap;
use url::Url;

use super::super::service;
use super::answers;
use crate::fetch::client::HttpAnswer;
use crate::fetch::failure::{FetchFailure, is_passing};
use winimg_base::display_text;

/// Maximum size of an error answer in bytes.
const LONGEST: u64 = 1 << 16;

/// Reads the service's error code, which is in a header, with or without a body.
pub fn code(headers: &HeaderMap) -> String {
    let code = headers.get("x-ms-error-code");
    let code = code.and_then(|value| value.to_str().ok());
    display_text::sanitize_line(code.unwrap_or_default())
}

/// Converts an error answer.
pub async fn read_failure(answer: HttpAnswer, what: &str, url: &Url) -> FetchFailure {
    let (status, code) = (answer.status(), code(answer.headers()));
    let body = answer.read_body(LONGEST).await.unwrap_or_default();
    let words = answers::parse_error(&String::from_utf8_lossy(&body));
    let mut bare = url.clone();
    bare.set_query(None);
    let (who, words) = (
        format!("{what}: the storage account"),
        words.unwrap_or_default(),
    );
    let error = service::report_refusal(&who, bare, Some(status), &code, &words);
    let passes = is_passing(status) || matches!(code.as_str(), "Md5Mismatch" | "OperationTimedOut");
    service::classify_refusal(error, passes, cure(status, &code))
}

fn cure(status: StatusCode, code: &str) -> Option<&'static str> {
    Some(match (status.as_u16(), code) {
        (_, "ContainerNotFound") => {
            "create the container first: az storage container create; or correct its name in --to"
        }
        (_, "KeyBasedAuthenticationNotPermitted") => {
            "the account does not accept keys: unset AZURE_STORAGE_KEY and log in with Azure \
             credentials"
        }
        (_, "AuthorizationPermissionMismatch" | "InsufficientAccountPermissions") => {
            "grant the identity the role \"Storage Blob Data Contributor\" on the container, or \
             the signature the permissions racw"
        }
        (_, "LeaseIdMissing" | "SnapshotsPresent") => {
            "a program or a disk is using the blob: release it, or use another folder"
        }
        (401 | 403, _) => {
            "check that AZURE_STORAGE_KEY or AZURE_STORAGE_SAS_TOKEN is right and has not expired, \
             this host's clock, and the account's firewall; an identity needs the role \"Storage \
             Blob Data Contributor\""
        }
        _ => return None,
    })
}
