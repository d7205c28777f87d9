//! Keys, roots and digests that a signature is pinned by: texts of the recipe, and files beside it.

use std::io::ErrorKind;
use std::path::PathBuf;

use crate::recipe::KeyFile;
use crate::recipe::fields::Fields;
use crate::recipe::sources::{OUTSIDE, OUTSIDE_HELP};
use crate::recipe::value::{Data, Value};
use winimg_base::digest::{Algorithm, Digest};
use winimg_base::io;
use winimg_base::text::Located;
use winimg_trust::authenticode::{self, Pins};
use winimg_trust::{Pinned, misused, pinned, roots as shipped, short};

/// Longest key file, bytes.
const LIMIT: u64 = 1 << 20;

/// A key file, or a key that the recipe spells out.
pub struct Key {
    pub bytes: Vec<u8>,
    /// The file's name as the recipe writes it; `None` for a key that the recipe spells out.
    pub file: Option<String>,
    /// For people and for the lock: the key itself, or the file as written and its digest.
    pub words: String,
}

/// A file beside the recipe.
pub fn key_file(fields: &Fields<'_>, key: &str) -> Option<Located<Key>> {
    let text = fields.string(key)?;
    let path = fields.beside(key, &text);
    read(fields, key, &text, path)
}

fn read(
    fields: &Fields<'_>,
    key: &str,
    text: &Located<String>,
    path: PathBuf,
) -> Option<Located<Key>> {
    let complain = |fact: String, help: String| {
        fields.cx.error(fact, &text.place, "", &help);
    };
    if fields.cx.sources.is_outside(&path) {
        complain(OUTSIDE.into(), OUTSIDE_HELP.into());
        return None;
    }
    let looked = format!("looked for {}", path.display());
    if !path.is_file() {
        complain(format!("there is no file {}", text.value), looked);
        return None;
    }
    match io::read_limited(&path, LIMIT) {
        Err(e) if e.kind() == ErrorKind::FileTooLarge => {
            let fact = format!("`{key}` is longer than {LIMIT} bytes");
            complain(fact, "a key or certificate file is meant".into());
        }
        Err(e) => complain(format!("`{key}` cannot be read: {e}"), looked),
        Ok(bytes) => {
            let digest = Digest::sha256_of(&bytes);
            let words = format!("{} ({digest})", text.value);
            fields.cx.key_file(&text.value, digest);
            let file = Some(text.value.clone());
            let key = Key { bytes, file, words };
            return Some(Located::new(key, text.place.clone()));
        }
    }
    None
}

/// A key of 56 characters as minisign and signify write it (42 bytes that begin with `Ed`), or a file with one.
pub fn short_key(fields: &Fields<'_>) -> Option<Located<Key>> {
    let text = fields.string("key")?;
    let line = text.value.trim();
    if short::is_key(line) {
        let key = Key {
            bytes: line.as_bytes().to_vec(),
            file: None,
            words: line.to_string(),
        };
        return Some(Located::new(key, text.place));
    }
    let path = fields.beside("key", &Located::new(line.to_string(), text.place.clone()));
    if !fields.cx.sources.is_outside(&path) && !path.exists() {
        let fact = format!("`key` is neither a public key nor a file: \"{line}\"");
        fields.cx.error(fact, &text.place, "", fields.help("key"));
        return None;
    }
    read(fields, "key", &text, path)
}

impl Key {
    /// Key files of these kinds are text.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.bytes).into_owned()
    }

    /// Returns what the lock records of this file; nothing for a key that the recipe spells out.
    pub fn recorded(&self, pinned: Option<Pinned>) -> Vec<KeyFile> {
        let file = self.file.clone().zip(pinned);
        file.map(|(file, pinned)| key_of(file, pinned))
            .into_iter()
            .collect()
    }
}

fn key_of(file: String, pinned: Pinned) -> KeyFile {
    KeyFile {
        file,
        key: pinned.key,
        digest: pinned.digest,
    }
}

/// Certificates and what they are called in words.
#[derive(Default)]
pub struct Roots {
    pub certificates: Vec<Vec<u8>>,
    pub words: Vec<String>,
    /// The files among them. Roots that come with winimg are named in the recipe and change with winimg alone.
    pub files: Vec<KeyFile>,
}

