//! EC2's instance metadata service, IMDSv1 and IMDSv2 (AWS: EC2 user guide, "Use the Instance
//! Metadata Service to access instance metadata" and "Instance metadata categories").

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::json;

use super::pages::MetadataPages;
use super::{CloneIdentity, derive_uuid};
use crate::http::{HttpRequest, HttpResponse};

/// API versions that Windows agents are known to request: the first one by cloudbase-init 1.1.9
/// (ec2service.py).
const VERSIONS: [&str; 3] = ["2009-04-04", "2021-03-23", "latest"];

const TTL: &str = "x-aws-ec2-metadata-token-ttl-seconds";
/// Maximum lifetime of a token in seconds.
const MAX_TTL: u64 = 21_600;

const REGION: &str = "us-east-1";
const ZONE: &str = "us-east-1a";
const IMAGE: &str = "ami-00000000000000000";
const INSTANCE_TYPE: &str = "m5.large";

/// `i-` and 17 hexadecimal digits.
fn instance_id(identity: &CloneIdentity) -> String {
    let hex = derive_uuid(&identity.instance, "EC2 instance")
        .simple()
        .to_string();
    format!("i-{}", &hex[..17])
}

/// Creates the pages below each version.
pub(super) fn create_pages(identity: &CloneIdentity) -> MetadataPages {
    let id = instance_id(identity);
    let document = json!({
        "accountId": "000000000000",
        "architecture": "x86_64",
        "availabilityZone": ZONE,
        "imageId": IMAGE,
        "instanceId": id,
        "instanceType": INSTANCE_TYPE,
        "region": REGION,
        "version": "2017-09-30",
    });
    let mut pages = MetadataPages::default();
    for version in VERSIONS {
        let mut meta =
            |name: &str, text: &str| pages.add_text(format!("{version}/meta-data/{name}"), text);
        meta("ami-id", IMAGE);
        meta("hostname", &identity.host_name);
        meta("instance-id", &id);
        meta("instance-type", INSTANCE_TYPE);
        meta("local-hostname", &identity.host_name);
        meta("placement/availability-zone", ZONE);
        meta("placement/region", REGION);
        let mut list = Vec::new();
        for (n, key) in identity.ssh_keys.iter().enumerate() {
            meta(&format!("public-keys/{n}/openssh-key"), key);
            list.push(format!("{n}=key{n}"));
        }
        // An explicit page, because it lists the keys' names instead of the entries.
        if !list.is_empty() {
            meta("public-keys", &list.join("\n"));
        }
        let path = format!("{version}/dynamic/instance-identity/document");
        pages.add(path, "application/json", document.to_string());
        if !identity.user_data.is_empty() {
            let path = format!("{version}/user-data");
            let data = identity.user_data.expose();
            pages.add(path, "application/octet-stream", data);
        }
    }
    pages
}

/// The policy for requests without a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ec2TokenPolicy {
    Optional,
    Required,
}

#[derive(Debug)]
pub(super) struct Ec2Service {
    pages: MetadataPages,
    tokens: Ec2TokenPolicy,
    instance: String,
    /// Each token with its expiry time.
    given: BTreeMap<String, Duration>,
}

impl Ec2Service {
    pub fn new(identity: &CloneIdentity, tokens: Ec2TokenPolicy) -> Self {
        Self {
            pages: create_pages(identity),
            tokens,
            instance: identity.instance.clone(),
            given: BTreeMap::new(),
        }
    }

    pub fn handle(&mut self, request: &HttpRequest) -> HttpResponse {
        match request.method.as_str() {
            "PUT" if request.path == "/latest/api/token" => self.create_token(request),
            "GET" if !self.is_allowed(request) => HttpResponse::from_status(401),
            "GET" => self
                .pages
                .get(&request.path)
                .unwrap_or_else(HttpResponse::not_found),
            _ => HttpResponse::from_status(405),
        }
    }

    fn create_token(&mut self, request: &HttpRequest) -> HttpResponse {
        // No token for a proxy or web application that forwards other clients' requests.
        if request.header("x-forwarded-for").is_some() {
            return HttpResponse::from_status(403);
        }
        let wanted = request.header(TTL).and_then(|text| text.parse().ok());
        let Some(seconds) = wanted.filter(|s| (1..=MAX_TTL).contains(s)) else {
            return HttpResponse::from_status(400);
        };
        // Only this clone can use it, so it only has to be unique.
        let number = self.given.len();
        let token = derive_uuid(&self.instance, &format!("token {number}"))
            .simple()
            .to_string();
        let end = request.at + Duration::from_secs(seconds);
        self.given.insert(token.clone(), end);
        HttpResponse::ok("text/plain", token).with_header(TTL, seconds.to_string())
    }

    fn is_allowed(&self, request: &HttpRequest) -> bool {
        match request.header("x-aws-ec2-metadata-token") {
            Some(token) => self.given.get(token).is_some_and(|end| request.at < *end),
            None => self.tokens == Ec2TokenPolicy::Optional,
        }
    }
}
