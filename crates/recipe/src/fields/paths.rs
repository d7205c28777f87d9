//! Keys whose values are paths: on this machine, relative to the recipe, or in the guest.

use std::path::{Path, PathBuf};

use super::TableReader;
use crate::GuestPath;
use crate::document::sources::{OUTSIDE, OUTSIDE_HELP};
use crate::keys::KeyKind;
use winimg_base::text::{Located, Place};

/// Requirement for the local files that a table names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileRequirement {
    MustExist,
    /// The step is skipped, so its files are not read.
    MayBeMissing,
}

impl TableReader<'_> {
    /// Reads the path of a local file or folder, relative to the file that names it.
    pub fn read_local_path(
        &self,
        key: &str,
        requirement: FileRequirement,
    ) -> Option<Located<PathBuf>> {
        let text = self.read_string(key)?;
        let path = self.resolve_local(key, &text);
        let may_be_missing = requirement == FileRequirement::MayBeMissing;
        if self.cx.sources.is_outside(&path) {
            if may_be_missing {
                let path = self.cx.sources.resolve_input(path);
                return Some(Located::new(path, text.place));
            }
            self.report(OUTSIDE, &text.place, OUTSIDE_HELP);
            return None;
        }
        if !may_be_missing && !path.exists() {
            let fact = format!("no such file or folder: {}", text.value);
            let help = format!("looked for {}", path.display());
            self.report(fact, &text.place, &help);
            return None;
        }
        Some(Located::new(path, text.place))
    }

    /// Resolves the file or folder that a key's text names, and adds it to the recipe's files.
    pub fn resolve_local(&self, key: &str, text: &Located<String>) -> PathBuf {
        let base = self.table.get(key).and_then(|v| v.base.as_ref());
        let sources = self.cx.sources;
        sources.resolve_local(base.unwrap_or(&text.place), &text.value)
    }

    /// Returns the base folder of the key's relative path: the folder of the file that contains the
    /// key, or, if the path starts with a variable, of the file that set it.
    pub fn base_folder(&self, key: &str, place: &Place) -> &Path {
        let base = self.table.get(key).and_then(|v| v.base.as_ref());
        self.cx.sources.find_folder(base.unwrap_or(place))
    }

    /// Reads a guest path, `C:\…`.
    pub fn guest_path(&self, key: &str) -> Option<Located<GuestPath>> {
        self.guest_path_of(key, self.read_string(key)?)
    }

    /// Reads a list of guest paths: empty if the key is absent, `None` after an error.
    pub fn guest_paths(&self, key: &str) -> Option<Vec<Located<GuestPath>>> {
        if !self.has(key) {
            return Some(Vec::new());
        }
        // Collected in two steps, so that every wrong path is reported.
        let paths: Vec<_> = self
            .list(key)?
            .iter()
            .map(|item| self.guest_path_of(key, self.text_of(key, &KeyKind::Text, item)?))
            .collect();
        paths.into_iter().collect()
    }

    pub fn guest_path_of(&self, key: &str, text: Located<String>) -> Option<Located<GuestPath>> {
        let path = match GuestPath::parse(&text.value) {
            Ok(path) => path,
            Err((why, help)) => {
                let fact = format!("`{key}` is not a path in the guest: {why}");
                self.report(fact, &text.place, &help);
                return None;
            }
        };
        if let Err((why, help)) = path.check_allowed() {
            let fact = format!("`{key}` cannot be `{path}`: {why}");
            self.report(fact, &text.place, &help);
            return None;
        }
        Some(Located::new(path, text.place))
    }
}
