//! Layers in a registry: a manifest with the record, its signature and the layer's files, each compressed.
//!
//! ```text
//! layer-<40 digits of the key>   the manifest's tag
//!   config                       layer.json, byte for byte
//!   layer.json.minisig           over those bytes
//!   disk.qcow2 uefi-vars.fd      zstd; what they are when unpacked, the record says
//! ```
//!
//! Refuses a record that no named key signed, one that is another layer's, one whose keys do not follow from what went in,
//! and files that are not the recorded ones.

use std::fs::File;
use std::io::Write;
use std::path::Path;

use minisign_verify::{Error as Refusal, Signature};
use oci_client::manifest::OciImageManifest;

use super::fault::Fault;
use super::registry::{self, Registry};
use super::{Remote, Sign};
use crate::fetch::image::pull;
use crate::store::{Kept, Layer, LayerFile, LayerRecord, Store, Watch, copy_hashed};
use winimg_base::digest::Digest;
use winimg_base::error::{Error, Kind, Result};
use winimg_base::event::Cancel;
use winimg_base::io;
use winimg_trust::minisign::Rule;

const LAYER: &str = "application/vnd.winimg.layer.v1+json";
const FILE: &str = "application/vnd.winimg.layer.file.v1+zstd";
const SIGNATURE: &str = "application/vnd.winimg.layer.signature.v1";
const SIGNATURE_NAME: &str = "layer.json.minisig";

/// Bytes of a record; one with a thousand steps has less.
const RECORD_LIMIT: u64 = 16 << 20;
const SIGNATURE_LIMIT: u64 = 8 << 10;
/// Fast enough not to be waited for; the more is not worth the time on disks of programs.
const LEVEL: i32 = 3;

pub fn tag(key: &Digest) -> String {
    format!("layer-{}", &key.hex()[..40])
}

/// A layer of the registry whose record is believed.
struct Found {
    manifest: OciImageManifest,
    bytes: Vec<u8>,
    record: LayerRecord,
}

impl Remote {
    /// Brings the layer, its parents first; `false`: it is not there, or does not fit what is here.
    pub(super) fn pull(&self, key: &Digest, store: &Store) -> Result<bool, Fault> {
        let mut wanted: Vec<Found> = Vec::new();
        let mut next = Some(key.clone());
        // Each parent is an earlier link than its child's last one, so this ends.
        while let Some(key) = next.take() {
            if let Kept::Layer(here) = store.layer(&key, &self.cancel)? {
                if !lies_over(wanted.last(), here.record()) {
                    self.sink.note(format!(
                        "the shared cache's layers lie over another disk after {} than this cache has: they are not taken",
                        here.record().after()
                    ));
                    return Ok(false);
                }
                break;
            }
            let Some(found) = self.find(&key)? else {
                return Ok(false);
            };
            if !lies_over(wanted.last(), &found.record) {
                return Ok(false);
            }
            next.clone_from(&found.record.parent);
            wanted.push(found);
        }
        let sizes = wanted.iter().map(|found| found.record.size());
        let bytes = sizes.fold(0, u64::saturating_add);
        store.check_room("the layers of the shared cache", bytes)?;
        for found in wanted.into_iter().rev() {
            let (after, bytes) = (found.record.after().to_owned(), found.record.size());
            self.bring(found, store)?;
            self.sink.note(format!(
                "the layer after {after} came from the shared cache ({bytes} bytes)"
            ));
        }
        Ok(true)
    }

    /// The layer's manifest and record, if it is there and to be believed.
    fn find(&self, key: &Digest) -> Result<Option<Found>, Fault> {
        let (registry, tag) = (&self.registry, tag(key));
        let watch = self.watch("a layer's record");
        let small = async |digest: &str, limit| {
            let digest = pull::digest(digest, &tag)?;
            registry.small(&digest, limit, &watch).await
        };
        let parts = self.run(async {
            let Some(manifest) = registry.manifest(&tag).await? else {
                return Ok(None);
            };
            let record = small(&manifest.config.digest, RECORD_LIMIT).await?;
            let signature = match registry::part(&manifest, SIGNATURE_NAME) {
                Some(part) => small(&part.digest, SIGNATURE_LIMIT).await?,
                None => None,
            };
            Ok(Some((manifest, record, signature)))
        });
        let Some((manifest, record, signature)) = parts? else {
            return Ok(None);
        };
        let place = |e: Error| e.at(format!("{} {tag}", registry.shown()));
        let bytes = record.unwrap_or_default();
        let record = believed(&bytes, signature.as_deref(), &self.keys, key).map_err(place)?;
        Ok(Some(Found {
            manifest,
            bytes,
            record,
        }))
    }

