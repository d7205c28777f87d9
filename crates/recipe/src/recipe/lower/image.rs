//! `[images.NAME]` and the verb `image`.

use super::known::{Known, known_image};
use crate::recipe::fields::{Context, Fields};
use crate::recipe::value::{Data, Entry, Value};
use crate::recipe::verb::ImageImport;
use crate::recipe::{ContainerImage, ImageProof, ImageReference, Verb, guest_name};
use winimg_base::digest::{Algorithm, Digest};
use winimg_base::text::Located;

pub fn container_image(cx: &Context<'_>, entry: &Entry) -> Option<ContainerImage> {
    let what = format!("image `{}`", entry.key);
    let fields = Fields::called(cx, &entry.value, "images", what)?;
    let name = name(cx, entry);
    let reference = fields.string("reference");
    let reference = reference.and_then(|r| with_registry(&fields, r));
    let proof = proof(&fields, reference.as_ref());
    let os_version = fields.string("os_version").and_then(|v| {
        let plain = |c: char| c.is_ascii_digit() || c == '.';
        if v.value.starts_with("10.0.") && v.value.chars().all(plain) {
            return Some(v.value);
        }
        let fact = "`os_version` is not a Windows build";
        cx.error(
            fact,
            &v.place,
            "",
            "as in an index: `os_version = \"10.0.20348\"`",
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

/// It becomes a file's name on the payload disc.
fn name(cx: &Context<'_>, entry: &Entry) -> Option<Located<String>> {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    let first = entry.key.starts_with(|c: char| c.is_ascii_alphanumeric());
    if !first || !entry.key.chars().all(plain) || guest_name::file_name(&entry.key).is_err() {
        let fact = format!("an image cannot be called \"{}\"", entry.key);
        let help = "letters, digits, `-`, `_` and `.`, a letter or digit first; what it is goes into `reference`";
        cx.error(fact, &entry.key_place, "", help);
        return None;
    }
    Some(Located::new(entry.key.clone(), entry.key_place.clone()))
}

/// A name without a registry would mean Docker's, and often another is meant.
fn with_registry(
    fields: &Fields<'_>,
    reference: Located<String>,
) -> Option<Located<ImageReference>> {
    let text = reference
        .value
        .strip_prefix("http://")
        .unwrap_or(&reference.value);
    let registry = text.split_once('/').map(|(registry, _)| registry);
    let named = registry.is_some_and(|r| r.contains(['.', ':']) || r == "localhost");
    let plain = |c: char| c.is_ascii_alphanumeric() || "./:@-_".contains(c);
    if named && text.chars().all(plain) {
        return match ImageReference::parse(&reference.value) {
            Ok(read) => Some(Located::new(read, reference.place)),
            Err(why) => {
                let fact = format!("`{}` names no container image: {why}", reference.value);
                fields.cx.error(fact, &reference.place, "", "");
                None
            }
        };
    }
    let fact = format!(
        "`{}` is not the name of a container image with its registry",
        reference.value
    );
    let help = "as in `registry.k8s.io/pause:3.10.2`; Docker's own is `docker.io/library/NAME:TAG`";
    fields.cx.error(fact, &reference.place, "", help);
    None
}

/// `digest`, or one in the reference, or `unverified`.
fn proof(fields: &Fields<'_>, reference: Option<&Located<ImageReference>>) -> Option<ImageProof> {
    let cx = fields.cx;
    let inside = reference.and_then(|r| {
        let digest = r.value.reference().digest()?;
        Some(Located::new(digest.to_owned(), r.place.clone()))
    });
    let given = fields.string("digest");
    let reason = fields.string("unverified");
    let count = [inside.is_some(), given.is_some(), reason.is_some()];
    let (fact, help) = match count.iter().filter(|there| **there).count() {
        0 if fields.has("digest") || fields.has("unverified") => return None,
        0 => (
            format!("nothing proves {}", fields.what),
            "a tag can be moved: write its `digest = \"sha256:…\"`, or `unverified = \"why that is fine\"`",
        ),
        1 => {
            let plain = reference.filter(|r| r.value.is_plain_http());
            if let Some(plain) = plain.filter(|_| reason.is_some()) {
                let fact = "anyone on the way can change what comes over http";
                cx.error(
                    fact,
                    &plain.place,
                    "",
                    "pin the image with `digest`, or use https",
                );
                return None;
            }
            return match inside.or(given) {
                Some(text) => digest(cx, text),
                None => reason.map(|reason| ImageProof::Unverified { reason }),
            };
        }
        _ => (
            format!("{} is proved twice", fields.what),
            "keep one of `digest` and `unverified`",
        ),
    };
    cx.error(fact, &fields.place, "", help);
    None
}

fn digest(cx: &Context<'_>, text: Located<String>) -> Option<ImageProof> {
    match text.value.parse::<Digest>() {
        Ok(digest) if digest.algorithm == Algorithm::Sha256 => {
            Some(ImageProof::Digest(Located::new(digest, text.place)))
        }
        other => {
            let why = other.map_or_else(|why| why, |_| "is not a SHA-256 digest".into());
            let help = "as the registry shows it: `sha256:` and 64 hexadecimal digits";
            cx.error(format!("`digest` {why}"), &text.place, "", help);
            None
        }
    }
}

/// `image = "pause"`, or a table.
pub fn import(cx: &Context<'_>, value: &Value, known: Known<'_>) -> Option<Verb> {
    let empty = Default::default();
    let (fields, name) = match &value.data {
        Data::String(name) => {
            let name = Located::new(name.clone(), value.place.clone());
            let what = "`image`".to_owned();
            let fields = Fields::of(cx, &empty, "image", what, &value.place);
            (fields, Some(name))
        }
        _ => {
            let fields = Fields::open(cx, value, "image")?;
            let name = fields.string("image");
            (fields, name)
        }
    };
    let image = name.and_then(|name| known_image(cx, name, known));
    let ctr = fields.guest_path("ctr");
    let root = fields.guest_path("root");
    let namespace = fields.text("namespace");
    Some(Verb::Image(ImageImport {
        image: image?,
        ctr: ctr?,
        root: root?,
        namespace: namespace?,
    }))
}
