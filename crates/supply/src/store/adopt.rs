//! Layers that were made on another machine: their record as it was written there, and their files.
//!
//! Who says so is the caller's affair. Refuses a record whose keys do not follow from what went in, files that are not the
//! recorded ones, and a layer that was made over another disk than the one that lies below it here.

use std::fs;
use std::path::PathBuf;

use winimg_base::digest::Digest;
use winimg_base::error::{Error, Kind, Result};
use winimg_base::event::Cancel;
use winimg_base::io;
use winimg_formats::disk::DiskForm;
use winimg_recipe::plan::Chain;
use winimg_recipe::plan::chain::FORMAT;

use super::layer::{RECORD, VARIABLES, check_files};
use super::{Draft, Kept, Layer, LayerFile, LayerRecord, Store};

impl LayerRecord {
    /// What is wrong with a stranger's record of the layer with this key, in words that fit after "its record".
    pub fn flaw(&self, key: &Digest) -> Option<&'static str> {
        if self.format != FORMAT {
            return Some("is in another version's form");
        }
        if self.key != *key {
            return Some("is that of another layer");
        }
        let mut chain = Chain::default();
        for link in &self.links {
            chain.push(link.name.clone(), link.part.clone());
        }
        let follows =
            chain.links() == self.links && self.links.last().is_some_and(|l| l.key == *key);
        if !follows {
            return Some("has a key that does not follow from what went in");
        }
        let names: Vec<&str> = self.files.iter().map(|f| f.name.as_str()).collect();
        let forms = DiskForm::ALL.map(DiskForm::file_name);
        let is_layer = match names[..] {
            [disk] | [disk, VARIABLES] => forms.contains(&disk),
            _ => false,
        };
        if !is_layer {
            return Some("names other files than a layer has");
        }
        // Strictly earlier, so that no chain of parents goes round.
        let before = self
            .links
            .split_last()
            .map_or(&[][..], |(_, before)| before);
        let known = |parent: &Digest| before.iter().any(|link| link.key == *parent);
        if self.parent.as_ref().is_some_and(|parent| !known(parent)) {
            return Some("names a parent that is no earlier part of it");
        }
        if self.parent.is_some() != self.parent_disk.is_some() {
            return Some("does not say which disk it lies over");
        }
        None
    }
}

impl Layer {
    /// The record's exact bytes.
    pub fn record_bytes(&self) -> Result<Vec<u8>> {
        let path = self.folder.join(RECORD);
        fs::read(&path).map_err(|e| Error::io("read", &path, e))
    }

    /// Its files with what is recorded of them, the disk first.
    pub fn files(&self) -> impl Iterator<Item = (&LayerFile, PathBuf)> {
        let files = self.record().files.iter();
        files.map(|file| (file, self.folder.join(&file.name)))
    }
}

impl Draft {
    /// A file beside the disk; what has no name of a layer's file goes when the layer gets its own.
    pub fn file(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }
}

impl Store {
    /// Makes a layer of a draft that holds the files of `record`, whose parent is there. The record keeps its bytes.
    pub fn adopt(&self, draft: Draft, record: &[u8], cancel: &Cancel) -> Result<Layer> {
        let parsed: LayerRecord = serde_json::from_slice(record).map_err(|e| {
            Error::new(Kind::Unproved, "a layer's record cannot be read").because(e)
        })?;
        if let Some(flaw) = parsed.flaw(&parsed.key) {
            return Err(refused(&parsed, format!("its record {flaw}")));
        }
        self.lease.hold(std::slice::from_ref(&parsed.key))?;
        if let Some(parent) = &parsed.parent {
            let beneath = match self.layer(parent, cancel)? {
                Kept::Layer(layer) => layer,
                _ => return Err(refused(&parsed, "its parent is not in the cache")),
            };
            if beneath.record().disk() != parsed.parent_disk.as_ref() {
                return Err(refused(&parsed, "its parent here is another disk"));
            }
        }
        if let Some(damage) = check_files(&draft.folder, &parsed, cancel)? {
            return Err(damage);
        }
        io::write_atomically(&draft.folder.join(RECORD), record)?;
        self.place_layer(draft, parsed, cancel)
    }
}

fn refused(record: &LayerRecord, why: impl std::fmt::Display) -> Error {
    let fact = format!("the layer after {} is not taken", record.after());
    Error::new(Kind::Unproved, fact).found(why)
}
