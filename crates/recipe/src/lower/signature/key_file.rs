//! Keys that pin a signature: strings in the recipe, and files beside it.

use std::io::ErrorKind;
use std::path::PathBuf;

use crate::KeyFile;
use crate::document::sources::{OUTSIDE, OUTSIDE_HELP};
use crate::fields::TableReader;
use winimg_base::digest::Digest;
use winimg_base::io;
use winimg_base::text::Located;
use winimg_trust::{KeyFileContent, short_format};

/// Maximum size of a key file, in bytes.
const LIMIT: u64 = 1 << 20;

/// A key file, or an inline key.
pub struct PinnedKey {
    pub bytes: Vec<u8>,
    /// The file's name as written in the recipe; `None` for an inline key.
    pub file: Option<String>,
    /// Description for messages and for the lock: the key itself, or the file as written and its
    /// digest.
    pub words: String,
}

/// Reads a key file beside the recipe.
pub fn read_key_file(fields: &TableReader<'_>, key: &str) -> Option<Located<PinnedKey>> {
    let text = fields.read_string(key)?;
    let path = fields.resolve_local(key, &text);
    read_file(fields, key, &text, path)
}

pub fn read_file(
    fields: &TableReader<'_>,
    key: &str,
    text: &Located<String>,
    path: PathBuf,
) -> Option<Located<PinnedKey>> {
    let looked = format!("looked for {}", path.display());
    let (fact, help) = if fields.cx.sources.is_outside(&path) {
        (OUTSIDE.to_owned(), OUTSIDE_HELP.to_owned())
    } else if !path.is_file() {
        (format!("no such file: {}", text.value), looked)
    } else {
        match io::read_limited(&path, LIMIT) {
            Err(e) if e.kind() == ErrorKind::FileTooLarge => (
                format!("`{key}` is longer than {LIMIT} bytes"),
                "expected a key or certificate file".to_owned(),
            ),
            Err(e) => (format!("`{key}` cannot be read: {e}"), looked),
            Ok(bytes) => {
                let digest = Digest::sha256_of(&bytes);
                let words = format!("{} ({digest})", text.value);
                fields.cx.key_file(&text.value, digest);
                let file = Some(text.value.clone());
                let key = PinnedKey { bytes, file, words };
                return Some(Located::new(key, text.place.clone()));
            }
        }
    };
    fields.cx.error(fact, &text.place, "", &help);
    None
}

/// Reads a key of 56 characters in the form of minisign and signify (42 bytes that begin with
/// `Ed`), or a file with one.
pub fn read_short_key(fields: &TableReader<'_>) -> Option<Located<PinnedKey>> {
    let text = fields.read_string("key")?;
    let line = text.value.trim();
    if short_format::is_key(line) {
        let key = PinnedKey {
            bytes: line.as_bytes().to_vec(),
            file: None,
            words: line.to_string(),
        };
        return Some(Located::new(key, text.place));
    }
    let path = fields.resolve_local("key", &Located::new(line.to_string(), text.place.clone()));
    if !fields.cx.sources.is_outside(&path) && !path.exists() {
        let fact = format!("`key` is neither a public key nor a file: \"{line}\"");
        fields.cx.error(fact, &text.place, "", fields.help("key"));
        return None;
    }
    read_file(fields, "key", &text, path)
}

impl PinnedKey {
    /// Returns the lock's record of this file; empty for an inline key.
    pub fn record(&self, pinned: Option<KeyFileContent>) -> Vec<KeyFile> {
        let file = self.file.clone().zip(pinned).into_iter();
        file.map(|(file, KeyFileContent { key, digest })| KeyFile { file, key, digest })
            .collect()
    }
}

/// Returns the rule that was made from a key, or reports the error at the key.
pub fn report_rule<T>(
    fields: &TableReader<'_>,
    rule: Result<T, String>,
    key: &Located<PinnedKey>,
    what: &str,
) -> Option<T> {
    match rule {
        Ok(rule) => Some(rule),
        Err(why) => {
            let fact = format!("{}: {what} {why}", fields.what);
            fields.cx.error(fact, &key.place, "", "");
            None
        }
    }
}
