//! `[images.NAME]`: container images.

use crate::document::value::TomlEntry;
use crate::fields::{LoweringContext, TableReader};
use crate::model::guest_name;
use crate::{ContainerImage, ImageProof, ImageReference};
use winimg_base::digest::{Algorithm, Digest};
use winimg_base::text::Located;

pub fn container_image(cx: &LoweringContext<'_>, entry: &TomlEntry) -> Option<ContainerImage> {
    let what = format!("image `{}`", entry.key);
    let fields = TableReader::open_as(cx, &entry.value, "images", what)?;
    let name = name(cx, entry);
    let reference = fields
        .read_string("reference")
        .and_then(|reference| with_registry(&fields, reference));
    let proof = read_image_proof(&fields, reference.as_ref());
    let os_version = fields.read_string("os_version").and_then(|v| {
        let is_numeric = v.value.chars().all(|c| c.is_ascii_digit() || c == '.');
        if v.value.starts_with("10.0.") && is_numeric {
            return Some(v.value);
        }
        let fact = "`os_version` is not a Windows build";
        cx.error(
            fact,
            &v.place,
            "",
            "write it as in an image index: `os_version = \"10.0.20348\"`",
        );
        None
    });
    Some(ContainerImage {
        name: name?,
        reference: reference?,
        proof: proof?,
        os_version,
        locked: None,
    })
}

/// Checks the name, which becomes a file name on the payload disc.
fn name(cx: &LoweringContext<'_>, entry: &TomlEntry) -> Option<Located<String>> {
    let is_plain = entry.key.starts_with(|c: char| c.is_ascii_alphanumeric())
        && entry
            .key
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c));
    if !is_plain || guest_name::file_name(&entry.key).is_err() {
        let fact = format!("an image cannot be named \"{}\"", entry.key);
        let help = "use letters, digits, `-`, `_` and `.`, a letter or digit first; the image \
                    itself goes into `reference`";
        cx.error(fact, &entry.key_place, "", help);
        return None;
    }
    Some(Located::new(entry.key.clone(), entry.key_place.clone()))
}

/// Refuses a reference without a registry: by convention it means Docker Hub, which is often not
/// intended.
fn with_registry(
    fields: &TableReader<'_>,
    reference: Located<String>,
) -> Option<Located<ImageReference>> {
    let text = reference
        .value
        .strip_prefix("http://")
        .unwrap_or(&reference.value);
    let registry = text.split_once('/').map(|(registry, _)| registry);
    let named = registry.is_some_and(|r| r.contains(['.', ':']) || r == "localhost");
    let is_plain = text
        .chars()
        .all(|c| c.is_ascii_alphanumeric() || "./:@-_".contains(c));
    if named && is_plain {
        return match ImageReference::parse(&reference.value) {
            Ok(read) => Some(Located::new(read, reference.place)),
            Err(why) => {
                let fact = format!("`{}` is not an image reference: {why}", reference.value);
                fields.cx.error(fact, &reference.place, "", "");
                None
            }
        };
    }
    let fact = format!(
        "`{}` is not an image reference with a registry",
        reference.value
    );
    let help = "write it as `registry.k8s.io/pause:3.10.2`; for Docker Hub \
                `docker.io/library/NAME:TAG`";
    fields.cx.error(fact, &reference.place, "", help);
    None
}

/// Reads the proof: `digest`, a digest in the reference, or `unverified`.
fn read_image_proof(
    fields: &TableReader<'_>,
    reference: Option<&Located<ImageReference>>,
) -> Option<ImageProof> {
    let cx = fields.cx;
    let inside = reference.and_then(|r| {
        let digest = r.value.reference().digest()?;
        Some(Located::new(digest.to_owned(), r.place.clone()))
    });
    let given = fields.read_string("digest");
    let reason = fields.read_string("unverified");
    let count = [inside.is_some(), given.is_some(), reason.is_some()];
    let (fact, help) = match count.iter().filter(|there| **there).count() {
        0 if fields.has("digest") || fields.has("unverified") => return None,
        0 => (
            format!("{} has no proof", fields.what),
            "a tag can be moved: set its `digest = \"sha256:…\"`, or \
             `unverified = \"why that is fine\"`",
        ),
        1 => {
            let plain = reference.filter(|r| r.value.is_plain_http());
            if let Some(plain) = plain.filter(|_| reason.is_some()) {
                let fact = "an image over http can be modified in transit";
                cx.error(
                    fact,
                    &plain.place,
                    "",
                    "pin the image with `digest`, or use https",
                );
                return None;
            }
            return match inside.or(given) {
                Some(text) => parse_image_digest(cx, text),
                None => reason.map(|reason| ImageProof::Unverified { reason }),
            };
        }
        _ => (
            format!("{} has two proofs", fields.what),
            "keep one of `digest` and `unverified`",
        ),
    };
    cx.error(fact, &fields.place, "", help);
    None
}

fn parse_image_digest(cx: &LoweringContext<'_>, text: Located<String>) -> Option<ImageProof> {
    match text.value.parse::<Digest>() {
        Ok(digest) if digest.algorithm == Algorithm::Sha256 => {
            Some(ImageProof::Digest(Located::new(digest, text.place)))
        }
        other => {
            let why = other.map_or_else(|why| why, |_| "is not a SHA-256 digest".into());
            let help = "write it as the registry shows it: `sha256:` and 64 hexadecimal digits";
            cx.error(format!("`digest` {why}"), &text.place, "", help);
            None
        }
    }
}
