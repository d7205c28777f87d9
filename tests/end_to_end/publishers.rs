//! Stand-ins signed as their publishers sign: who has to sign, and how, is what the shipped recipe says. Only the roots are others,
//! for nobody here has the publishers' keys, and Rekor is a server of the test.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use support::server::{Answer, Server};
use support::tree::root;
use winimg_recipe::{ComponentSpec, Recipe, SignatureScope, SignatureSpec};
use winimg_trust::{SignatureRule, authenticode, sigstore};

use super::program::output_of;

/// When programs were signed, in seconds since 1970: the clock's word.
const SIGNED_AT: &str = "1767225600";

/// The authorities of one recipe, below one folder.
pub struct Publishers {
    folder: PathBuf,
    log: Log,
}

/// A transparency log: what it answers at each path.
#[derive(Clone)]
pub struct Log {
    answers: Arc<Mutex<BTreeMap<String, Vec<u8>>>>,
    server: Arc<Server>,
}

impl Log {
    pub fn start() -> Self {
        let answers: Arc<Mutex<BTreeMap<String, Vec<u8>>>> = Arc::default();
        let known = Arc::clone(&answers);
        let server =
            Server::start(
                move |asked| match known.lock().expect("answers").get(&asked.path) {
                    Some(answer) => Answer::new("200 OK", &[], answer.clone()),
                    None => Answer::new("404 Not Found", &[], Vec::new()),
                },
            );
        Self {
            answers,
            server: Arc::new(server),
        }
    }

    /// The address of a log that has this entry alone, which an answer holds under its ID. Recipes that are built side by side
    /// have the same programs, and sign them anew.
    fn with(&self, name: &str, entry: &str) -> String {
        let answer: serde_json::Value = serde_json::from_str(entry).expect("JSON");
        let id = answer.as_object().and_then(|answer| answer.keys().next());
        let id = id.expect("an entry's ID");
        let mut answers = self.answers.lock().expect("answers");
        let log = format!("/{}/{name}", answers.len());
        let index = format!("{log}/api/v1/index/retrieve");
        answers.insert(index, format!("[\"{id}\"]").into());
        let of_it = format!("{log}/api/v1/log/entries/{id}");
        answers.insert(of_it, entry.as_bytes().to_vec());
        self.server.url(&log)
    }
}

impl Publishers {
    pub fn new(folder: &Path, log: &Log) -> Self {
        output_of(text(&root().join("tests/record/venv.sh")), &[]);
        Self {
            folder: folder.join("publishers"),
            log: log.clone(),
        }
    }

    /// Signs a file, if the component's publisher signs it; `path` is its place in an archive.
    pub fn sign(&self, component: &ComponentSpec, file: &Path, path: Option<&str>) {
        for signature in firsts(component) {
            let is_of_it = match path {
                None => signature.covers == SignatureScope::File,
                Some(path) => members(signature)
                    .iter()
                    .any(|member| matches(member, path)),
            };
            if let (SignatureRule::Authenticode(rule), true) = (&signature.rule, is_of_it) {
                self.authenticode(rule, file);
            }
        }
    }

    fn authority(&self, rule: &authenticode::AuthenticodeRule) -> PathBuf {
        let subject = rule.pins.subject.as_deref().expect("a subject");
        let name: String = subject.chars().filter(|c| c.is_alphanumeric()).collect();
        let folder = self.folder.join(name);
        if !folder.exists() {
            python(&["authority", text(&folder), subject]);
        }
        folder
    }

    fn authenticode(&self, rule: &authenticode::AuthenticodeRule, file: &Path) {
        let ca = self.authority(rule);
        let at = |name: &str| ca.join(name).display().to_string();
        let signed = file.with_extension("signed");
        let mut words = vec!["sign".to_owned(), "-h".into(), "sha256".into()];
        if rule.needs_extended && file.extension().is_some_and(|e| e == "msi") {
            words.push("-add-msi-dse".into());
        }
        for (option, value) in [
            ("-certs", at("signer.pem")),
            ("-key", at("signer.key")),
            ("-TSA-certs", at("clock.pem")),
            ("-TSA-key", at("clock.key")),
            ("-TSA-time", SIGNED_AT.into()),
            ("-in", file.display().to_string()),
            ("-out", signed.display().to_string()),
        ] {
            words.extend([option.to_owned(), value]);
        }
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        output_of("osslsigncode", &words);
        fs::rename(signed, file).expect("the signed file");
    }

    /// The recipe's table for the whole file: what the shipped recipe asks, below the authorities here. The detached ones are made.
    pub fn table(&self, component: &ComponentSpec, file: &Path) -> String {
        let groups = component.origin.signatures.iter();
        let groups = groups.map(|group| {
            let tables: Vec<String> = group.iter().map(|one| self.one(one, file)).collect();
            match tables.as_slice() {
                [one] => one.clone(),
                any => format!("{{ any = [{}] }}", any.join(", ")),
            }
        });
        let groups: Vec<String> = groups.collect();
        if groups.is_empty() {
            String::new()
        } else {
            format!("signature = [{}]\n", groups.join(", "))
        }
    }

