//! SHA-256 checksums as Amazon S3 sends and returns them. (Amazon S3: checking object integrity)

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use reqwest::RequestBuilder;

use super::answers::S3Part;
use super::{CHECKSUM, HASHED};
use crate::fetch::failure::FetchFailure;
use crate::publish::{KnownBy, PublishObject};
use winimg_base::digest::{Algorithm, Digest, Hasher};

/// Adds the checksum for the bucket to verify.
pub(super) fn add_checksum(request: RequestBuilder, digest: &Digest) -> RequestBuilder {
    request
        .header(HASHED, digest.hex())
        .header("x-amz-sdk-checksum-algorithm", "SHA256")
        .header(CHECKSUM, encode_digest(digest))
}

pub(super) fn encode_digest(digest: &Digest) -> String {
    STANDARD.encode(digest.bytes())
}

/// Computes the checksum of checksums. (Amazon S3: checking object integrity, composite checksums)
pub(super) fn compute_composite(parts: &[S3Part]) -> String {
    let mut hasher = Hasher::new(Algorithm::Sha256);
    for part in parts {
        hasher.update(part.digest.bytes());
    }
    format!("{}-{}", encode_digest(&hasher.finish()), parts.len())
}

/// Compares the checksum that the bucket computed, if it did.
pub(super) fn compare_checksum(
    object: &PublishObject,
    there: Option<&str>,
    expected: &str,
) -> Result<KnownBy, FetchFailure> {
    match there {
        None => Ok(KnownBy::Size),
        Some(there) if there == expected => Ok(KnownBy::Digest),
        Some(there) => {
            let error = object.report_corrupt("the bucket", expected, there);
            Err(FetchFailure::retryable(error))
        }
    }
}