    /// Brings the files into a draft and makes a layer of it.
    fn bring(&self, found: Found, store: &Store) -> Result<(), Fault> {
        let draft = store.draft()?;
        for file in &found.record.files {
            let what = format!("{} after {}", file.name, found.record.after());
            let part = registry::part(&found.manifest, &file.name);
            let missing = || {
                self.registry
                    .error(format!("the shared cache lacks {what}"))
            };
            let digest = pull::digest(&part.ok_or_else(missing)?.digest, &what)?;
            let (path, watch) = (draft.file(&file.name), self.watch(what.clone()));
            if !self.run(unpack(&self.registry, &digest, file, &path, &watch))? {
                return Err(missing().into());
            }
        }
        store.adopt(draft, &found.bytes, &self.cancel)?;
        Ok(())
    }

    /// Gives the layer and those below it that are not there.
    pub(super) fn give(&self, layer: &Layer, store: &Store, sign: &Sign) -> Result<(), Fault> {
        let mut all = vec![layer.clone()];
        while let Some(parent) = all.last().and_then(|l| l.record().parent.clone()) {
            match store.layer(&parent, &self.cancel)? {
                Kept::Layer(layer) => all.push(*layer),
                // Nothing can lie over it elsewhere.
                _ => return Ok(()),
            }
        }
        for layer in all.iter().rev() {
            if !self.give_one(layer, store, sign)? {
                let after = layer.record().after();
                self.sink.note(format!(
                    "the shared cache has another disk after {after} than this cache: it stays, and no layer over ours is sent"
                ));
                return Ok(());
            }
        }
        Ok(())
    }

    /// Whether this very layer is there.
    pub(super) fn has(&self, layer: &Layer) -> Result<bool, Fault> {
        let tag = tag(&layer.record().key);
        let bytes = layer.record_bytes()?;
        let there = self.run(self.registry.manifest(&tag))?;
        let digest = Digest::sha256_of(&bytes).to_string();
        Ok(there.is_some_and(|there| there.config.digest == digest))
    }

    /// The finished disk's layer is not there. `why`: what kept it from being given; without one another layer has its name.
    pub(super) fn lacks(&self, layer: &Layer, why: Option<Error>) -> Error {
        let fact = "the finished disk is not in the shared cache, where it is required to be";
        match why {
            Some(error) => {
                let problem = error.problem().clone().prefixed(format!("{fact}: "));
                let cure = "run the same command again: it goes on from the finished disk";
                Error::of(error.kind(), problem).cure(cure)
            }
            None => self
                .registry
                .error(fact)
                .expected(format!("the layer {} of this host", layer.record().key))
                .found("another disk, or none, of the same key")
                .cure("to take that one, build with an empty cache: WINIMG_CACHE_DIR"),
        }
    }

    /// `false`: another layer has its name there.
    fn give_one(&self, layer: &Layer, store: &Store, sign: &Sign) -> Result<bool, Fault> {
        let (bytes, tag) = (layer.record_bytes()?, tag(&layer.record().key));
        let (registry, after) = (&self.registry, layer.record().after());
        if let Some(there) = self.run(registry.manifest(&tag))? {
            return Ok(there.config.digest == Digest::sha256_of(&bytes).to_string());
        }
        let comment = format!(
            "timestamp:{}\tfile:layer.json\thashed\tlayer:{}",
            layer.record().made,
            layer.record().key
        );
        let signature = sign(&bytes, &comment)?;
        // For the compressed files; it goes when they are sent.
        let draft = store.draft()?;
        let mut parts = Vec::new();
        for (file, path) in layer.files() {
            let packed = draft.file(&format!("{}.zst", file.name));
            let (digest, size) = pack(&path, &packed, &self.cancel)?;
            let watch = self.watch(format!("{} after {after} to the shared cache", file.name));
            self.run(registry.upload(&packed, &digest, size, &watch))?;
            let described = registry::described(FILE, &digest, size);
            parts.push(registry::titled(described, &file.name));
        }
        self.run(async {
            let config = registry.give(LAYER, bytes).await?;
            let signature = registry.give(SIGNATURE, signature.into_bytes()).await?;
            parts.push(registry::titled(signature, SIGNATURE_NAME));
            let manifest = OciImageManifest {
                media_type: Some(registry::MANIFEST.into()),
                artifact_type: Some(LAYER.into()),
                config,
                layers: parts,
                ..OciImageManifest::default()
            };
            // Last: what has a name is whole.
            registry.tag(&tag, manifest).await
        })?;
        let text = format!("the layer after {after} is in the shared cache now");
        self.sink.note(text);
        Ok(true)
    }
}

