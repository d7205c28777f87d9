//! What blob storage refuses, and whether asking again helps. (Azure Storage: status and error codes)

use reqwest::StatusCode;
use reqwest::header::HeaderMap;
use url::Url;

use super::answers;
use crate::fetch::client::Answer;
use crate::fetch::failure::{Failure, is_passing};
use winimg_base::error::{Error, Kind};
use winimg_base::unseen;

/// Bytes of an error's answer.
const LONGEST: u64 = 1 << 16;

/// The service's word for what is wrong, of an answer with a body or without one.
pub fn code(headers: &HeaderMap) -> String {
    let code = headers.get("x-ms-error-code");
    let code = code.and_then(|value| value.to_str().ok());
    unseen::line(code.unwrap_or_default())
}

/// An answer of another status than a good one.
pub async fn of(answer: Answer, what: &str, url: &Url) -> Failure {
    let (status, code) = (answer.status(), code(answer.headers()));
    let body = answer.whole(LONGEST).await.unwrap_or_default();
    let words = answers::words(&String::from_utf8_lossy(&body));
    let named = match code.is_empty() {
        true => status.as_u16().to_string(),
        false => format!("{} {code}", status.as_u16()),
    };
    let mut bare = url.clone();
    bare.set_query(None);
    let fact = format!("{what}: the storage account answered {named}");
    let mut error = Error::new(Kind::Publish, fact).at(bare);
    if let Some(words) = words {
        error = error.found(words);
    }
    let passes = is_passing(status) || matches!(code.as_str(), "Md5Mismatch" | "OperationTimedOut");
    if passes {
        return Failure::again(error);
    }
    match cure(status, &code) {
        Some(cure) => error.cure(cure).into(),
        None => error.into(),
    }
}

fn cure(status: StatusCode, code: &str) -> Option<&'static str> {
    Some(match (status.as_u16(), code) {
        (_, "ContainerNotFound") => {
            "make the container first: az storage container create; or mend its name in --to"
        }
        (_, "KeyBasedAuthenticationNotPermitted") => {
            "the account takes no keys: unset AZURE_STORAGE_KEY and log in with Azure's own credentials"
        }
        (_, "AuthorizationPermissionMismatch" | "InsufficientAccountPermissions") => {
            "give the identity the role \"Storage Blob Data Contributor\" on the container, or the signature the permissions racw"
        }
        (_, "LeaseIdMissing" | "SnapshotsPresent") => {
            "a program or a disk holds the blob: release it, or give another folder"
        }
        (401 | 403, _) => {
            "check AZURE_STORAGE_KEY or AZURE_STORAGE_SAS_TOKEN and whether it has run out, this host's clock, and the account's firewall; an \
             identity needs the role \"Storage Blob Data Contributor\""
        }
        _ => return None,
    })
}
