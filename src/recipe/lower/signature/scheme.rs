//! One signature's table: its kind, and the keys of that kind.

use super::pins::{self, Key};
use super::{Signed, beside};
use crate::recipe::Signature;
use crate::recipe::fields::Fields;
use crate::text::Located;
use crate::trust::{self, authenticode, cms, cosign, minisign, openpgp, signify, sigstore};

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Openpgp,
    Minisign,
    Signify,
    Cosign,
    Sigstore,
    Attestation,
    Authenticode,
    Cms,
    None,
}

const KINDS: &[(&str, Kind)] = &[
    ("openpgp", Kind::Openpgp),
    ("minisign", Kind::Minisign),
    ("signify", Kind::Signify),
    ("cosign", Kind::Cosign),
    ("sigstore", Kind::Sigstore),
    ("attestation", Kind::Attestation),
    ("authenticode", Kind::Authenticode),
    ("cms", Kind::Cms),
    ("none", Kind::None),
];

const SLSA: &str = "https://slsa.dev/provenance/v1";
const GITHUB_ISSUER: &str = "https://token.actions.githubusercontent.com";

pub fn signature(fields: &Fields<'_>, signed: &Signed<'_>) -> Option<Signature> {
    let help = "it is one of: openpgp, minisign, signify, cosign, sigstore, attestation, authenticode, cms, none";
    fields.need("kind", help);
    let kind = fields.choice("kind", KINDS)?;
    let read = match kind.value {
        Kind::Openpgp => openpgp(fields, signed),
        Kind::Minisign => minisign(fields, signed),
        Kind::Signify => signify(fields, signed),
        Kind::Cosign => cosign(fields, signed),
        Kind::Sigstore => keyless(fields, signed),
        Kind::Attestation => attestation(fields, signed),
        Kind::Authenticode => authenticode(fields, signed),
        Kind::Cms => cms(fields, signed),
        Kind::None => {
            let fact = "`none` is no signature that could be met";
            let help = "it stands alone: `signature = { kind = \"none\", reason = \"…\" }`";
            fields.cx.error(fact, &kind.place, "", help);
            return None;
        }
    };
    fields.finish();
    if signed.is_checksum_file && kind.value == Kind::Authenticode {
        let fact = "a checksum file has no place for an Authenticode signature";
        fields
            .cx
            .error(fact, &kind.place, "", "take `cms` for a detached one");
        return None;
    }
    read
}

/// A signature of which only rule and words are known.
fn plain(fields: &Fields<'_>, rule: trust::Rule, words: String) -> Signature {
    Signature {
        place: fields.place.clone(),
        rule,
        words,
        url: None,
        certificate: None,
        log: None,
        members: Vec::new(),
    }
}

/// The rule, or a complaint at the key that it was made from.
fn made<T>(
    fields: &Fields<'_>,
    rule: Result<T, String>,
    key: &Located<Key>,
    what: &str,
) -> Option<T> {
    match rule {
        Ok(rule) => Some(rule),
        Err(why) => {
            let fact = format!("{what} of {} {why}", fields.what);
            fields.cx.error(fact, &key.place, "", "");
            None
        }
    }
}

