//! Members of a tar, which are sent from it without unpacking.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufReader, Read as _, Seek as _, SeekFrom};
use std::path::{Path, PathBuf};

use winimg_base::error::{Error, Result};

/// Maximum size in bytes of a member that is read.
const MAX_MEMBER_SIZE: u64 = 4 << 20;

pub struct TarMembers {
    path: PathBuf,
    file: File,
    places: BTreeMap<String, (u64, u64)>,
}

impl TarMembers {
    pub fn open(path: &Path) -> Result<Self> {
        let file = File::open(path).map_err(|e| Error::io("read", path, e))?;
        let places = list_places(&file).map_err(|e| Error::io("read", path, e))?;
        Ok(Self {
            path: path.to_owned(),
            file,
            places,
        })
    }

    /// Finds a member: its offset and its size in bytes.
    pub fn find(&self, name: &str) -> Option<(u64, u64)> {
        self.places.get(name).copied()
    }

    /// Finds the name of the first member with this ending.
    pub fn find_ending(&self, ending: &str) -> Option<&str> {
        let mut names = self.places.keys().map(String::as_str);
        names.find(|name| name.ends_with(ending))
    }

    /// Reads bytes of the tar, a small member.
    pub fn read(&mut self, (start, size): (u64, u64)) -> Result<Vec<u8>> {
        let mut bytes = Vec::new();
        self.file
            .seek(SeekFrom::Start(start))
            .and_then(|_| {
                let mut part = (&self.file).take(size.min(MAX_MEMBER_SIZE));
                part.read_to_end(&mut bytes)
            })
            .map_err(|e| Error::io("read", &self.path, e))?;
        Ok(bytes)
    }
}

fn list_places(file: &File) -> std::io::Result<BTreeMap<String, (u64, u64)>> {
    let mut places = BTreeMap::new();
    let mut archive = tar::Archive::new(BufReader::new(file));
    for entry in archive.entries_with_seek()? {
        let entry = entry?;
        let name = entry.path()?.to_string_lossy().into_owned();
        places.insert(name, (entry.raw_file_position(), entry.size()));
    }
    Ok(places)
}
