//! The bytes of an object: a part of a file, or what was made for the destination.

use std::fs::File;
use std::io::{Read as _, Seek as _, SeekFrom};
use std::path::{Path, PathBuf};

use bytes::Bytes;

use crate::fetch;
use winimg_base::digest::Digest;
use winimg_base::error::{Error, Result};

#[derive(Clone)]
pub enum Body {
    File {
        path: PathBuf,
        /// Where it begins, bytes.
        start: u64,
    },
    Made(Bytes),
}

impl Body {
    /// A file from its beginning.
    pub fn file(path: &Path) -> Self {
        Self::File {
            path: path.to_owned(),
            start: 0,
        }
    }

    /// Those bytes of it, and their digest.
    pub async fn read(&self, offset: u64, length: u64) -> Result<(Bytes, Digest)> {
        let body = self.clone();
        fetch::blocking(move || {
            let bytes = body.read_now(offset, length)?;
            let digest = Digest::sha256_of(&bytes);
            Ok((bytes, digest))
        })
        .await
    }

    fn read_now(&self, offset: u64, length: u64) -> Result<Bytes> {
        match self {
            Self::Made(bytes) => {
                let range = offset as usize..(offset + length) as usize;
                Ok(bytes.slice(range))
            }
            Self::File { path, start } => {
                let unread = |e| Error::io("read", path, e);
                let mut file = File::open(path).map_err(unread)?;
                file.seek(SeekFrom::Start(start + offset)).map_err(unread)?;
                let mut bytes = vec![0; length as usize];
                file.read_exact(&mut bytes).map_err(unread)?;
                Ok(bytes.into())
            }
        }
    }
}