fn openpgp(fields: &Fields<'_>, signed: &Signed<'_>) -> Option<Signature> {
    let key = pins::key_file(
        fields,
        "key",
        "write `key = \"keys/publisher.asc\"`: the publisher's public key",
    );
    let help = "write `fingerprints = [\"…\"]`: all digits of the primary key's fingerprint, as `gpg --fingerprint` shows it";
    fields.need("fingerprints", help);
    let fingerprints = fields.texts("fingerprints");
    if fields.has("fingerprints") && fingerprints.is_empty() {
        let fact = format!("{} pins no key", fields.what);
        fields.cx.error(fact, &fields.place, "", help);
        return None;
    }
    let is_clear = signed.is_checksum_file
        && fields
            .choice("form", &[("detached", false), ("clearsigned", true)])
            .is_some_and(|f| f.value);
    if is_clear && fields.has("url") {
        fields.get("url");
        let fact = "a clearsigned file holds its own signature";
        fields.cx.error(fact, &fields.place, "", "take `url` out");
        return None;
    }
    let url = match is_clear {
        true => None,
        false => Some(beside(fields, "url", signed, ".asc")?),
    };
    let key = key?;
    if fingerprints.is_empty() {
        return None;
    }
    let rule = openpgp::Rule::new(&key.value.bytes, &fingerprints);
    let rule = made(fields, rule, &key, "the OpenPGP key")?;
    let form = if is_clear { ", clearsigned" } else { "" };
    let words = format!(
        "openpgp{form}, key {} of {}",
        fingerprints.join(" or "),
        key.value.words
    );
    Some(Signature {
        url,
        ..plain(fields, trust::Rule::Openpgp(rule), words)
    })
}

fn minisign(fields: &Fields<'_>, signed: &Signed<'_>) -> Option<Signature> {
    let key = pins::short_key(fields);
    let url = beside(fields, "url", signed, ".minisig");
    let key = key?;
    let rule = made(
        fields,
        minisign::Rule::new(&key.value.text()),
        &key,
        "the key",
    )?;
    let words = format!("minisign, key {}", key.value.words);
    Some(Signature {
        url: Some(url?),
        ..plain(fields, trust::Rule::Minisign(rule), words)
    })
}

fn signify(fields: &Fields<'_>, signed: &Signed<'_>) -> Option<Signature> {
    let key = pins::short_key(fields);
    let url = beside(fields, "url", signed, ".sig");
    let key = key?;
    let rule = made(
        fields,
        signify::Rule::new(&key.value.text()),
        &key,
        "the key",
    )?;
    let words = format!("signify, key {}", key.value.words);
    Some(Signature {
        url: Some(url?),
        ..plain(fields, trust::Rule::Signify(rule), words)
    })
}

fn cosign(fields: &Fields<'_>, signed: &Signed<'_>) -> Option<Signature> {
    let key = pins::key_file(fields, "key", "write `key = \"keys/cosign.pub\"`");
    let url = beside(fields, "url", signed, ".sig");
    let key = key?;
    let rule = made(
        fields,
        cosign::Rule::new(&key.value.text()),
        &key,
        "the key",
    )?;
    let words = format!("cosign, key {}", key.value.words);
    Some(Signature {
        url: Some(url?),
        ..plain(fields, trust::Rule::Cosign(rule), words)
    })
}

/// `trusted_root`, where it is given. The outer `None`: it was complained about.
fn trusted_root(fields: &Fields<'_>) -> Option<Option<Located<Key>>> {
    match fields.has("trusted_root") {
        true => Some(Some(pins::key_file(fields, "trusted_root", "")?)),
        false => {
            fields.get("trusted_root");
            Some(None)
        }
    }
}

fn sigstore_rule(
    fields: &Fields<'_>,
    identity: &str,
    issuer: &str,
    predicate: Option<&str>,
    root: Option<Located<Key>>,
) -> Option<(trust::Rule, String)> {
    let bytes = root.as_ref().map(|r| r.value.bytes.as_slice());
    let rule = match sigstore::Rule::new(identity, issuer, predicate, bytes) {
        Ok(rule) => rule,
        Err(why) => {
            let fact = format!("the trust root of {} {why}", fields.what);
            let place = root.as_ref().map_or(&fields.place, |r| &r.place);
            fields.cx.error(fact, place, "", "");
            return None;
        }
    };
    let mut words = match predicate {
        Some(predicate) => format!("attestation {predicate}"),
        None => "sigstore".to_string(),
    };
    words.push_str(&format!(", identity {identity} of issuer {issuer}"));
    if let Some(root) = &root {
        words.push_str(&format!(", trust root {}", root.value.words));
    }
    Some((trust::Rule::Sigstore(rule), words))
}