/// The pins of a certificate chain.
pub struct Chain {
    pub pins: Pins,
    pub words: String,
    pub files: Vec<KeyFile>,
}

/// `roots`: a file, the name of a shipped root, or a list of these.
fn roots(fields: &Fields<'_>, key: &str) -> Option<Roots> {
    let value = fields.get(key)?;
    let items: Vec<&Value> = match &value.data {
        Data::Array(items) => items.iter().collect(),
        _ => vec![value],
    };
    let help = shipped_help();
    if items.is_empty() {
        fields
            .cx
            .error(format!("`{key}` names no root"), &value.place, "", &help);
        return None;
    }
    let mut roots = Roots::default();
    let mut whole = true;
    for item in items {
        let Some(text) = item.as_str() else {
            let fact = format!(
                "`{key}` takes files and names of roots, not {}",
                item.kind()
            );
            if !matches!(item.data, Data::Unknown) {
                fields.cx.error(fact, &item.place, "", &help);
            }
            whole = false;
            continue;
        };
        if let Some(der) = shipped::named(text) {
            roots.certificates.push(der.to_vec());
            roots.words.push(text.to_string());
            continue;
        }
        let text = Located::new(text.to_string(), item.place.clone());
        match root_file(fields, key, item, &text, &help) {
            Some((certificates, words)) => {
                let pinned = pinned::certificates(&certificates);
                roots.files.push(key_of(text.value.clone(), pinned));
                roots.certificates.extend(certificates);
                roots.words.push(words);
            }
            None => whole = false,
        }
    }
    whole.then_some(roots)
}

fn root_file(
    fields: &Fields<'_>,
    key: &str,
    item: &Value,
    text: &Located<String>,
    help: &str,
) -> Option<(Vec<Vec<u8>>, String)> {
    let base = item.base.as_ref().unwrap_or(&item.place);
    let path = fields.cx.sources.local(base, &text.value);
    if !fields.cx.sources.is_outside(&path) && !path.exists() {
        let fact = format!(
            "\"{}\" is neither a file nor a root that winimg has",
            text.value
        );
        let help = format!("looked for {}; {help}", path.display());
        fields.cx.error(fact, &text.place, "", &help);
        return None;
    }
    let file = read(fields, key, text, path)?;
    match authenticode::certificates(&file.value.bytes) {
        Ok(certificates) => Some((certificates, file.value.words)),
        Err(why) => {
            let fact = format!("`{key}`: {} {why}", text.value);
            let help = "certificates in PEM (`-----BEGIN CERTIFICATE-----`) or one in DER";
            fields.cx.error(fact, &text.place, "", help);
            None
        }
    }
}

fn shipped_help() -> String {
    format!("winimg has {}", shipped::NAMES.join(", "))
}

/// Serial numbers of certificates that are taken although winimg lists them.
fn accepted(fields: &Fields<'_>) -> Option<Vec<String>> {
    let mut accepted = Vec::new();
    for text in fields.strings("accept_misused") {
        let mut serial = text.value.to_ascii_lowercase();
        serial.retain(|c| !matches!(c, ':' | ' '));
        if !misused::LIST.iter().any(|row| row.serial == serial) {
            let fact = format!(
                "`accept_misused` names a serial number that winimg does not list: \"{}\"",
                text.value
            );
            let help = "docs/revocation.md has the list; what is not in it needs no such line";
            fields.cx.error(fact, &text.place, "", help);
            return None;
        }
        accepted.push(serial);
    }
    Some(accepted)
}

