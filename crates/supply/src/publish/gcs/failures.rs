//! Errors of Cloud Storage, and whether a retry helps. (Cloud Storage JSON API: status and error
//! codes)

use reqwest::StatusCode;

use super::answers;
use crate::fetch::client::HttpAnswer;
use crate::fetch::failure::{FetchFailure, is_passing};
use winimg_base::display_text;
use winimg_base::error::{Error, Kind};

/// Maximum size of an error answer in bytes.
const LONGEST: u64 = 1 << 16;

/// Converts an error answer.
pub async fn read_failure(answer: HttpAnswer, what: &str, at: &str) -> FetchFailure {
    let status = answer.status();
    let bytes = answer.read_body(LONGEST).await.unwrap_or_default();
    let (reason, words) = answers::error(&bytes).unwrap_or_default();
    classify_error(status, &reason, &words, what, at)
}

fn classify_error(
    status: StatusCode,
    reason: &str,
    words: &str,
    what: &str,
    at: &str,
) -> FetchFailure {
    let named = match display_text::sanitize_line(reason) {
        reason if reason.is_empty() => status.as_u16().to_string(),
        reason => format!("{} {reason}", status.as_u16()),
    };
    let fact = format!("{what}: the bucket answered {named}");
    let mut error = Error::new(Kind::Publish, fact).at(at);
    if !words.is_empty() {
        error = error.found(display_text::sanitize_line(words));
    }
    if is_passing(status) {
        return FetchFailure::retryable(error);
    }
    let cure = match status.as_u16() {
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
        _ => return error.into(),
    };
    error.cure(cure).into()
}
