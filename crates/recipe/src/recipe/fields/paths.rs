//! Keys that name a place: on this machine beside the recipe, or in the guest.

use std::path::{Path, PathBuf};

use super::Fields;
use crate::recipe::GuestPath;
use crate::recipe::keys::Kind;
use crate::recipe::sources::{OUTSIDE, OUTSIDE_HELP};
use winimg_base::text::{Located, Place};

impl Fields<'_> {
    /// A local file or folder, relative to the file that names it; it has to exist, unless its step is skipped.
    pub fn local(&self, key: &str) -> Option<Located<PathBuf>> {
        let text = self.string(key)?;
        let path = self.beside(key, &text);
        let is_skipped = self.cx.is_skipped.get();
        if self.cx.sources.is_outside(&path) {
            if is_skipped {
                let path = self.cx.sources.input(path);
                return Some(Located::new(path, text.place));
            }
            self.complain(OUTSIDE, &text.place, OUTSIDE_HELP);
            return None;
        }
        if !is_skipped && !path.exists() {
            let fact = format!("there is no file or folder {}", text.value);
            let help = format!("looked for {}", path.display());
            self.complain(fact, &text.place, &help);
            return None;
        }
        Some(Located::new(path, text.place))
    }

    /// The file or folder that a key's text names. It becomes one of the files that the recipe is made of.
    pub fn beside(&self, key: &str, text: &Located<String>) -> PathBuf {
        let base = self.table.get(key).and_then(|v| v.base.as_ref());
        let sources = self.cx.sources;
        sources.local(base.unwrap_or(&text.place), &text.value)
    }

    /// The folder that the key's relative path starts from: that of the file that has the key, or of the
    /// place that sets the variable at its beginning.
    pub fn folder(&self, key: &str, place: &Place) -> &Path {
        let base = self.table.get(key).and_then(|v| v.base.as_ref());
        self.cx.sources.folder(base.unwrap_or(place))
    }

    /// A guest path, `C:\…`.
    pub fn guest_path(&self, key: &str) -> Option<Located<GuestPath>> {
        self.guest_path_of(key, self.string(key)?)
    }

    /// Empty when the key is absent; `None` when one of the list is wrong.
    pub fn guest_paths(&self, key: &str) -> Option<Vec<Located<GuestPath>>> {
        if !self.has(key) {
            return Some(Vec::new());
        }
        let read = |item| self.guest_path_of(key, self.text_of(key, &Kind::Text, item)?);
        let paths: Vec<_> = self.list(key)?.iter().map(read).collect();
        paths.into_iter().collect()
    }

    pub fn guest_path_of(&self, key: &str, text: Located<String>) -> Option<Located<GuestPath>> {
        let path = match GuestPath::parse(&text.value) {
            Ok(path) => path,
            Err((why, help)) => {
                let fact = format!("`{key}` is not a path in the guest: {why}");
                self.complain(fact, &text.place, &help);
                return None;
            }
        };
        if let Err((why, help)) = path.fit() {
            let fact = format!("`{key}` cannot be `{path}`: {why}");
            self.complain(fact, &text.place, &help);
            return None;
        }
        Some(Located::new(path, text.place))
    }
}
