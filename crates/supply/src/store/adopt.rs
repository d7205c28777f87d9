//! Adopts layers from another machine, with their original records and files.
//!
//! The caller decides about trust. Refuses a record whose keys do not match its inputs, files that
//! differ from the record, and a layer whose parent has a different disk here.

use std::fs;
use std::path::PathBuf;

use winimg_base::digest::Digest;
use winimg_base::error::{Error, Kind, Result};
use winimg_base::event::Cancel;
use winimg_base::io;
use winimg_formats::disk::MachineDiskFormat;
use winimg_recipe::plan::BuildChain;
use winimg_recipe::plan::chain::FORMAT;

use super::layer::{RECORD, VARIABLES, check_files};
use super::{LayerDraft, LayerFile, LayerLookup, LayerRecord, Store, StoredLayer};

impl LayerRecord {
    /// Returns the flaw in an untrusted record of the layer with this key, as the end of a sentence
    /// that begins with "its record".
    pub fn find_flaw(&self, key: &Digest) -> Option<&'static str> {
        if self.format != FORMAT {
            return Some("has the format of another version");
        }
        if self.key != *key {
            return Some("belongs to another layer");
        }
        let mut chain = BuildChain::default();
        for link in &self.links {
            chain.push(link.name.clone(), link.part.clone());
        }
        let follows =
            chain.links() == self.links && self.links.last().is_some_and(|l| l.key == *key);
        if !follows {
            return Some("has a key that does not match its inputs");
        }
        let names: Vec<&str> = self.files.iter().map(|f| f.name.as_str()).collect();
        let forms = MachineDiskFormat::ALL.map(MachineDiskFormat::file_name);
        let is_layer = match names[..] {
            [disk] | [disk, VARIABLES] => forms.contains(&disk),
            _ => false,
        };
        if !is_layer {
            return Some("lists files that a layer does not have");
        }
        // Strictly earlier, so that parents cannot form a cycle.
        let before = self
            .links
            .split_last()
            .map_or(&[][..], |(_, before)| before);
        let parent = self.parent.as_ref();
        if parent.is_some_and(|parent| before.iter().all(|link| link.key != *parent)) {
            return Some("names a parent that is not an earlier part of it");
        }
        if self.parent.is_some() != self.parent_disk.is_some() {
            return Some("does not name its parent's disk");
        }
        None
    }
}

impl StoredLayer {
    /// Returns the exact bytes of the record.
    pub fn record_bytes(&self) -> Result<Vec<u8>> {
        let path = self.folder.join(RECORD);
        fs::read(&path).map_err(|e| Error::io("read", &path, e))
    }

    /// Returns the records and paths of its files, the disk first.
    pub fn iter_files(&self) -> impl Iterator<Item = (&LayerFile, PathBuf)> {
        let files = self.record().files.iter();
        files.map(|file| (file, self.folder.join(&file.name)))
    }
}

impl LayerDraft {
    /// Returns the path of a file beside the disk.
    pub fn file_path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }
}

impl Store {
    /// Seals a draft that contains the files of `record`, whose parent is in the store. The record
    /// is stored unchanged.
    pub fn adopt(&self, draft: LayerDraft, record: &[u8], cancel: &Cancel) -> Result<StoredLayer> {
        let parsed: LayerRecord = serde_json::from_slice(record)
            .map_err(|e| Error::new(Kind::Unproved, "cannot read a layer's record").because(e))?;
        if let Some(flaw) = parsed.find_flaw(&parsed.key) {
            return Err(report_rejected(&parsed, format!("its record {flaw}")));
        }
        self.lease.add(std::slice::from_ref(&parsed.key))?;
        if let Some(parent) = &parsed.parent {
            let beneath = match self.find_layer(parent, cancel)? {
                LayerLookup::Layer(layer) => layer,
                _ => return Err(report_rejected(&parsed, "its parent is not in the cache")),
            };
            if beneath.record().disk_digest() != parsed.parent_disk.as_ref() {
                return Err(report_rejected(
                    &parsed,
                    "its parent has a different disk here",
                ));
            }
        }
        if let Some(damage) = check_files(&draft.folder, &parsed, cancel)? {
            return Err(damage);
        }
        io::write_atomically(&draft.folder.join(RECORD), record)?;
        self.place_layer(draft, parsed, cancel)
    }
}

fn report_rejected(record: &LayerRecord, why: impl std::fmt::Display) -> Error {
    let fact = format!("the layer after {} was rejected", record.last_link_name());
    Error::new(Kind::Unproved, fact).found(why)
}
