//! Errors of a bucket, and whether a retry helps. (Amazon S3: error responses)

use reqwest::StatusCode;

use super::super::service;
use super::answers::{self, S3Error};
use crate::fetch::client::HttpAnswer;
use crate::fetch::failure::{FetchFailure, is_passing};

/// Maximum size of an error answer in bytes.
const LONGEST: u64 = 1 << 16;

/// Converts an error answer.
pub async fn read_failure(answer: HttpAnswer, what: &str, at: &str) -> FetchFailure {
    let status = answer.status();
    let named = answer.headers().get("x-amz-bucket-region");
    let named = named
        .and_then(|value| value.to_str().ok())
        .map(str::to_owned);
    let body = answer.read_body(LONGEST).await.unwrap_or_default();
    let said = answers::error(&String::from_utf8_lossy(&body)).unwrap_or_default();
    let region = named.or_else(|| said.region.clone());
    let region = region.filter(|region| is_region(region));
    classify_error(Some(status), &said, region, what, at)
}

/// Converts an error answer to a HEAD of the bucket, which has no body.
pub async fn of_bucket(answer: HttpAnswer, bucket: &str) -> FetchFailure {
    let at = format!("s3://{bucket}");
    match answer.status() {
        status @ StatusCode::NOT_FOUND => {
            let absent = S3Error {
                code: "NoSuchBucket".into(),
                ..S3Error::default()
            };
            classify_error(Some(status), &absent, None, bucket, &at)
        }
        _ => read_failure(answer, bucket, &at).await,
    }
}

/// Finds an error in an answer with a success status.
pub fn find_failure(text: &str, what: &str, at: &str) -> Option<FetchFailure> {
    let said = answers::error(text)?;
    Some(classify_error(None, &said, None, what, at))
}

fn classify_error(
    status: Option<StatusCode>,
    said: &S3Error,
    region: Option<String>,
    what: &str,
    at: &str,
) -> FetchFailure {
    let S3Error { code, message, .. } = said;
    let code = code.as_str();
    let who = format!("{what}: the bucket");
    let error = service::report_refusal(&who, at, status, code, message);
    let passes = match (status, code) {
        (_, "InternalError" | "SlowDown" | "ServiceUnavailable" | "RequestTimeout") => true,
        (Some(status), _) => is_passing(status),
        (None, _) => false,
    };
    let cure = match (status.map(|s| s.as_u16()), code) {
        // The answer to a HEAD has no body.
        (Some(301), _)
        | (Some(400), "")
        | (_, "PermanentRedirect" | "AuthorizationHeaderMalformed") => match region {
            Some(region) => format!("the bucket is in another region: set AWS_REGION={region}"),
            None => "set AWS_REGION to the bucket's region".to_owned(),
        },
        (Some(501), _) | (_, "NotImplemented") => {
            "this store does not support the parts of S3 that winimg needs (multipart uploads, \
             SHA-256 checksums): update it, or publish to another destination"
                .to_owned()
        }
        (_, "NoSuchBucket") => "create the bucket first, or correct its name in --to".to_owned(),
        (_, "InvalidAccessKeyId" | "SignatureDoesNotMatch") => {
            "check the access key and its secret: AWS_ACCESS_KEY_ID, or the profile".to_owned()
        }
        (_, "RequestTimeTooSkewed") => "correct this host's clock".to_owned(),
        (Some(401 | 403), _) | (_, "AccessDenied") => {
            "check the access key and its secret; it needs s3:ListBucket, s3:PutObject, \
             s3:GetObject, s3:ListBucketMultipartUploads, s3:ListMultipartUploadParts and \
             s3:AbortMultipartUpload"
                .to_owned()
        }
        _ => return service::classify_refusal(error, passes, None::<&str>),
    };
    service::classify_refusal(error, passes, Some(cure))
}

/// Returns true if a server's text can be the name of a region.
fn is_region(text: &str) -> bool {
    (1..=32).contains(&text.len())
        && text
            .chars()
            .all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(status: u16, said: &str, region: Option<&str>) -> (bool, String) {
        let said = answers::error(said).unwrap_or_default();
        let region = region.map(str::to_owned).or_else(|| said.region.clone());
        let region = region.filter(|region| is_region(region));
        let status = StatusCode::from_u16(status).unwrap();
        match classify_error(Some(status), &said, region, "a.vhd", "s3://images/a.vhd") {
            FetchFailure::Again { error, .. } | FetchFailure::Slow(error) => {
                (true, error.to_string())
            }
            FetchFailure::Final(error) => (false, error.to_string()),
        }
    }

    #[test]
    fn a_bucket_of_another_region_is_named_with_its_region() {
        let malformed = "<Error><Code>AuthorizationHeaderMalformed</Code><Message>the region 'us-east-1' is wrong; \
                         expecting 'eu-west-1'</Message><Region>eu-west-1</Region></Error>";
        let cure = "cure: the bucket is in another region: set AWS_REGION=eu-west-1";
        for (status, said, region) in [
            (400, malformed, None),
            (400, "", Some("eu-west-1")),
            (301, "", Some("eu-west-1")),
        ] {
            let (again, text) = shown(status, said, region);
            assert!(!again && text.contains(cure), "{text}");
        }
        // Not what no region is called.
        let foreign = malformed.replace("<Region>eu-west-1", "<Region>x; rm -rf /");
        let (_, text) = shown(400, &foreign, None);
        assert!(
            text.ends_with("cure: set AWS_REGION to the bucket's region"),
            "{text}"
        );
        let (_, text) = shown(400, "<Error><Code>EntityTooLarge</Code></Error>", None);
        assert!(!text.contains("cure"), "{text}");
    }

    #[test]
    fn what_a_store_does_not_implement_is_not_asked_again() {
        let said = "<Error><Code>NotImplemented</Code><Message>A header is not implemented.</Message></Error>";
        let (again, text) = shown(501, said, None);
        assert!(
            !again && text.contains("cure: this store does not support the parts of S3"),
            "{text}"
        );
        assert!(
            shown(503, "", None).0
                && shown(500, "<Error><Code>InternalError</Code></Error>", None).0
        );
    }
}
