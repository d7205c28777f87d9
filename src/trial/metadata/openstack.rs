//! OpenStack's metadata: the files of a config drive, and the service at 169.254.169.254 with the
//! same files (OpenStack Nova: user guide "Metadata", nova/api/metadata/base.py and password.py).

use serde_json::{Map, Value, json};

use super::pages::MetadataPages;
use super::{CloneIdentity, CloneReport, ec2};
use crate::http::{HttpRequest, HttpResponse};

/// API versions of Nova, each with the files that it added.
const VERSIONS: [(&str, &[&str]); 10] = [
    ("2012-08-10", &["meta_data.json", "user_data"]),
    ("2013-04-04", &["password"]),
    ("2013-10-17", &["vendor_data.json"]),
    ("2015-10-15", &["network_data.json"]),
    ("2016-06-30", &[]),
    ("2016-10-06", &["vendor_data2.json"]),
    ("2017-02-22", &[]),
    ("2018-08-27", &[]),
    ("2020-10-14", &[]),
    ("latest", &[]),
];

/// Maximum length of an encrypted password: four metadata values of 255 characters.
const MAX_PASSWORD: usize = 4 * 255;

/// Returns a file below `openstack/VERSION/`; `None` if this machine does not have it. `password`
/// exists only in the service.
pub(super) fn render_file(name: &str, identity: &CloneIdentity) -> Option<Vec<u8>> {
    match name {
        "meta_data.json" => Some(json_text(&meta_data(identity))),
        "user_data" => Some(identity.user_data.expose().to_vec()).filter(|data| !data.is_empty()),
        "network_data.json" => Some(json_text(
            &json!({ "links": [], "networks": [], "services": [] }),
        )),
        "vendor_data.json" | "vendor_data2.json" => Some(json_text(&json!({}))),
        _ => None,
    }
}

fn json_text(value: &Value) -> Vec<u8> {
    value.to_string().into_bytes()
}

fn meta_data(identity: &CloneIdentity) -> Value {
    let names = (0..).map(|n| format!("key{n}"));
    let keys = identity.ssh_keys.iter().zip(names);
    let by_name: Map<String, Value> = keys
        .clone()
        .map(|(key, name)| (name, key.as_str().into()))
        .collect();
    let typed: Vec<Value> = keys
        .map(|(key, name)| json!({ "name": name, "type": "ssh", "data": key }))
        .collect();
    json!({
        "uuid": identity.instance,
        "hostname": identity.host_name,
        "name": identity.host_name,
        "launch_index": 0,
        "availability_zone": "nova",
        // The server's metadata, from which cloudbase-init takes the user name.
        "meta": { "admin_username": identity.user },
        "public_keys": by_name,
        "keys": typed,
        "devices": [],
    })
}

#[derive(Debug)]
pub(super) struct OpenStackService {
    pages: MetadataPages,
    /// Encrypted by the clone. OpenStack accepts it only once.
    password: Vec<u8>,
}

impl OpenStackService {
    pub fn new(identity: &CloneIdentity) -> Self {
        // OpenStack also serves EC2's pages, without tokens.
        let mut pages = ec2::create_pages(identity);
        for (at, (version, _)) in VERSIONS.iter().enumerate() {
            let names = VERSIONS[..=at].iter().flat_map(|(_, added)| added.iter());
            for name in names {
                let kind = if name.ends_with(".json") {
                    "application/json"
                } else {
                    "application/octet-stream"
                };
                let path = format!("openstack/{version}/{name}");
                if *name == "password" {
                    // Only for the list of the folder; its content is `password`.
                    pages.add_text(path, "");
                } else if let Some(body) = render_file(name, identity) {
                    pages.add(path, kind, body);
                }
            }
        }
        Self {
            pages,
            password: Vec::new(),
        }
    }

    pub fn handle(
        &mut self,
        request: &HttpRequest,
        reports: &mut Vec<CloneReport>,
    ) -> HttpResponse {
        let Some(page) = self.pages.get(&request.path) else {
            return HttpResponse::not_found();
        };
        let is_password =
            request.path.starts_with("/openstack/") && request.path.ends_with("/password");
        match (request.method.as_str(), is_password) {
            ("GET", true) => HttpResponse::ok("text/plain", self.password.clone()),
            ("GET", false) => page,
            ("POST", true) if !self.password.is_empty() => HttpResponse::from_status(409),
            ("POST", true) if request.body.len() > MAX_PASSWORD => HttpResponse::from_status(400),
            ("POST", true) => {
                self.password.clone_from(&request.body);
                reports.push(CloneReport::EncryptedPassword);
                HttpResponse::ok("text/plain", "")
            }
            _ => HttpResponse::from_status(405),
        }
    }
}