fn keyless(fields: &Fields<'_>, signed: &Signed<'_>) -> Option<Signature> {
    let identity = fields.needed_string(
        "identity",
        "write `identity = \"…\"`: the e-mail address or workflow that signs",
    );
    let issuer = fields.needed_string(
        "issuer",
        "write `issuer = \"https://…\"`: who vouched for the identity",
    );
    let root = trusted_root(fields);
    let is_loose = fields.has("certificate");
    let suffix = if is_loose { ".sig" } else { ".sigstore.json" };
    let url = beside(fields, "url", signed, suffix);
    let mut certificate = None;
    let mut log = None;
    if is_loose {
        certificate = Some(beside(fields, "certificate", signed, "")?);
        let help = "write `log = \"https://rekor.sigstore.dev\"`: such a signature is worth nothing without the log's entry";
        log = Some(log_url(fields, help)?);
    } else {
        fields.get("certificate");
        if fields.has("log") {
            fields.get("log");
            let fact =
                "`log` is asked about a signature with a `certificate`; a bundle holds its entry";
            fields.cx.error(fact, &fields.place, "", "");
            return None;
        }
        fields.get("log");
    }
    let (identity, issuer) = (identity?.value, issuer?.value);
    let (rule, words) = sigstore_rule(fields, &identity, &issuer, None, root?)?;
    Some(Signature {
        url: Some(url?),
        certificate,
        log,
        ..plain(fields, rule, words)
    })
}

fn log_url(fields: &Fields<'_>, help: &str) -> Option<Located<String>> {
    let url = fields.needed_string("log", help)?;
    let url = super::address(fields, "log", url)?;
    if url.value.starts_with("https://") || url.value.starts_with("http://") {
        return Some(url);
    }
    let fact = "`log` is not the address of a transparency log";
    fields.cx.error(
        fact,
        &url.place,
        "",
        "such as \"https://rekor.sigstore.dev\"",
    );
    None
}

fn attestation(fields: &Fields<'_>, signed: &Signed<'_>) -> Option<Signature> {
    let by_workflow = ["repository", "workflow", "ref"]
        .iter()
        .any(|k| fields.has(k));
    let who = match by_workflow {
        true => workflow(fields),
        false => {
            let help = "write `repository`, `workflow` and `ref` of the GitHub workflow, or `identity` and `issuer`";
            let identity = fields.needed_string("identity", help);
            let issuer = fields.needed_string("issuer", help);
            for key in ["repository", "workflow", "ref"] {
                fields.get(key);
            }
            identity.zip(issuer).map(|(id, by)| (id.value, by.value))
        }
    };
    let predicate = fields.needed_if_given("predicate");
    if fields.has("predicate") && predicate.is_none() {
        return None;
    }
    let root = trusted_root(fields);
    let help = "write `url = \"https://…\"`: the attestation, a Sigstore bundle or a file with one in each line";
    fields.need("url", help);
    let url = fields
        .has("url")
        .then(|| beside(fields, "url", signed, ""))
        .flatten();
    let predicate = predicate.map_or_else(|| SLSA.to_string(), |p| p.value);
    let (identity, issuer) = who?;
    let (rule, words) = sigstore_rule(fields, &identity, &issuer, Some(&predicate), root?)?;
    Some(Signature {
        url: Some(url?),
        ..plain(fields, rule, words)
    })
}

