//! Layers in a registry: a manifest with the record, its signature and the layer's files, each
//! compressed.
//!
//! ```text
//! layer-<40 digits of the key>   the manifest's tag
//!   config                       layer.json, byte for byte
//!   layer.json.minisig           over those bytes
//!   disk.qcow2 uefi-vars.fd      zstd; the record has their unpacked sizes and digests
//! ```
//!
//! Refuses a record that no trusted key signed, one of another layer, one whose keys do not follow
//! from its inputs, and files that are not the recorded ones.

use std::fs::File;
use std::io::Write;
use std::path::Path;

use minisign_verify::{Error as Refusal, Signature};
use oci_client::manifest::OciImageManifest;

use super::fault::CacheFault;
use super::registry::{self, CacheRegistry};
use super::{SharedCacheClient, SignFn};
use crate::fetch::image::pull;
use crate::store::{
    LayerFile, LayerLookup, LayerRecord, ProgressWatch, Store, StoredLayer, copy_hashed,
};
use winimg_base::digest::Digest;
use winimg_base::error::{Error, Kind, Result};
use winimg_base::event::Cancel;
use winimg_base::io;
use winimg_trust::minisign::MinisignRule;

const LAYER: &str = "application/vnd.winimg.layer.v1+json";
const FILE: &str = "application/vnd.winimg.layer.file.v1+zstd";
const SIGNATURE: &str = "application/vnd.winimg.layer.signature.v1";
const SIGNATURE_NAME: &str = "layer.json.minisig";

/// Maximum size of a record in bytes; one with a thousand steps is smaller.
const RECORD_LIMIT: u64 = 16 << 20;
const SIGNATURE_LIMIT: u64 = 8 << 10;
/// Compression level; higher ones gain little on disks of programs.
const LEVEL: i32 = 3;

pub fn make_tag(key: &Digest) -> String {
    format!("layer-{}", &key.hex()[..40])
}

/// A layer in the registry with a trusted record.
struct RemoteLayer {
    manifest: OciImageManifest,
    bytes: Vec<u8>,
    record: LayerRecord,
}

