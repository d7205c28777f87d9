//! What a bucket refuses, and whether asking again helps. (Amazon S3: error responses)

use reqwest::StatusCode;

use super::answers::{self, Said};
use crate::fetch::client::Answer;
use crate::fetch::failure::{Failure, is_passing};
use winimg_base::error::{Error, Kind};
use winimg_base::unseen;

/// Bytes of an error's answer.
const LONGEST: u64 = 1 << 16;

/// An answer of another status than a good one.
pub async fn of(answer: Answer, what: &str, at: &str) -> Failure {
    let status = answer.status();
    let named = answer.headers().get("x-amz-bucket-region");
    let named = named
        .and_then(|value| value.to_str().ok())
        .map(str::to_owned);
    let body = answer.whole(LONGEST).await.unwrap_or_default();
    let said = answers::error(&String::from_utf8_lossy(&body)).unwrap_or_default();
    let region = named.or_else(|| said.region.clone());
    let region = region.filter(|region| is_region(region));
    judged(Some(status), &said, region, what, at)
}

/// The same to a question for the bucket itself, which is answered without words.
pub async fn of_bucket(answer: Answer, bucket: &str) -> Failure {
    let at = format!("s3://{bucket}");
    match answer.status() {
        status @ StatusCode::NOT_FOUND => {
            let absent = Said {
                code: "NoSuchBucket".into(),
                ..Said::default()
            };
            judged(Some(status), &absent, None, bucket, &at)
        }
        _ => of(answer, bucket, &at).await,
    }
}

/// An error in an answer of a good status.
pub fn within(text: &str, what: &str, at: &str) -> Option<Failure> {
    let said = answers::error(text)?;
    Some(judged(None, &said, None, what, at))
}

fn judged(
    status: Option<StatusCode>,
    said: &Said,
    region: Option<String>,
    what: &str,
    at: &str,
) -> Failure {
    let Said { code, words, .. } = said;
    let code = code.as_str();
    let fact = format!("{what}: the bucket answered {}", named(status, code));
    let mut error = Error::new(Kind::Publish, fact).at(at);
    if !words.is_empty() {
        error = error.found(unseen::line(words));
    }
    let passes = match (status, code) {
        (_, "InternalError" | "SlowDown" | "ServiceUnavailable" | "RequestTimeout") => true,
        (Some(status), _) => is_passing(status),
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
        // A question by HEAD is answered without words.
        (Some(301), _)
        | (Some(400), "")
        | (_, "PermanentRedirect" | "AuthorizationHeaderMalformed") => match region {
            Some(region) => format!("the bucket is in another region: set AWS_REGION={region}"),
            None => "set AWS_REGION to the bucket's region".to_owned(),
        },
        (Some(501), _) | (_, "NotImplemented") => {
            "this store lacks a part of S3's protocol that winimg needs (multipart uploads, SHA-256 checksums): \
             update it, or publish to another destination"
                .to_owned()
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

/// Whether a server's text can be a region's name.
fn is_region(text: &str) -> bool {
    let is_plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    (1..=32).contains(&text.len()) && text.chars().all(is_plain)
}

fn named(status: Option<StatusCode>, code: &str) -> String {
    match (status, unseen::line(code)) {
        (Some(status), code) if code.is_empty() => status.as_u16().to_string(),
        (Some(status), code) => format!("{} {code}", status.as_u16()),
        (None, code) => code,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(status: u16, said: &str, region: Option<&str>) -> (bool, String) {
        let said = answers::error(said).unwrap_or_default();
        let region = region.map(str::to_owned).or_else(|| said.region.clone());
        let region = region.filter(|region| is_region(region));
        let status = StatusCode::from_u16(status).unwrap();
        match judged(Some(status), &said, region, "a.vhd", "s3://images/a.vhd") {
            Failure::Again { error, .. } | Failure::Slow(error) => (true, error.to_string()),
            Failure::Final(error) => (false, error.to_string()),
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
            !again && text.contains("cure: this store lacks a part of S3's protocol"),
            "{text}"
        );
        assert!(
            shown(503, "", None).0
                && shown(500, "<Error><Code>InternalError</Code></Error>", None).0
        );
    }
}