/// The identity that GitHub's workflows sign under.
fn workflow(fields: &Fields<'_>) -> Option<(String, String)> {
    let help = "`repository = \"owner/name\"`, `workflow = \".github/workflows/release.yml\"` and `ref = \"refs/tags/v1\"` go together";
    let repository = fields.needed_string("repository", help);
    let workflow = fields.needed_string("workflow", help);
    let reference = fields.needed_string("ref", help);
    fields.get("issuer");
    let named = ["identity", "issuer"].into_iter().find(|k| fields.has(k));
    if let Some(key) = named {
        fields.get("identity");
        let fact = format!("{} has both `repository` and `{key}`", fields.what);
        fields.cx.error(
            fact,
            &fields.place,
            "",
            "keep one of the two ways to say who signs",
        );
        return None;
    }
    let (repository, workflow, reference) = (repository?, workflow?, reference?);
    let parts: Vec<&str> = repository.value.split('/').collect();
    let plain = |part: &&str| {
        !part.is_empty()
            && part
                .chars()
                .all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c))
    };
    if parts.len() != 2 || !parts.iter().all(plain) {
        let fact = format!(
            "`repository` is not an owner and a name: \"{}\"",
            repository.value
        );
        fields.cx.error(
            fact,
            &repository.place,
            "",
            "such as \"containerd/containerd\"",
        );
        return None;
    }
    if !reference.value.starts_with("refs/") {
        let fact = format!("`ref` is not a whole reference: \"{}\"", reference.value);
        fields
            .cx
            .error(fact, &reference.place, "", "such as \"refs/tags/v1.2.3\"");
        return None;
    }
    let path = workflow.value.trim_start_matches('/');
    let identity = format!(
        "https://github.com/{}/{path}@{}",
        repository.value, reference.value
    );
    Some((identity, GITHUB_ISSUER.to_string()))
}

fn authenticode(fields: &Fields<'_>, signed: &Signed<'_>) -> Option<Signature> {
    let chain = pins::chain(fields);
    let stamp = match fields.has("timestamp") {
        true => fields
            .choice("timestamp", &[("required", true), ("optional", false)])
            .map(|t| t.value),
        false => {
            fields.get("timestamp");
            Some(true)
        }
    };
    let catalog = match fields.has("catalog") {
        true => Some(beside(fields, "catalog", signed, "")?),
        false => {
            fields.get("catalog");
            None
        }
    };
    let members = members(fields, signed);
    let (mut pins, mut words) = chain?;
    pins::timestamp_roots(fields, &mut pins, &mut words)?;
    let needs_timestamp = stamp?;
    let members = members?;
    let mut whole = format!("authenticode, {words}");
    if !needs_timestamp {
        whole.push_str(", timestamp optional");
    }
    if catalog.is_some() {
        whole.push_str(", by catalog");
    }
    if !members.is_empty() {
        whole.push_str(&format!(", members {}", members.join(" ")));
    }
    let rule = authenticode::Rule {
        pins,
        needs_timestamp,
    };
    Some(Signature {
        url: catalog,
        members,
        ..plain(fields, trust::Rule::Authenticode(rule), whole)
    })
}

/// Patterns over the paths in an archive.
fn members(fields: &Fields<'_>, signed: &Signed<'_>) -> Option<Vec<String>> {
    let texts = fields.strings("members");
    let complain = |fact: &str, place, help: &str| fields.cx.error(fact, place, "", help);
    if fields.has("members") && texts.is_empty() {
        let help = "patterns over the paths in the archive: `members = [\"**/*.exe\"]`";
        complain("`members` names nothing", &fields.place, help);
        return None;
    }
    if let (Some(first), None) = (texts.first(), signed.archive) {
        let fact = "`members` are files of an archive, and nothing says that this is one";
        let help = "only a component with `unpack = \"zip\"` (or \"tar.gz\" …) has members";
        complain(fact, &first.place, help);
        return None;
    }
    let mut right = true;
    for text in &texts {
        if let Err(e) = glob::Pattern::new(&text.value) {
            let fact = format!(
                "`members` has a pattern that is none: \"{}\": {}",
                text.value, e.msg
            );
            complain(&fact, &text.place, "`*` within a folder, `**` over folders");
            right = false;
        }
    }
    right.then(|| texts.into_iter().map(|t| t.value).collect())
}

fn cms(fields: &Fields<'_>, signed: &Signed<'_>) -> Option<Signature> {
    let chain = pins::chain(fields);
    let url = beside(fields, "url", signed, ".p7s");
    let (pins, words) = chain?;
    let rule = cms::Rule { pins };
    Some(Signature {
        url: Some(url?),
        ..plain(fields, trust::Rule::Cms(rule), format!("cms, {words}"))
    })
}