/// Reads the pins of a certificate chain.
pub fn chain(fields: &Fields<'_>) -> Option<Chain> {
    let own = roots(fields, "roots");
    let subject = fields.string("subject");
    let subject = subject.and_then(|subject| name(fields, subject));
    let eku = fields.string("eku").and_then(|eku| oid(fields, eku));
    let issuer = fingerprint(fields, "issuer");
    let leaf = fingerprint(fields, "leaf");
    let accepted = accepted(fields);
    if fields
        .first(&["subject", "eku", "issuer", "leaf"])
        .is_none()
    {
        let fact = format!("{} names a root, but nobody below it", fields.what);
        let help = "a public root signs for thousands: add `subject = \"CN=…\"`, `eku`, `issuer` or `leaf`";
        fields.cx.missing(fact, &fields.place, help);
        return None;
    }
    let only_a_use = eku.as_deref().is_some_and(authenticode::is_common_use);
    if only_a_use && fields.first(&["subject", "issuer", "leaf"]).is_none() {
        let fact = format!(
            "{} names a root, and a use that all below it may have",
            fields.what
        );
        let help = "add `subject = \"CN=…\"`, `issuer` or `leaf`, or give the EKU that the publisher alone has";
        fields.cx.missing(fact, &fields.place, help);
        return None;
    }
    // Given and not understood: complained about.
    for (key, read) in [
        ("eku", eku.is_some()),
        ("issuer", issuer.is_some()),
        ("leaf", leaf.is_some()),
        ("subject", subject.is_some()),
    ] {
        if fields.has(key) && !read {
            return None;
        }
    }
    let own = own?;
    let accepted = accepted?;
    let mut words = Vec::new();
    if let Some(subject) = &subject {
        words.push(format!("subject {}", subject.value));
    }
    if let Some(eku) = &eku {
        words.push(format!("eku {eku}"));
    }
    if let Some(issuer) = &issuer {
        words.push(format!("issuer sha256:{}", hex::encode(issuer)));
    }
    if let Some(leaf) = &leaf {
        words.push(format!("leaf sha256:{}", hex::encode(leaf)));
    }
    words.extend(own.words.iter().map(|w| format!("root {w}")));
    let crls = fields.texts("crls");
    if !crls.is_empty() {
        words.push("crls".into());
    }
    words.extend(accepted.iter().map(|s| format!("accept misused {s}")));
    let pins = Pins {
        roots: own.certificates,
        timestamp_roots: Vec::new(),
        subject: subject.map(|s| s.value),
        eku,
        issuer,
        leaf,
        needs_lists: !crls.is_empty(),
        accepted,
    };
    Some(Chain {
        pins,
        words: words.join(", "),
        files: own.files,
    })
}

/// `timestamp_roots`; none where they are not given.
pub fn timestamp_roots(fields: &Fields<'_>) -> Option<Roots> {
    match fields.has("timestamp_roots") {
        true => roots(fields, "timestamp_roots"),
        false => Some(Roots::default()),
    }
}

/// A name as RFC 4514 writes it.
fn name(fields: &Fields<'_>, text: Located<String>) -> Option<Located<String>> {
    let Err(why) = authenticode::check_subject(&text.value) else {
        return Some(text);
    };
    let help = "attributes as RFC 4514 writes them, such as \"CN=Example Corp,O=Example Corp\"";
    fields
        .cx
        .error(format!("`subject` {why}"), &text.place, "", help);
    None
}

/// Dotted numbers.
fn oid(fields: &Fields<'_>, text: Located<String>) -> Option<String> {
    let arcs: Vec<&str> = text.value.split('.').collect();
    let right = arcs.len() >= 3
        && arcs
            .iter()
            .all(|a| !a.is_empty() && a.len() <= 12 && a.chars().all(|c| c.is_ascii_digit()));
    if right {
        return Some(text.value);
    }
    let fact = format!("`eku` is not an object identifier: \"{}\"", text.value);
    let help = "numbers with dots, such as \"1.3.6.1.4.1.311.97.…\"";
    fields.cx.error(fact, &text.place, "", help);
    None
}

/// SHA-256 of a certificate's DER.
fn fingerprint(fields: &Fields<'_>, key: &str) -> Option<[u8; 32]> {
    let text = fields.string(key)?;
    let plain: String = text.value.chars().filter(|c| !c.is_whitespace()).collect();
    // As openssl shows a fingerprint: AA:BB:…
    let plain = match plain.strip_prefix("sha256:") {
        Some(hex) => hex.to_string(),
        None => plain.replace(':', ""),
    };
    let why = match Digest::from_hex(&plain) {
        Ok(digest) if digest.algorithm == Algorithm::Sha256 => {
            return digest.bytes().try_into().ok();
        }
        Ok(_) => "is a SHA-512".to_string(),
        Err(why) => why,
    };
    let fact = format!("`{key}` {why}");
    let help = "the SHA-256 of the certificate: openssl x509 -in FILE -noout -fingerprint -sha256";
    fields.cx.error(fact, &text.place, "", help);
    None
}
