//! Errors of Cloud Storage, and whether a retry helps. (Cloud Storage JSON API: status and error
//! codes)

use reqwest::StatusCode;

use super::super::service;
use super::answers;
use crate::fetch::client::HttpAnswer;
use crate::fetch::failure::{FetchFailure, is_passing};

/// Maximum size of an error answer in bytes.
const LONGEST: u64 = 1 << 16;

/// Converts an error answer.
pub async fn read_failure(answer: HttpAnswer, what: &str, at: &str) -> FetchFailure {
    let status = answer.status();
    let bytes = answer.read_body(LONGEST).await.unwrap_or_default();
    let (reason, words) = answers::error(&bytes).unwrap_or_default();
    let who = format!("{what}: the bucket");
    let error = service::report_refusal(&who, at, Some(status), &reason, &words);
    service::classify_refusal(error, is_passing(status), find_cure(status))
}

fn find_cure(status: StatusCode) -> Option<&'static str> {
    Some(match status.as_u16() {
        401 => {
            "check the credentials: GOOGLE_APPLICATION_CREDENTIALS, or log in again with `gcloud \
             auth application-default login`"
        }
        403 => {
            "grant the account the role Storage Object User (roles/storage.objectUser) on the \
             bucket: it can get, list, create and replace objects"
        }
        404 => "create the bucket first, or correct its name in --to",
        412 => "another process put a file there in the meantime: publish again to see it",
        _ => return None,
    })
}
