//! Keyless signatures: an identity and its issuer, in a bundle, separate files, or an attestation.
//!
//! Refuses an identity without an issuer, and a GitHub workflow without its repository.

use url::Url;

use super::key_file::{PinnedKey, read_key_file};
use super::{SignedFile, address_beside, make_signature, parse_address};
use crate::fields::{ReportedError, TableReader};
use crate::{FileAddress, KeyFile, SignatureSpec};
use winimg_base::text::Located;
use winimg_trust::{Scheme, SignatureRule, pinned, sigstore};

/// Suffix of a signature that is not a bundle.
const LOOSE_SUFFIX: &str = ".sig";

const GITHUB_ISSUER: &str = "https://token.actions.githubusercontent.com";

/// The required signer.
struct KeylessIdentity {
    identity: String,
    issuer: String,
    /// `owner/name` of the GitHub repository that must have run the workflow.
    repository: Option<String>,
}

pub fn read_keyless(fields: &TableReader<'_>, signed: &SignedFile<'_>) -> Option<SignatureSpec> {
    let identity = fields.read_string("identity");
    let issuer = fields.read_string("issuer");
    let root = trusted_root(fields);
    let is_loose = fields.has("certificate");
    let suffix = if is_loose {
        Some(LOOSE_SUFFIX)
    } else {
        Scheme::Sigstore.signature_suffix()
    };
    let url = address_beside(fields, "url", signed, suffix);
    let certificate = address_beside(fields, "certificate", signed, None);
    let log = is_loose.then(|| log_url(fields)).flatten();
    if is_loose && (certificate.is_none() || log.is_none()) {
        return None;
    }
    if !is_loose && fields.has("log") {
        let fact = "`log` is for a signature with a `certificate`; a bundle contains its log entry";
        fields.cx.error(fact, &fields.place, "", "");
        return None;
    }
    let who = KeylessIdentity {
        identity: identity?.value,
        issuer: issuer?.value,
        repository: None,
    };
    let root = root.ok()?;
    let keys = record_root(root.as_ref());
    let (rule, words) = make_rule(fields, &who, None, root)?;
    Some(SignatureSpec {
        url: Some(url?),
        certificate,
        log,
        keys,
        ..make_signature(fields, rule, words)
    })
}

fn log_url(fields: &TableReader<'_>) -> Option<Located<Url>> {
    fields.require("log", fields.help("log"));
    let url = fields.read_string("log")?;
    let url = parse_address(fields, "log", url)?;
    if let FileAddress::Remote(log) = url.value {
        return Some(Located::new(log, url.place));
    }
    let fact = "`log` is not the URL of a transparency log";
    fields.cx.error(
        fact,
        &url.place,
        "",
        "such as \"https://rekor.sigstore.dev\"",
    );
    None
}

pub fn read_attestation(
    fields: &TableReader<'_>,
    signed: &SignedFile<'_>,
) -> Option<SignatureSpec> {
    let by_workflow = ["repository", "workflow", "ref"]
        .iter()
        .any(|k| fields.has(k));
    let who = if by_workflow {
        read_workflow(fields)
    } else {
        let help = "write `repository`, `workflow` and `ref` of the GitHub workflow, or \
                    `identity` and `issuer`";
        fields.require("identity", help);
        fields.require("issuer", help);
        let (identity, issuer) = (fields.read_string("identity"), fields.read_string("issuer"));
        identity
            .zip(issuer)
            .map(|(identity, issuer)| KeylessIdentity {
                identity: identity.value,
                issuer: issuer.value,
                repository: None,
            })
    };
    let predicate = fields.read_text("predicate");
    let root = trusted_root(fields);
    let url = address_beside(fields, "url", signed, None);
    let root = root.ok()?;
    let keys = record_root(root.as_ref());
    let (rule, words) = make_rule(fields, &who?, Some(&predicate?), root)?;
    Some(SignatureSpec {
        url: Some(url?),
        keys,
        ..make_signature(fields, rule, words)
    })
}

/// Reads the identity of a GitHub workflow, and the repository that must have run it: a reusable
/// workflow signs under the same identity for all its callers.
fn read_workflow(fields: &TableReader<'_>) -> Option<KeylessIdentity> {
    let help = "`repository = \"owner/name\"`, `workflow = \".github/workflows/release.yml\"` and \
                `ref = \"refs/tags/v1\"` go together";
    for key in ["repository", "workflow", "ref"] {
        fields.require(key, help);
    }
    let repository = fields.read_string("repository");
    let workflow = fields.read_string("workflow");
    let reference = fields.read_string("ref");
    if let Some(other) = fields.find_first(&["identity", "issuer"]) {
        let fact = format!("{} has both `repository` and `{}`", fields.what, other.key);
        fields.cx.error(
            fact,
            &fields.place,
            "",
            "keep one of the two ways to name the signer",
        );
        return None;
    }
    let (repository, workflow, reference) = (repository?, workflow?, reference?);
    let parts: Vec<&str> = repository.value.split('/').collect();
    let is_plain = parts.iter().all(|part| {
        !part.is_empty()
            && part
                .chars()
                .all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c))
    });
    if parts.len() != 2 || !is_plain {
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
        let fact = format!("`ref` is not a full reference: \"{}\"", reference.value);
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
    Some(KeylessIdentity {
        identity,
        issuer: GITHUB_ISSUER.to_string(),
        repository: Some(repository.value),
    })
}

fn make_rule(
    fields: &TableReader<'_>,
    who: &KeylessIdentity,
    predicate: Option<&str>,
    root: Option<Located<PinnedKey>>,
) -> Option<(SignatureRule, String)> {
    let bytes = root.as_ref().map(|r| r.value.bytes.as_slice());
    let bytes = bytes.or(fields.cx.sources.sigstore_root.as_deref());
    let mut rule = match sigstore::SigstoreRule::new(&who.identity, &who.issuer, predicate, bytes) {
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
    words.push_str(&format!(
        ", identity {} of issuer {}",
        who.identity, who.issuer
    ));
    if let Some(repository) = &who.repository {
        rule = rule.of_repository(repository);
        words.push_str(&format!(", run by {repository}"));
    }
    if let Some(root) = &root {
        words.push_str(&format!(", trust root {}", root.value.words));
    }
    Some((SignatureRule::Sigstore(rule), words))
}

/// Returns the lock's record of the trust root's file.
fn record_root(root: Option<&Located<PinnedKey>>) -> Vec<KeyFile> {
    root.map_or_else(Vec::new, |root| {
        root.value.record(pinned::trusted_root(&root.value.bytes))
    })
}

/// Reads `trusted_root`, if it is present.
fn trusted_root(fields: &TableReader<'_>) -> Result<Option<Located<PinnedKey>>, ReportedError> {
    if fields.has("trusted_root") {
        let root = read_key_file(fields, "trusted_root");
        root.map(Some).ok_or(ReportedError)
    } else {
        Ok(None)
    }
}
