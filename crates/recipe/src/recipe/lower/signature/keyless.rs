//! Keyless signatures: an identity and who vouched for it, by a bundle, by loose parts, or by an attestation.
//!
//! Refuses an identity without an issuer, and a GitHub workflow without the repository that has to have run it.

use url::Url;

use super::pins::{self, Key};
use super::plain;
use super::{Signed, address, beside};
use crate::recipe::fields::Fields;
use crate::recipe::{Address, KeyFile, Signature};
use winimg_base::text::Located;
use winimg_trust::{self, pinned, sigstore};

const GITHUB_ISSUER: &str = "https://token.actions.githubusercontent.com";

/// Who has to have signed.
struct Who {
    identity: String,
    issuer: String,
    /// `owner/name` on GitHub that has to have run the workflow.
    repository: Option<String>,
}

pub fn signature(fields: &Fields<'_>, signed: &Signed<'_>) -> Option<Signature> {
    let identity = fields.string("identity");
    let issuer = fields.string("issuer");
    let root = trusted_root(fields);
    let is_loose = fields.has("certificate");
    let suffix = if is_loose { ".sig" } else { ".sigstore.json" };
    let url = beside(fields, "url", signed, suffix);
    let certificate = match is_loose {
        true => beside(fields, "certificate", signed, ""),
        false => None,
    };
    let log = is_loose.then(|| log_url(fields)).flatten();
    if is_loose && (certificate.is_none() || log.is_none()) {
        return None;
    }
    if !is_loose && fields.has("log") {
        let fact = "`log` is for a signature with a `certificate`; a bundle holds its entry";
        fields.cx.error(fact, &fields.place, "", "");
        return None;
    }
    let who = Who {
        identity: identity?.value,
        issuer: issuer?.value,
        repository: None,
    };
    let root = root?;
    let keys = recorded(root.as_ref());
    let (rule, words) = rule(fields, &who, None, root)?;
    Some(Signature {
        url: Some(url?),
        certificate,
        log,
        keys,
        ..plain(fields, rule, words)
    })
}

fn log_url(fields: &Fields<'_>) -> Option<Located<Url>> {
    fields.need("log", fields.help("log"));
    let url = fields.string("log")?;
    let url = address(fields, "log", url)?;
    if let Address::Remote(log) = url.value {
        return Some(Located::new(log, url.place));
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

pub fn attestation(fields: &Fields<'_>, signed: &Signed<'_>) -> Option<Signature> {
    let by_workflow = ["repository", "workflow", "ref"]
        .iter()
        .any(|k| fields.has(k));
    let who = match by_workflow {
        true => workflow(fields),
        false => {
            let help = "write `repository`, `workflow` and `ref` of the GitHub workflow, or `identity` and `issuer`";
            fields.need("identity", help);
            fields.need("issuer", help);
            let (identity, issuer) = (fields.string("identity"), fields.string("issuer"));
            identity.zip(issuer).map(|(identity, issuer)| Who {
                identity: identity.value,
                issuer: issuer.value,
                repository: None,
            })
        }
    };
    let predicate = fields.text("predicate");
    let root = trusted_root(fields);
    let url = fields
        .has("url")
        .then(|| beside(fields, "url", signed, ""))
        .flatten();
    let root = root?;
    let keys = recorded(root.as_ref());
    let (rule, words) = rule(fields, &who?, Some(&predicate?), root)?;
    Some(Signature {
        url: Some(url?),
        keys,
        ..plain(fields, rule, words)
    })
}

/// The identity that GitHub's workflows sign under, and the repository that has to have run this one: a reusable workflow
/// signs under one identity for whoever calls it.
fn workflow(fields: &Fields<'_>) -> Option<Who> {
    let help = "`repository = \"owner/name\"`, `workflow = \".github/workflows/release.yml\"` and `ref = \"refs/tags/v1\"` go together";
    for key in ["repository", "workflow", "ref"] {
        fields.need(key, help);
    }
    let repository = fields.string("repository");
    let workflow = fields.string("workflow");
    let reference = fields.string("ref");
    if let Some(other) = fields.first(&["identity", "issuer"]) {
        let fact = format!("{} has both `repository` and `{}`", fields.what, other.key);
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
    Some(Who {
        identity,
        issuer: GITHUB_ISSUER.to_string(),
        repository: Some(repository.value),
    })
}

fn rule(
    fields: &Fields<'_>,
    who: &Who,
    predicate: Option<&str>,
    root: Option<Located<Key>>,
) -> Option<(winimg_trust::Rule, String)> {
    let bytes = root.as_ref().map(|r| r.value.bytes.as_slice());
    let bytes = bytes.or(fields.cx.sources.sigstore_root.as_deref());
    let mut rule = match sigstore::Rule::new(&who.identity, &who.issuer, predicate, bytes) {
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
    Some((winimg_trust::Rule::Sigstore(rule), words))
}

/// Returns what the lock records of the trust root's file.
fn recorded(root: Option<&Located<Key>>) -> Vec<KeyFile> {
    root.map_or_else(Vec::new, |root| {
        root.value.recorded(pinned::trusted_root(&root.value.bytes))
    })
}

/// `trusted_root`, where it is given. The outer `None`: it was complained about.
fn trusted_root(fields: &Fields<'_>) -> Option<Option<Located<Key>>> {
    match fields.has("trusted_root") {
        true => Some(Some(pins::key_file(fields, "trusted_root")?)),
        false => Some(None),
    }
}