/// Whether the layer to come was made over this one's very disk.
fn lies_over(child: Option<&Found>, parent: &LayerRecord) -> bool {
    child.is_none_or(|child| child.record.parent_disk.as_ref() == parent.disk())
}

/// A stranger's record of the layer with this key, if one of the keys signed it and it holds together.
fn believed(
    bytes: &[u8],
    signature: Option<&[u8]>,
    keys: &[Rule],
    key: &Digest,
) -> Result<LayerRecord> {
    let refused = |why: &str| {
        let fact = format!("a layer of the shared cache is not believed: {why}");
        Error::new(Kind::Unproved, fact)
    };
    let text = signature.ok_or_else(|| refused("it is not signed"))?;
    let text = std::str::from_utf8(text).ok();
    let signature = text.and_then(|text| Signature::decode(text).ok());
    let signature = signature.ok_or_else(|| refused("its signature is not one of minisign's"))?;
    let mut verdicts = keys
        .iter()
        .map(|rule| rule.clone().into_key().verify(bytes, &signature, false));
    if !verdicts.clone().any(|verdict| verdict.is_ok()) {
        let other = verdicts.all(|v| matches!(v, Err(Refusal::UnexpectedKeyId)));
        return Err(match other {
            true => refused("it was signed with another key")
                .expected("a key of --cache-key")
                .cure("if you trust its author, pass the public key with --cache-key"),
            false => refused("its record was changed after it was signed"),
        });
    }
    let record: LayerRecord = serde_json::from_slice(bytes)
        .map_err(|_| refused("what was signed is no layer's record"))?;
    match record.flaw(key) {
        Some(flaw) => Err(refused(&format!("its record {flaw}"))
            .expected(key)
            .found(&record.key)),
        None => Ok(record),
    }
}

/// A file that takes no more bytes than were recorded.
struct Bounded {
    file: File,
    left: u64,
}

impl Write for Bounded {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let left = self.left.checked_sub(bytes.len() as u64);
        self.left = left.ok_or_else(|| std::io::Error::other("longer than was recorded"))?;
        self.file.write_all(bytes)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.file.flush()
    }
}

/// Unpacks a file of a layer while it comes; whether it is there. Its digest is not looked at.
async fn unpack(
    registry: &Registry,
    digest: &Digest,
    file: &LayerFile,
    path: &Path,
    watch: &Watch,
) -> Result<bool, Fault> {
    let damaged = |found: String| {
        let fact = format!(
            "{} of the shared cache is not what was recorded",
            watch.what
        );
        let error = registry.error(fact).of_kind(Kind::Unproved);
        error.expected(format!("{} bytes", file.size)).found(found)
    };
    let to = io::create_private_file(path).map_err(|e| Error::io("write", path, e))?;
    let bounded = Bounded {
        file: to,
        left: file.size,
    };
    let decoder = zstd::stream::write::Decoder::new(bounded);
    let mut decoder = decoder.map_err(|e| Error::io("write", path, e))?;
    // What cannot be pressed grows by less than this (RFC 8878: blocks have 3 bytes of header).
    let limit = file
        .size
        .saturating_add(file.size / 128)
        .saturating_add(64 << 10);
    let came = registry.pull(digest, limit, watch, |bytes, _| {
        decoder.write_all(bytes).map_err(|e| match e.kind() {
            std::io::ErrorKind::StorageFull => Error::io("write", path, e),
            _ => damaged(e.to_string()),
        })
    });
    if !came.await? {
        return Ok(false);
    }
    let flushed = decoder.flush();
    flushed.map_err(|e| damaged(e.to_string()))?;
    match decoder.get_ref().left {
        0 => Ok(true),
        left => Err(damaged(format!("{} bytes", file.size - left)).into()),
    }
}

/// Compresses a file; the digest and size of what that gave.
fn pack(from: &Path, to: &Path, cancel: &Cancel) -> Result<(Digest, u64)> {
    let unread = |e| Error::io("read", from, e);
    let unwritten = |e| Error::io("write", to, e);
    let source = File::open(from).map_err(unread)?;
    let encoder = zstd::stream::read::Encoder::new(source, LEVEL);
    let packed = encoder.map_err(unread)?;
    let target = io::create_private_file(to).map_err(unwritten)?;
    copy_hashed(packed, target, cancel, unread, unwritten)
}