impl SharedCacheClient {
    /// Pulls the layer, its parents first. `false`: it is not there, or does not fit the layers
    /// here.
    pub(super) fn pull(&self, key: &Digest, store: &Store) -> Result<bool, CacheFault> {
        let mut wanted: Vec<RemoteLayer> = Vec::new();
        let mut next = Some(key.clone());
        // Each parent is an earlier link than its child, so this terminates.
        while let Some(key) = next.take() {
            if let LayerLookup::Layer(here) = store.find_layer(&key, &self.cancel)? {
                if !lies_over(wanted.last(), here.record()) {
                    self.sink.note(format!(
                        "the shared cache's layers are based on a different disk after {} than \
                         this cache's: they are not used",
                        here.record().last_link_name()
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
        store.check_free_space("the layers of the shared cache", bytes)?;
        for found in wanted.into_iter().rev() {
            let (after, bytes) = (
                found.record.last_link_name().to_owned(),
                found.record.size(),
            );
            self.pull_one(found, store)?;
            self.sink.note(format!(
                "the layer after {after} came from the shared cache ({bytes} bytes)"
            ));
        }
        Ok(true)
    }

    /// Finds the layer's manifest and record, if it is there and trusted.
    fn find(&self, key: &Digest) -> Result<Option<RemoteLayer>, CacheFault> {
        let (registry, tag) = (&self.registry, make_tag(key));
        let watch = self.watch("a layer's record");
        let small = async |digest: &str, limit| {
            let digest = pull::parse_digest(digest, &tag)?;
            registry.read_small(&digest, limit, &watch).await
        };
        let parts = self.run(async {
            let Some(manifest) = registry.fetch_manifest(&tag).await? else {
                return Ok(None);
            };
            let record = small(&manifest.config.digest, RECORD_LIMIT).await?;
            let signature = match registry::find_part(&manifest, SIGNATURE_NAME) {
                Some(part) => small(&part.digest, SIGNATURE_LIMIT).await?,
                None => None,
            };
            Ok(Some((manifest, record, signature)))
        });
        let Some((manifest, record, signature)) = parts? else {
            return Ok(None);
        };
        let bytes = record.unwrap_or_default();
        let record = verify_record(&bytes, signature.as_deref(), &self.keys, key)
            .map_err(|e| e.at(format!("{} {tag}", registry.describe())))?;
        Ok(Some(RemoteLayer {
            manifest,
            bytes,
            record,
        }))
    }

    /// Pulls the files into a draft and makes a layer of it.
    fn pull_one(&self, found: RemoteLayer, store: &Store) -> Result<(), CacheFault> {
        let draft = store.create_draft()?;
        for file in &found.record.files {
            let what = format!("{} after {}", file.name, found.record.last_link_name());
            let fact = format!("the shared cache does not have {what}");
            let Some(part) = registry::find_part(&found.manifest, &file.name) else {
                return Err(self.registry.error(fact).into());
            };
            let digest = pull::parse_digest(&part.digest, &what)?;
            let (path, watch) = (draft.file_path(&file.name), self.watch(what.clone()));
            if !self.run(unpack(&self.registry, &digest, file, &path, &watch))? {
                return Err(self.registry.error(fact).into());
            }
        }
        store.adopt(draft, &found.bytes, &self.cancel)?;
        Ok(())
    }

    /// Pushes the layer and its parents, unless they are there.
    pub(super) fn push(
        &self,
        layer: &StoredLayer,
        store: &Store,
        sign: &SignFn,
    ) -> Result<(), CacheFault> {
        let mut all = vec![layer.clone()];
        while let Some(parent) = all.last().and_then(|l| l.record().parent.clone()) {
            match store.find_layer(&parent, &self.cancel)? {
                LayerLookup::Layer(layer) => all.push(*layer),
                // Without its parent the layer is of no use elsewhere.
                _ => return Ok(()),
            }
        }
        for layer in all.iter().rev() {
            if !self.give_one(layer, store, sign)? {
                let after = layer.record().last_link_name();
                self.sink.note(format!(
                    "the shared cache has a different disk after {after} than this cache: it is \
                     kept, and no layer based on ours is sent"
                ));
                return Ok(());
            }
        }
        Ok(())
    }

    /// Returns true if exactly this layer is there.
    pub(super) fn has(&self, layer: &StoredLayer) -> Result<bool, CacheFault> {
        let tag = make_tag(&layer.record().key);
        let bytes = layer.record_bytes()?;
        let there = self.run(self.registry.fetch_manifest(&tag))?;
        let digest = Digest::sha256_of(&bytes).to_string();
        Ok(there.is_some_and(|there| there.config.digest == digest))
    }

    /// Builds the error for a missing layer of the finished disk. `why`: the error of pushing it;
    /// without one another layer has its name.
    pub(super) fn report_missing(&self, layer: &StoredLayer, why: Option<Error>) -> Error {
        let fact = "the finished disk is required to be in the shared cache, but is not there";
        match why {
            Some(error) => {
                let problem = error.problem().clone().with_prefix(format!("{fact}: "));
                let cure = "run the same command again: it continues from the finished disk";
                Error::from_problem(error.kind(), problem).cure(cure)
            }
            None => self
                .registry
                .error(fact)
                .expected(format!("the layer {} of this host", layer.record().key))
                .found("a different disk, or none, with the same key")
                .cure("to use that one, build with an empty cache: WINIMG_CACHE_DIR"),
        }
    }

    /// Pushes one layer. `false`: another layer has its name there.
    fn give_one(
        &self,
        layer: &StoredLayer,
        store: &Store,
        sign: &SignFn,
    ) -> Result<bool, CacheFault> {
        let (bytes, tag) = (layer.record_bytes()?, make_tag(&layer.record().key));
        let (registry, after) = (&self.registry, layer.record().last_link_name());
        if let Some(there) = self.run(registry.fetch_manifest(&tag))? {
            return Ok(there.config.digest == Digest::sha256_of(&bytes).to_string());
        }
        let comment = format!(
            "timestamp:{}\tfile:layer.json\thashed\tlayer:{}",
            layer.record().made,
            layer.record().key
        );
        let signature = sign(&bytes, &comment)?;
        // For the compressed files; it is removed after they are sent.
        let draft = store.create_draft()?;
        let mut parts = Vec::new();
        for (file, path) in layer.iter_files() {
            let packed = draft.file_path(&format!("{}.zst", file.name));
            let (digest, size) = pack(&path, &packed, &self.cancel)?;
            let watch = self.watch(format!("{} after {after} to the shared cache", file.name));
            self.run(registry.upload(&packed, &digest, size, &watch))?;
            let described = registry::make_descriptor(FILE, &digest, size);
            parts.push(registry::add_title(described, &file.name));
        }
        self.run(async {
            let config = registry.upload_small(LAYER, bytes).await?;
            let signature = registry
                .upload_small(SIGNATURE, signature.into_bytes())
                .await?;
            parts.push(registry::add_title(signature, SIGNATURE_NAME));
            let manifest = OciImageManifest {
                media_type: Some(registry::MANIFEST.into()),
                artifact_type: Some(LAYER.into()),
                config,
                layers: parts,
                ..OciImageManifest::default()
            };
            // Last, so that a tagged layer is complete.
            registry.push_manifest(&tag, manifest).await
        })?;
        let text = format!("the layer after {after} is in the shared cache now");
        self.sink.note(text);
        Ok(true)
    }
}

/// Returns true if the child layer was made on exactly this layer's disk.
fn lies_over(child: Option<&RemoteLayer>, parent: &LayerRecord) -> bool {
    child.is_none_or(|child| child.record.parent_disk.as_ref() == parent.disk_digest())
}

/// Verifies an untrusted record of the layer with this key: one of the keys must have signed it,
/// and it must be consistent.
fn verify_record(
    bytes: &[u8],
    signature: Option<&[u8]>,
    keys: &[MinisignRule],
    key: &Digest,
) -> Result<LayerRecord> {
    let text = signature.ok_or_else(|| refuse_layer("it is not signed"))?;
    let signature = std::str::from_utf8(text)
        .ok()
        .and_then(|text| Signature::decode(text).ok())
        .ok_or_else(|| refuse_layer("its signature is not a minisign signature"))?;
    let mut verdicts = keys
        .iter()
        .map(|rule| rule.clone().into_key().verify(bytes, &signature, false));
    if !verdicts.clone().any(|verdict| verdict.is_ok()) {
        let other = verdicts.all(|v| matches!(v, Err(Refusal::UnexpectedKeyId)));
        return Err(if other {
            refuse_layer("it was signed with another key")
                .expected("a key of --cache-key")
                .cure("if you trust its author, pass the public key with --cache-key")
        } else {
            refuse_layer("its record was changed after it was signed")
        });
    }
    let record: LayerRecord = serde_json::from_slice(bytes)
        .map_err(|_| refuse_layer("the signed text is not a layer's record"))?;
    match record.find_flaw(key) {
        Some(flaw) => Err(refuse_layer(&format!("its record {flaw}"))
            .expected(key)
            .found(&record.key)),
        None => Ok(record),
    }
}

fn refuse_layer(why: &str) -> Error {
    let fact = format!("a layer of the shared cache is not trusted: {why}");
    Error::new(Kind::Unproved, fact)
}

/// A file that accepts no more bytes than were recorded.
struct BoundedFile {
    file: File,
    left: u64,
}

impl Write for BoundedFile {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let left = self.left.checked_sub(bytes.len() as u64);
        self.left = left.ok_or_else(|| std::io::Error::other("longer than recorded"))?;
        self.file.write_all(bytes)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.file.flush()
    }
}

/// Unpacks a file of a layer while downloading it; returns false if it is not there. Does not check
/// the unpacked digest.
async fn unpack(
    registry: &CacheRegistry,
    digest: &Digest,
    file: &LayerFile,
    path: &Path,
    watch: &ProgressWatch,
) -> Result<bool, CacheFault> {
    let damaged = |found: String| {
        let fact = format!(
            "{} of the shared cache does not match its record",
            watch.what
        );
        let error = registry.error(fact).with_kind(Kind::Unproved);
        error.expected(format!("{} bytes", file.size)).found(found)
    };
    let to = io::create_private_file(path).map_err(|e| Error::io("write", path, e))?;
    let bounded = BoundedFile {
        file: to,
        left: file.size,
    };
    let decoder = zstd::stream::write::Decoder::new(bounded);
    let mut decoder = decoder.map_err(|e| Error::io("write", path, e))?;
    // Incompressible data grows by less than this (RFC 8878: blocks have 3 bytes of header).
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

/// Compresses a file; returns the digest and size of the result.
fn pack(from: &Path, to: &Path, cancel: &Cancel) -> Result<(Digest, u64)> {
    let packed = File::open(from)
        .and_then(|source| zstd::stream::read::Encoder::new(source, LEVEL))
        .map_err(|e| Error::io("read", from, e))?;
    let target = io::create_private_file(to).map_err(|e| Error::io("write", to, e))?;
    copy_hashed(
        packed,
        target,
        cancel,
        |e| Error::io("read", from, e),
        |e| Error::io("write", to, e),
    )
}
