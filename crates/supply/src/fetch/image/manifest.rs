//! Chooses the manifest in an index, and lists the parts of an image. The JSON is verified by its
//! digest, but its author is not trusted.

use oci_client::manifest::{OciDescriptor, OciImageIndex, OciImageManifest};
use serde_json::Value;

use super::ImagePart;
use winimg_base::digest::Digest;
use winimg_base::error::{Error, Kind, Result};

/// The chosen manifest of an index.
pub struct ChosenManifest {
    pub digest: String,
    pub os_version: Option<String>,
}

const INDEXES: [&str; 2] = [
    "application/vnd.oci.image.index.v1+json",
    "application/vnd.docker.distribution.manifest.list.v2+json",
];

/// Chooses the newest Windows entry of the wanted build in an index; `None` if `top` is not an
/// index.
pub fn choose_entry(top: &ImagePart, wanted: &str, name: &str) -> Result<Option<ChosenManifest>> {
    let bytes = read(top)?;
    let value: Value = parse(&bytes, name)?;
    let media_type = value["mediaType"].as_str().unwrap_or(&top.media_type);
    if !INDEXES.contains(&media_type) && value.get("manifests").is_none() {
        return Ok(None);
    }
    let index: OciImageIndex = parse(&bytes, name)?;
    let mut offered = Vec::new();
    let mut found: Option<(Vec<u64>, ChosenManifest)> = None;
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
            let chosen = ChosenManifest {
                digest: entry.digest,
                os_version: (!version.is_empty()).then_some(version),
            };
            found = Some((rank, chosen));
        }
    }
    match found {
        Some((_, chosen)) => Ok(Some(chosen)),
        None => Err(Error::new(
            Kind::Fetch,
            format!("{name} has no image for this Windows version"),
        )
        .expected(format!("windows/amd64 {wanted}"))
        .found(if offered.is_empty() {
            "an index without platforms".to_owned()
        } else {
            offered.join(", ")
        })
        .cure("use a tag that has one, or name another build: os_version = \"10.0.…\"")),
    }
}

/// Returns the descriptors of the configuration and the layers.
pub fn read_parts(manifest: &ImagePart, name: &str) -> Result<Vec<OciDescriptor>> {
    let manifest: OciImageManifest = parse(&read(manifest)?, name)?;
    Ok(std::iter::once(manifest.config)
        .chain(manifest.layers)
        .collect())
}

/// Returns true if a layer may be missing in the registry: docker's foreign layers, which OCI calls
/// nondistributable. Many registries have them nonetheless.
pub fn may_be_elsewhere(media_type: &str) -> bool {
    media_type.contains(".foreign.") || media_type.contains(".nondistributable.")
}

/// Returns the digests of the configuration and the layers; none if the bytes are not a manifest.
pub fn list_digests(manifest: &[u8]) -> Vec<Digest> {
    let Ok(manifest) = serde_json::from_slice::<OciImageManifest>(manifest) else {
        return Vec::new();
    };
    let all = std::iter::once(&manifest.config).chain(&manifest.layers);
    all.filter_map(|d| d.digest.parse().ok()).collect()
}

fn read(part: &ImagePart) -> Result<Vec<u8>> {
    let path = part.blob.path();
    std::fs::read(path).map_err(|e| Error::io("read", path, e))
}

fn parse<T: serde::de::DeserializeOwned>(bytes: &[u8], name: &str) -> Result<T> {
    serde_json::from_slice(bytes)
        .map_err(|e| Error::new(Kind::Fetch, format!("{name} is not a container image")).because(e))
}
