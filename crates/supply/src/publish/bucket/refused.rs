//! What a bucket refuses, and whether asking again helps. (Amazon S3: error responses)

use reqwest::StatusCode;

use super::answers;
use crate::fetch::client::Answer;
use crate::fetch::failure::Failure;
use winimg_base::error::{Error, Kind};
use winimg_base::unseen;

/// Bytes of an error's answer.
const LONGEST: u64 = 1 << 16;

/// An answer of another status than a good one.
pub async fn of(answer: Answer, what: &str, at: &str) -> Failure {
    let status = answer.status();
    let region = answer.headers().get("x-amz-bucket-region");
    let region = region.and_then(|v| v.to_str().ok()).map(unseen::line);
    let words = answer.whole(LONGEST).await.unwrap_or_default();
    let text = String::from_utf8_lossy(&words);
    let (code, words) = answers::error(&text).unwrap_or_default();
    judged(Some(status), &code, &words, region, what, at)
}

/// The same to a question for the bucket itself, which is answered without words.
pub async fn of_bucket(answer: Answer, bucket: &str) -> Failure {
    let at = format!("s3://{bucket}");
    match answer.status() {
        status @ StatusCode::NOT_FOUND => {
            judged(Some(status), "NoSuchBucket", "", None, bucket, &at)
        }
        _ => of(answer, bucket, &at).await,
    }
}

/// An error in an answer of a good status.
pub fn within(text: &str, what: &str, at: &str) -> Option<Failure> {
    let (code, words) = answers::error(text)?;
    Some(judged(None, &code, &words, None, what, at))
}

fn judged(
    status: Option<StatusCode>,
    code: &str,
    words: &str,
    region: Option<String>,
    what: &str,
    at: &str,
) -> Failure {
    let fact = format!("{what}: the bucket answered {}", named(status, code));
    let mut error = Error::new(Kind::Publish, fact).at(at);
    if !words.is_empty() {
        error = error.found(unseen::line(words));
    }
    let passes = match (status, code) {
        (_, "InternalError" | "SlowDown" | "ServiceUnavailable" | "RequestTimeout") => true,
        (Some(status), _) => status.is_server_error() || status.as_u16() == 429,
        (None, _) => false,
    };
    if passes {
        return Failure::again(error);
    }
    let denied = || {
        "check the access key and its secret; it needs s3:ListBucket, s3:PutObject, s3:GetObject, s3:ListBucketMultipartUploads, s3:ListMultipartUploadParts and \
         s3:AbortMultipartUpload"
            .to_owned()
    };
    let cure = match (status.map(|s| s.as_u16()), code) {
        (Some(301), _) | (_, "PermanentRedirect" | "AuthorizationHeaderMalformed") => {
            match region {
                Some(region) => format!("the bucket is in another region: set AWS_REGION={region}"),
                None => "set AWS_REGION to the bucket's region".to_owned(),
            }
        }
        (_, "NoSuchBucket") => "make the bucket first, or mend its name in --to".to_owned(),
        (_, "InvalidAccessKeyId" | "SignatureDoesNotMatch") => {
            "check the access key and its secret: AWS_ACCESS_KEY_ID, or the profile".to_owned()
        }
        (_, "RequestTimeTooSkewed") => "set this host's clock".to_owned(),
        (Some(401 | 403), _) | (_, "AccessDenied") => denied(),
        _ => return error.into(),
    };
    error.cure(cure).into()
}

fn named(status: Option<StatusCode>, code: &str) -> String {
    match (status, unseen::line(code)) {
        (Some(status), code) if code.is_empty() => status.as_u16().to_string(),
        (Some(status), code) => format!("{} {code}", status.as_u16()),
        (None, code) => code,
    }
}