    fn one(&self, signature: &SignatureSpec, file: &Path) -> String {
        match &signature.rule {
            SignatureRule::Authenticode(rule) => {
                let roots = self.authority(rule).join("root.pem");
                let subject = rule.pins.subject.as_deref().expect("a subject");
                let extended = if rule.needs_extended {
                    "required"
                } else {
                    "optional"
                };
                let timestamp = if rule.needs_timestamp {
                    "required"
                } else {
                    "optional"
                };
                let members = match members(signature) {
                    [] => String::new(),
                    members => format!(", members = {members:?}"),
                };
                format!(
                    "{{ kind = \"authenticode\", roots = {roots:?}, subject = {subject:?}, timestamp = \"{timestamp}\", extended = \"{extended}\"{members} }}"
                )
            }
            SignatureRule::Sigstore(rule) => self.keyless(rule, file),
            other => panic!("{}: no stand-in signs so", other.scheme()),
        }
    }

    fn keyless(&self, rule: &sigstore::SigstoreRule, file: &Path) -> String {
        let (identity, issuer) = (rule.identity.as_str(), rule.issuer.as_str());
        let folder = text(&self.folder);
        let trusted = self.folder.join("trusted_root.json");
        let Some(predicate) = &rule.attestation else {
            python(&["keyless", folder, text(file), identity, issuer]);
            let entry = beside(file, ".entry.json");
            let entry = fs::read_to_string(entry).expect("Rekor's entry");
            let name = file.file_name().expect("a name").to_string_lossy();
            let log = self.log.with(&name, &entry);
            return format!(
                "{{ kind = \"sigstore\", identity = {identity:?}, issuer = {issuer:?}, certificate = {:?}, log = {log:?}, trusted_root = {trusted:?} }}",
                beside(file, ".cert")
            );
        };
        // https://github.com/OWNER/NAME/PATH@REF
        let rest = identity.strip_prefix("https://github.com/");
        let (path, reference) = rest.and_then(|rest| rest.split_once('@')).expect(identity);
        let (repository, workflow) = path.split_once("/.github/").expect(identity);
        python(&[
            "attest",
            folder,
            text(file),
            identity,
            issuer,
            repository,
            predicate,
        ]);
        format!(
            "{{ kind = \"attestation\", repository = {repository:?}, workflow = \".github/{workflow}\", ref = {reference:?}, predicate = {predicate:?}, url = {:?}, trusted_root = {trusted:?} }}",
            beside(file, ".intoto.jsonl")
        )
    }
}

/// Nothing is asked of the stand-ins but what the shipped recipe asks of its publishers, below other roots.
pub fn same_but_for_roots(shipped: &Recipe, own: &Recipe) {
    for component in &shipped.components {
        let name = &component.name.value;
        let other = own
            .components
            .iter()
            .find(|other| other.name.value == *name);
        let other = other.unwrap_or_else(|| panic!("no {name}"));
        assert_eq!(asked(component), asked(other), "{name}");
    }
}

fn asked(component: &ComponentSpec) -> Vec<Vec<String>> {
    let groups = component.origin.signatures.iter();
    groups
        .map(|group| group.iter().map(|one| without_roots(&one.words)).collect())
        .collect()
}

fn without_roots(words: &str) -> String {
    let parts = words.split(", ");
    let kept = parts.filter(|part| {
        let roots = ["root ", "timestamp root ", "trust root "];
        !roots.iter().any(|root| part.starts_with(root))
    });
    kept.collect::<Vec<_>>().join(", ")
}

/// Of each signature that is asked for the first alternative.
fn firsts(component: &ComponentSpec) -> impl Iterator<Item = &SignatureSpec> {
    component.origin.signatures.iter().map(|group| &group[0])
}

fn members(signature: &SignatureSpec) -> &[String] {
    match &signature.covers {
        SignatureScope::Members(members) => members,
        SignatureScope::File | SignatureScope::Drivers(_) => &[],
    }
}

/// Patterns of the packs: every file with an ending.
fn matches(pattern: &str, path: &str) -> bool {
    let ending = pattern.strip_prefix("**/*");
    path.ends_with(ending.unwrap_or_else(|| panic!("{pattern}: what does it take?")))
}

fn beside(file: &Path, suffix: &str) -> PathBuf {
    let mut name = file.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

fn python(words: &[&str]) {
    let python = root().join("target/record-venv/bin/python");
    let script = root().join("tests/end_to_end/stand_ins/publishers.py");
    let all: Vec<&str> = [text(&script)]
        .into_iter()
        .chain(words.iter().copied())
        .collect();
    output_of(text(&python), &all);
}

fn text(path: &Path) -> &str {
    path.to_str().expect("UTF-8")
}
