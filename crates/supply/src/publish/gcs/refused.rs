//! What Cloud Storage refuses, and whether asking again helps. (Cloud Storage JSON API: status and error codes)

use reqwest::StatusCode;

use super::answers;
use crate::fetch::client::Answer;
use crate::fetch::failure::{Failure, is_passing};
use winimg_base::error::{Error, Kind};
use winimg_base::unseen;

/// Bytes of an error's answer.
const LONGEST: u64 = 1 << 16;

/// An answer of another status than a good one.
pub async fn of(answer: Answer, what: &str, at: &str) -> Failure {
    let status = answer.status();
    let bytes = answer.whole(LONGEST).await.unwrap_or_default();
    let (reason, words) = answers::error(&bytes).unwrap_or_default();
    judged(status, &reason, &words, what, at)
}

fn judged(status: StatusCode, reason: &str, words: &str, what: &str, at: &str) -> Failure {
    let named = match unseen::line(reason) {
        reason if reason.is_empty() => status.as_u16().to_string(),
        reason => format!("{} {reason}", status.as_u16()),
    };
    let fact = format!("{what}: the bucket answered {named}");
    let mut error = Error::new(Kind::Publish, fact).at(at);
    if !words.is_empty() {
        error = error.found(unseen::line(words));
    }
    if is_passing(status) {
        return Failure::again(error);
    }
    let cure = match status.as_u16() {
        401 => {
            "check the credentials: GOOGLE_APPLICATION_CREDENTIALS, or log in again with `gcloud auth application-default login`"
        }
        403 => {
            "give the account the role Storage Object User (roles/storage.objectUser) on the bucket: it gets, lists, creates and replaces objects"
        }
        404 => "make the bucket first, or mend its name in --to",
        412 => "somebody else put a file there in the meantime: publish again to see it",
        _ => return error.into(),
    };
    error.cure(cure).into()
}
