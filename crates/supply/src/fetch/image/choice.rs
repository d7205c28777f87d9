//! Which manifest of an index is taken, and what an image consists of. Reads JSON that is proved by its digest, but
//! written by strangers.

use oci_client::manifest::{OciDescriptor, OciImageIndex, OciImageManifest};
use serde_json::Value;

use super::Part;
use winimg_base::digest::Digest;
use winimg_base::error::{Error, Kind, Result};

/// The entry of an index.
pub struct Chosen {
    pub digest: String,
    pub os_version: Option<String>,
}

const INDEXES: [&str; 2] = [
    "application/vnd.oci.image.index.v1+json",
    "application/vnd.docker.distribution.manifest.list.v2+json",
];

/// Of an index the Windows entry of the wanted build, the newest of several; `None` when it is no index.
pub fn entry(top: &Part, wanted: &str, name: &str) -> Result<Option<Chosen>> {
    let bytes = read(top)?;
    let value: Value = parse(&bytes, name)?;
    let media_type = value["mediaType"].as_str().unwrap_or(&top.media_type);
    if !INDEXES.contains(&media_type) && value.get("manifests").is_none() {
        return Ok(None);
    }
    let index: OciImageIndex = parse(&bytes, name)?;
    let mut offered = Vec::new();
    let mut found: Option<(Vec<u64>, Chosen)> = None;
    for entry in index.manifests {
        let Some(platform) = &entry.platform else {
            continue;
        };
        let os = platform.os.to_string();
        let architecture = platform.architecture.to_string();
        let version = platform.os_version.clone().unwrap_or_default();
        offered.push(format!("{os}/{architecture} {version}").trim().to_owned());
        let fits = version == wanted || version.starts_with(&format!("{wanted}."));
        if os != "windows" || architecture != "amd64" || !(fits || version.is_empty()) {
            continue;
        }
        let rank: Vec<u64> = version.split('.').map(|n| n.parse().unwrap_or(0)).collect();
        if found.as_ref().is_none_or(|(best, _)| rank > *best) {
            let chosen = Chosen {
                digest: entry.digest,
                os_version: (!version.is_empty()).then_some(version),
            };
            found = Some((rank, chosen));
        }
    }
    match found {
        Some((_, chosen)) => Ok(Some(chosen)),
        None => Err(
            Error::new(Kind::Fetch, format!("{name} has nothing for this Windows"))
                .expected(format!("windows/amd64 {wanted}"))
                .found(match offered.is_empty() {
                    true => "an index without platforms".to_owned(),
                    false => offered.join(", "),
                })
                .cure("take a tag that has one, or name another build: os_version = \"10.0.…\""),
        ),
    }
}

/// The configuration and the layers.
pub fn parts(manifest: &Part, name: &str) -> Result<Vec<OciDescriptor>> {
    let manifest: OciImageManifest = parse(&read(manifest)?, name)?;
    Ok(std::iter::once(manifest.config)
        .chain(manifest.layers)
        .collect())
}

/// Whether a layer may be at another place than the registry: docker's foreign layers, and what OCI
/// calls them. Many registries have them all the same.
pub fn may_be_elsewhere(media_type: &str) -> bool {
    media_type.contains(".foreign.") || media_type.contains(".nondistributable.")
}

/// What a manifest names, as far as it is one: the configuration and the layers.
pub fn named(manifest: &[u8]) -> Vec<Digest> {
    let Ok(manifest) = serde_json::from_slice::<OciImageManifest>(manifest) else {
        return Vec::new();
    };
    let all = std::iter::once(&manifest.config).chain(&manifest.layers);
    all.filter_map(|d| d.digest.parse().ok()).collect()
}

fn read(part: &Part) -> Result<Vec<u8>> {
    let path = part.blob.path();
    std::fs::read(path).map_err(|e| Error::io("read", path, e))
}

fn parse<T: serde::de::DeserializeOwned>(bytes: &[u8], name: &str) -> Result<T> {
    serde_json::from_slice(bytes)
        .map_err(|e| Error::new(Kind::Fetch, format!("{name} is not a container image")).because(e))
}
