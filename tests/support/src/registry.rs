//! What a registry holds, for the server of these tests.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use crate::server::{Answer, Asked};

pub const INDEX: &str = "application/vnd.oci.image.index.v1+json";
const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
const CONFIG: &str = "application/vnd.oci.image.config.v1+json";
const LAYER: &str = "application/vnd.oci.image.layer.v1.tar+gzip";

/// What a registry holds, by the last part of its paths.
#[derive(Clone, Default)]
pub struct Held(pub BTreeMap<String, (&'static str, Vec<u8>)>);

impl Held {
    fn add(&mut self, media_type: &'static str, bytes: Vec<u8>) -> Value {
        let digest = format!("sha256:{:x}", Sha256::digest(&bytes));
        let size = bytes.len();
        self.0.insert(digest.clone(), (media_type, bytes));
        json!({ "mediaType": media_type, "digest": digest, "size": size })
    }

    fn add_json(&mut self, media_type: &'static str, value: &Value) -> Value {
        self.add(media_type, value.to_string().into_bytes())
    }
}

/// An image of one layer of this type, and the digests of its manifest and of its layer.
pub fn of_one_layer(media_type: &'static str) -> (Held, String, String) {
    let mut held = Held::default();
    let config = held.add_json(CONFIG, &json!({ "os": "windows" }));
    let layer = held.add(media_type, b"the base of Windows".to_vec());
    let manifest = held.add_json(
        MANIFEST,
        &json!({ "schemaVersion": 2, "mediaType": MANIFEST, "config": config, "layers": [layer] }),
    );
    let digest = |of: &Value| of["digest"].as_str().unwrap().to_owned();
    (held, digest(&manifest), digest(&layer))
}

/// An image for two builds of Server 2022, one of 2019 and one of Linux; the index's digest.
pub fn pause() -> (Held, String) {
    let mut held = Held::default();
    let mut entries = Vec::new();
    for (os, version) in [
        ("windows", "10.0.17763.8000"),
        ("windows", "10.0.20348.9"),
        ("windows", "10.0.20348.1000"),
        ("linux", ""),
    ] {
        let config = held.add_json(CONFIG, &json!({ "os": os, "os.version": version }));
        let layer = held.add(LAYER, format!("layer of {os} {version}").into_bytes());
        let mut entry = held.add_json(
            MANIFEST,
            &json!({ "schemaVersion": 2, "mediaType": MANIFEST, "config": config, "layers": [layer] }),
        );
        entry["platform"] = json!({ "architecture": "amd64", "os": os });
        if !version.is_empty() {
            entry["platform"]["os.version"] = json!(version);
        }
        entries.push(entry);
    }
    let index = json!({ "schemaVersion": 2, "mediaType": INDEX, "manifests": entries });
    let digest = held.add_json(INDEX, &index)["digest"].clone();
    let digest = digest.as_str().unwrap().to_owned();
    let top = held.0[&digest].clone();
    held.0.insert("3.10.2".into(), top);
    (held, digest)
}

pub fn answer(held: &Held, asked: &Asked) -> Answer {
    let name = asked.path.rsplit('/').next().unwrap_or_default();
    match held.0.get(name) {
        Some((media_type, bytes)) => {
            Answer::new("200 OK", &[("content-type", media_type)], bytes.clone())
        }
        None => Answer::new(
            "404 Not Found",
            &[("content-type", "application/json")],
            r#"{"errors":[{"code":"MANIFEST_UNKNOWN","message":"unknown tag"}]}"#,
        ),
    }
}
