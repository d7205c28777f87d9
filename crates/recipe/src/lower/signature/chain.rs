//! The pins of a certificate chain, shared by the schemes with certificates: roots, subject, EKU,
//! digests and revocation lists.

use super::key_file::{PinnedKey, read_file};
use crate::document::value::{TomlData, TomlValue};
use crate::fields::TableReader;
use crate::lower::address::parse_address;
use crate::{FileAddress, KeyFile};
use winimg_base::digest::{Algorithm, Digest};
use winimg_base::text::Located;
use winimg_trust::authenticode::{self, CertificatePins};
use winimg_trust::{misused, pinned, roots as shipped};

/// Certificates and their descriptions.
#[derive(Default)]
struct PinnedRoots {
    certificates: Vec<Vec<u8>>,
    words: Vec<String>,
    /// The files among them. Built-in roots are named in the recipe and change only with winimg.
    files: Vec<KeyFile>,
}

/// The pins of a certificate chain.
pub struct ChainPins {
    pub pins: CertificatePins,
    pub words: String,
    pub files: Vec<KeyFile>,
    pub crls: Vec<Located<FileAddress>>,
}

/// Reads `roots`: a file, the name of a built-in root, or a list of these.
fn read_roots(fields: &TableReader<'_>, key: &str) -> Option<PinnedRoots> {
    let value = fields.get(key)?;
    let items: Vec<&TomlValue> = match &value.data {
        TomlData::Array(items) => items.iter().collect(),
        _ => vec![value],
    };
    let help = format!("built-in roots: {}", shipped::NAMES.join(", "));
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
            Some((certificates, file)) => {
                let pinned = pinned::describe_certificates(&certificates);
                roots.files.extend(file.record(Some(pinned)));
                roots.certificates.extend(certificates);
                roots.words.push(file.words);
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
) -> Option<(Vec<Vec<u8>>, PinnedKey)> {
    let base = item.base.as_ref().unwrap_or(&item.place);
    let path = fields.cx.sources.resolve_local(base, &text.value);
    if !fields.cx.sources.is_outside(&path) && !path.exists() {
        let fact = format!("\"{}\" is neither a file nor a built-in root", text.value);
        let help = format!("looked for {}; {help}", path.display());
        fields.cx.error(fact, &text.place, "", &help);
        return None;
    }
    let file = read_file(fields, key, text, path)?.value;
    match authenticode::parse_certificates(&file.bytes) {
        Ok(certificates) => Some((certificates, file)),
        Err(why) => {
            let fact = format!("`{key}`: {} {why}", text.value);
            let help = "expected certificates in PEM (`-----BEGIN CERTIFICATE-----`) or one in DER";
            fields.cx.error(fact, &text.place, "", help);
            None
        }
    }
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

/// Reads the addresses of certificate revocation lists.
fn read_crls(fields: &TableReader<'_>) -> Option<Vec<Located<FileAddress>>> {
    // Collected in two steps, so that all problems are reported at once.
    let addresses: Vec<Option<Located<FileAddress>>> = fields
        .read_strings("crls")
        .into_iter()
        .map(|text| parse_address(fields, "crls", text))
        .collect();
    addresses
        .into_iter()
        .collect::<Option<Vec<Located<FileAddress>>>>()
        .filter(|all| !all.is_empty() || !fields.has("crls"))
}

/// Reads the pins of a certificate chain, and of the chain of its timestamp if the scheme has one.
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
    let crls = read_crls(fields);
    let has_stamps = fields.has_row("timestamp_roots") && fields.has("timestamp_roots");
    let stamps = if has_stamps {
        read_roots(fields, "timestamp_roots")
    } else {
        Some(PinnedRoots::default())
    };
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
    let (own, accepted, crls, stamps) = (own?, accepted?, crls?, stamps?);
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
    if !crls.is_empty() {
        words.push("crls".into());
    }
    words.extend(accepted.iter().map(|s| format!("accept misused {s}")));
    words.extend(stamps.words.iter().map(|w| format!("timestamp root {w}")));
    let pins = CertificatePins {
        roots: own.certificates,
        timestamp_roots: stamps.certificates,
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
        files: [own.files, stamps.files].concat(),
        crls,
    })
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
