//! Secrets of this store: created once, in files that only their owner can read. They are in no
//! layer and on no other machine.

use std::fs;
use std::io::{ErrorKind, Write as _};

use winimg_base::error::{Error, Result};
use winimg_base::event::Cancel;
use winimg_base::io::{AtomicFile, FileLock};
use winimg_base::text::Secret;

use super::Store;

impl Store {
    /// Returns the secret of this name, creating it if there is none.
    pub fn kept_secret(
        &self,
        name: &str,
        make: fn() -> Result<Secret>,
        cancel: &Cancel,
    ) -> Result<Secret> {
        let path = self.folder.join(name);
        // Builds that start at the same time must get the same secret.
        let _lock = FileLock::take(&FileLock::path_for(&path), cancel, |_| {})?;
        match fs::read_to_string(&path) {
            Ok(text) => return Ok(Secret::new(text)),
            Err(e) if e.kind() == ErrorKind::NotFound => {}
            Err(e) => return Err(Error::io("read", &path, e)),
        }
        let secret = make()?;
        let mut file = AtomicFile::create_private(&path)?;
        let written = file.write_all(secret.expose().as_bytes());
        written.map_err(|e| Error::io("write", &path, e))?;
        file.commit()?;
        Ok(secret)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_second_build_finds_the_secret_of_the_first() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(folder.path()).unwrap();
        let kept = |make: fn() -> Result<Secret>| {
            let secret = store.kept_secret("a-password", make, &Cancel::default());
            secret.unwrap().expose().to_string()
        };
        assert_eq!(kept(|| Ok(Secret::new("one"))), "one");
        assert_eq!(kept(|| Ok(Secret::new("two"))), "one");
    }
}
