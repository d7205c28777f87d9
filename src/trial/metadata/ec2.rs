//! EC2's instance metadata service, IMDSv1 and IMDSv2 (AWS: EC2 user guide, "Use the Instance Metadata Service to access instance
//! metadata" and "Instance metadata categories").

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::json;

use super::pages::Pages;
use super::{Identity, guid};
use crate::http::{Request, Response};

/// Of the many that EC2 has, those that agents of Windows are known to ask for: cloudbase-init 1.1.9 the first (ec2service.py).
const VERSIONS: [&str; 3] = ["2009-04-04", "2021-03-23", "latest"];

const TTL: &str = "x-aws-ec2-metadata-token-ttl-seconds";
/// Seconds that a token may live.
const LONGEST_TTL: u64 = 21_600;

const REGION: &str = "us-east-1";
const ZONE: &str = "us-east-1a";
const IMAGE: &str = "ami-00000000000000000";
const INSTANCE_TYPE: &str = "m5.large";

/// `i-` and 17 hexadecimal digits.
fn instance_id(identity: &Identity) -> String {
    let hex = guid(&identity.instance, "EC2 instance")
        .simple()
        .to_string();
    format!("i-{}", &hex[..17])
}

/// What is served below each version.
pub(super) fn pages(identity: &Identity) -> Pages {
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
    let mut pages = Pages::default();
    for version in VERSIONS {
        let mut meta =
            |name: &str, text: &str| pages.text(format!("{version}/meta-data/{name}"), text);
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
        // Not the list of a folder's entries: each with the key's name.
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

/// Whether a request without a token is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Tokens {
    Optional,
    Required,
}

#[derive(Debug)]
pub(super) struct Service {
    pages: Pages,
    tokens: Tokens,
    instance: String,
    /// Each token with the time at which it ends.
    given: BTreeMap<String, Duration>,
}

impl Service {
    pub fn new(identity: &Identity, tokens: Tokens) -> Self {
        Self {
            pages: pages(identity),
            tokens,
            instance: identity.instance.clone(),
            given: BTreeMap::new(),
        }
    }

    pub fn answer(&mut self, request: &Request) -> Response {
        match request.method.as_str() {
            "PUT" if request.path == "/latest/api/token" => self.token(request),
            "GET" if !self.is_allowed(request) => Response::status(401),
            "GET" => self
                .pages
                .get(&request.path)
                .unwrap_or_else(Response::not_found),
            _ => Response::status(405),
        }
    }

    fn token(&mut self, request: &Request) -> Response {
        // A proxy or a web application that forwards what others ask for must not be given one.
        if request.header("x-forwarded-for").is_some() {
            return Response::status(403);
        }
        let wanted = request.header(TTL).and_then(|text| text.parse().ok());
        let Some(seconds) = wanted.filter(|s| (1..=LONGEST_TTL).contains(s)) else {
            return Response::status(400);
        };
        // Known to nobody but this clone, whose network holds nothing else: it only has to be another one each time.
        let number = self.given.len();
        let token = guid(&self.instance, &format!("token {number}"))
            .simple()
            .to_string();
        let end = request.at + Duration::from_secs(seconds);
        self.given.insert(token.clone(), end);
        Response::ok("text/plain", token).header(TTL, seconds.to_string())
    }

    fn is_allowed(&self, request: &Request) -> bool {
        match request.header("x-aws-ec2-metadata-token") {
            Some(token) => self.given.get(token).is_some_and(|end| request.at < *end),
            None => self.tokens == Tokens::Optional,
        }
    }
}
