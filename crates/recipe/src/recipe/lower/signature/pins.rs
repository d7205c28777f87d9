//! Keys, roots and digests that pin a signature: strings in the recipe, and files beside it.

use std::io::ErrorKind;
use std::path::PathBuf;

use crate::recipe::KeyFile;
use crate::recipe::fields::TableReader;
use crate::recipe::sources::{OUTSIDE, OUTSIDE_HELP};
use crate::recipe::value::{TomlData, TomlValue};
use winimg_base::digest::{Algorithm, Digest};
use winimg_base::io;
use winimg_base::text::Located;
use winimg_trust::authenticode::{self, CertificatePins};
use winimg_trust::{KeyFileContent, misused, pinned, roots as shipped, short_format};

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
pub fn key_file(fields: &TableReader<'_>, key: &str) -> Option<Located<PinnedKey>> {
    let text = fields.read_string(key)?;
    let path = fields.resolve_local(key, &text);
    read(fields, key, &text, path)
}

fn read(
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
pub fn short_key(fields: &TableReader<'_>) -> Option<Located<PinnedKey>> {
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
    read(fields, "key", &text, path)
}

impl PinnedKey {
    /// Returns the key as text, for kinds whose key files are text.
    pub fn to_text(&self) -> String {
        String::from_utf8_lossy(&self.bytes).into_owned()
    }

    /// Returns the lock's record of this file; empty for an inline key.
    pub fn record(&self, pinned: Option<KeyFileContent>) -> Vec<KeyFile> {
        let file = self.file.clone().zip(pinned);
        file.map(|(file, pinned)| key_of(file, pinned))
            .into_iter()
            .collect()
    }
}

fn key_of(file: String, pinned: KeyFileContent) -> KeyFile {
    KeyFile {
        file,
        key: pinned.key,
        digest: pinned.digest,
    }
}

/// Certificates and their descriptions.
#[derive(Default)]
pub struct PinnedRoots {
    pub certificates: Vec<Vec<u8>>,
    pub words: Vec<String>,
    /// The files among them. Built-in roots are named in the recipe and change only with winimg.
    pub files: Vec<KeyFile>,
}

/// The pins of a certificate chain.
pub struct ChainPins {
    pub pins: CertificatePins,
    pub words: String,
    pub files: Vec<KeyFile>,
}

/// Reads `roots`: a file, the name of a built-in root, or a list of these.
fn read_roots(fields: &TableReader<'_>, key: &str) -> Option<PinnedRoots> {
    let value = fields.get(key)?;
    let items: Vec<&TomlValue> = match &value.data {
        TomlData::Array(items) => items.iter().collect(),
        _ => vec![value],
    };
    let help = shipped_help();
    if items.is_empty() {
        fields
            .cx
            .error(format!("`{key}` is an empty list"), &value.place, "", &help);
        return None;
    }
    let mut roots = PinnedRoots::default();
    let mut whole = true;
    for item in items {
        let Some(text) = item.as_str() else {
            let fact = format!(
                "`{key}` takes files and names of roots, not {}",
                item.kind_name()
            );
            if !matches!(item.data, TomlData::Unknown) {
                fields.cx.error(fact, &item.place, "", &help);
            }
            whole = false;
            continue;
        };
        if let Some(der) = shipped::find_root(text) {
            roots.certificates.push(der.to_vec());
            roots.words.push(text.to_string());
            continue;
        }
        let text = Located::new(text.to_string(), item.place.clone());
        match root_file(fields, key, item, &text, &help) {
            Some((certificates, words)) => {
                let pinned = pinned::describe_certificates(&certificates);
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
    fields: &TableReader<'_>,
    key: &str,
    item: &TomlValue,
    text: &Located<String>,
    help: &str,
) -> Option<(Vec<Vec<u8>>, String)> {
    let base = item.base.as_ref().unwrap_or(&item.place);
    let path = fields.cx.sources.resolve_local(base, &text.value);
    if !fields.cx.sources.is_outside(&path) && !path.exists() {
        let fact = format!("\"{}\" is neither a file nor a built-in root", text.value);
        let help = format!("looked for {}; {help}", path.display());
        fields.cx.error(fact, &text.place, "", &help);
        return None;
    }
    let file = read(fields, key, text, path)?;
    match authenticode::parse_certificates(&file.value.bytes) {
        Ok(certificates) => Some((certificates, file.value.words)),
        Err(why) => {
            let fact = format!("`{key}`: {} {why}", text.value);
            let help = "expected certificates in PEM (`-----BEGIN CERTIFICATE-----`) or one in DER";
            fields.cx.error(fact, &text.place, "", help);
            None
        }
    }
}

fn shipped_help() -> String {
    format!("built-in roots: {}", shipped::NAMES.join(", "))
}

/// Reads the serial numbers of certificates that are accepted although winimg lists them as
/// misused.
fn read_accepted(fields: &TableReader<'_>) -> Option<Vec<String>> {
    let mut accepted = Vec::new();
    for text in fields.read_strings("accept_misused") {
        let mut serial = text.value.to_ascii_lowercase();
        serial.retain(|c| !matches!(c, ':' | ' '));
        if !misused::LIST.iter().any(|row| row.serial == serial) {
            let fact = format!(
                "`accept_misused` has a serial number that is not on winimg's list: \"{}\"",
                text.value
            );
            let help = "the list is in docs/revocation.md; other certificates need no entry";
            fields.cx.error(fact, &text.place, "", help);
            return None;
        }
        accepted.push(serial);
    }
    Some(accepted)
}

/// Reads the pins of a certificate chain.
pub fn read_chain(fields: &TableReader<'_>) -> Option<ChainPins> {
    let own = read_roots(fields, "roots");
    let subject = fields
        .read_string("subject")
        .and_then(|subject| name(fields, subject));
    let eku = fields
        .read_string("eku")
        .and_then(|eku| check_oid(fields, eku));
    let issuer = read_fingerprint(fields, "issuer");
    let leaf = read_fingerprint(fields, "leaf");
    let accepted = read_accepted(fields);
    if fields
        .find_first(&["subject", "eku", "issuer", "leaf"])
        .is_none()
    {
        let fact = format!("{} accepts every certificate under its root", fields.what);
        let help = "a public root serves thousands of publishers: add `subject = \"CN=…\"`, `eku`, \
                    `issuer` or `leaf`";
        fields.cx.report_missing(fact, &fields.place, help);
        return None;
    }
    let only_a_use = eku.as_deref().is_some_and(authenticode::is_common_use);
    if only_a_use && fields.find_first(&["subject", "issuer", "leaf"]).is_none() {
        let fact = format!(
            "{} accepts every certificate under its root with a common EKU",
            fields.what
        );
        let help = "add `subject = \"CN=…\"`, `issuer` or `leaf`, or use an EKU that is specific \
                    to the publisher";
        fields.cx.report_missing(fact, &fields.place, help);
        return None;
    }
    // Present, but with an error that was reported.
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
    let crls = fields.read_texts("crls");
    if !crls.is_empty() {
        words.push("crls".into());
    }
    words.extend(accepted.iter().map(|s| format!("accept misused {s}")));
    let pins = CertificatePins {
        roots: own.certificates,
        timestamp_roots: Vec::new(),
        subject: subject.map(|s| s.value),
        eku,
        issuer,
        leaf,
        needs_lists: !crls.is_empty(),
        accepted,
    };
    Some(ChainPins {
        pins,
        words: words.join(", "),
        files: own.files,
    })
}

/// Reads `timestamp_roots`; empty if the key is absent.
pub fn timestamp_roots(fields: &TableReader<'_>) -> Option<PinnedRoots> {
    if fields.has("timestamp_roots") {
        read_roots(fields, "timestamp_roots")
    } else {
        Some(PinnedRoots::default())
    }
}

/// Checks a subject in the form of RFC 4514.
fn name(fields: &TableReader<'_>, text: Located<String>) -> Option<Located<String>> {
    let Err(why) = authenticode::check_subject(&text.value) else {
        return Some(text);
    };
    let help = "write it in the form of RFC 4514, such as \"CN=Example Corp,O=Example Corp\"";
    fields
        .cx
        .error(format!("`subject` {why}"), &text.place, "", help);
    None
}

/// Checks an object identifier: numbers separated by dots.
fn check_oid(fields: &TableReader<'_>, text: Located<String>) -> Option<String> {
    let arcs: Vec<&str> = text.value.split('.').collect();
    let right = arcs.len() >= 3
        && arcs
            .iter()
            .all(|a| !a.is_empty() && a.len() <= 12 && a.chars().all(|c| c.is_ascii_digit()));
    if right {
        return Some(text.value);
    }
    let fact = format!("`eku` is not an object identifier: \"{}\"", text.value);
    let help = "write numbers separated by dots, such as \"1.3.6.1.4.1.311.97.…\"";
    fields.cx.error(fact, &text.place, "", help);
    None
}

/// Reads the SHA-256 of a certificate's DER.
fn read_fingerprint(fields: &TableReader<'_>, key: &str) -> Option<[u8; 32]> {
    let text = fields.read_string(key)?;
    let plain: String = text.value.chars().filter(|c| !c.is_whitespace()).collect();
    // openssl prints fingerprints as AA:BB:…
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
    let help = "write the SHA-256 of the certificate: openssl x509 -in FILE -noout -fingerprint \
                -sha256";
    fields.cx.error(fact, &text.place, "", help);
    None
}
