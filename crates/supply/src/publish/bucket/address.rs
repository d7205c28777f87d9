//! Address of a bucket.

use url::Url;

use super::place::BucketPlace;
use crate::fetch::client::is_here;
use winimg_base::error::{Error, Kind, Result};

/// Returns the bucket's address: by host at AWS, by path elsewhere. (Amazon S3: virtual hosting of
/// buckets)
pub fn build_base(place: &BucketPlace, region: &str, endpoint: Option<&str>) -> Result<Url> {
    let bucket = &place.bucket;
    let domain = if region.starts_with("cn-") {
        "amazonaws.com.cn"
    } else {
        "amazonaws.com"
    };
    let text = match endpoint {
        Some(endpoint) => format!("{}/{bucket}/", endpoint.trim_end_matches('/')),
        // The wildcard certificate covers only one label.
        None if bucket.contains('.') => format!("https://s3.{region}.{domain}/{bucket}/"),
        None => format!("https://{bucket}.s3.{region}.{domain}/"),
    };
    let fault = match Url::parse(&text) {
        Ok(url) if matches!(url.scheme(), "http" | "https") => return Ok(url),
        Ok(_) => "has a scheme other than https".to_owned(),
        Err(e) => format!("is malformed: {e}"),
    };
    Err(
        Error::new(Kind::Recipe, format!("the address of S3 {fault}"))
            .at(endpoint.unwrap_or(region))
            .cure("fix AWS_ENDPOINT_URL_S3, AWS_ENDPOINT_URL or AWS_REGION"),
    )
}

/// Returns true if requests to this address cross a network unencrypted.
pub fn is_readable_on_its_way(url: &Url) -> bool {
    url.scheme() != "https" && !url.host().is_some_and(|host| is_here(&host))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_http_to_this_machine_alone_is_not_readable() {
        for (url, is_readable) in [
            ("https://s3.example.com/b/", false),
            ("http://minio.example.com:9000/b/", true),
            ("http://192.168.1.5:9000/b/", true),
            ("http://127.0.0.1:9000/b/", false),
            ("http://localhost:9000/b/", false),
        ] {
            let url = Url::parse(url).unwrap();
            assert_eq!(is_readable_on_its_way(&url), is_readable, "{url}");
        }
    }

    #[test]
    fn a_bucket_is_a_host_at_aws_and_a_folder_elsewhere() {
        let place = |bucket: &str| BucketPlace {
            bucket: bucket.into(),
            prefix: "a/".into(),
        };
        for (bucket, region, endpoint, expected) in [
            (
                "images",
                "eu-west-1",
                None,
                "https://images.s3.eu-west-1.amazonaws.com/",
            ),
            (
                "images",
                "cn-north-1",
                None,
                "https://images.s3.cn-north-1.amazonaws.com.cn/",
            ),
            (
                "im.ages",
                "eu-west-1",
                None,
                "https://s3.eu-west-1.amazonaws.com/im.ages/",
            ),
            (
                "images",
                "x",
                Some("http://127.0.0.1:9000/"),
                "http://127.0.0.1:9000/images/",
            ),
        ] {
            assert_eq!(
                build_base(&place(bucket), region, endpoint)
                    .unwrap()
                    .as_str(),
                expected
            );
        }
        let error = build_base(&place("images"), "x", Some("minio:9000")).unwrap_err();
        assert_eq!(
            error.to_string(),
            "the address of S3 has a scheme other than https\n  at: minio:9000\n  \
             cure: fix AWS_ENDPOINT_URL_S3, AWS_ENDPOINT_URL or AWS_REGION"
        );
    }
}
