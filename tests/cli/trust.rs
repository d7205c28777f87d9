//! `winimg trust update` against TUF repositories that the test makes, and keyless signatures judged by what it wrote.

use std::collections::BTreeMap;
use std::fs;

use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::signature::{Ed25519KeyPair, KeyPair as _};
use serde_json::{Value, json};

use crate::cli::site::{Outcome, SEAL, Site};
use support::media;
use support::server::{Files, Server};
use support::tree::root;
use winimg_base::digest::Digest;

const LATER: &str = "2999-01-01T00:00:00Z";

/// A repository whose roles all have one key.
struct Repository {
    site: Site,
    server: Server,
    files: Files,
    key: Ed25519KeyPair,
}

fn key() -> Ed25519KeyPair {
    let pkcs8 = Ed25519KeyPair::generate_pkcs8(&SystemRandom::new()).expect("a key");
    Ed25519KeyPair::from_pkcs8(pkcs8.as_ref()).expect("a key")
}

/// Keys in order, no blanks: what TUF signs, of values as plain as these.
fn canonical(value: &Value) -> String {
    match value {
        Value::Object(map) => {
            let sorted: BTreeMap<&String, &Value> = map.iter().collect();
            let entry =
                |(key, value): (&&String, &&Value)| format!("\"{key}\":{}", canonical(value));
            format!(
                "{{{}}}",
                sorted.iter().map(entry).collect::<Vec<_>>().join(",")
            )
        }
        Value::Array(items) => {
            format!(
                "[{}]",
                items.iter().map(canonical).collect::<Vec<_>>().join(",")
            )
        }
        plain => plain.to_string(),
    }
}

fn name(key: &Ed25519KeyPair) -> String {
    hex::encode(key.public_key().as_ref())
}

fn signed(value: Value, keys: &[&Ed25519KeyPair]) -> Vec<u8> {
    let bytes = canonical(&value);
    let sign = |key: &&Ed25519KeyPair| {
        let signature = key.sign(bytes.as_bytes());
        json!({ "keyid": name(key), "sig": hex::encode(signature) })
    };
    let signatures: Vec<Value> = keys.iter().map(sign).collect();
    json!({ "signed": value, "signatures": signatures })
        .to_string()
        .into_bytes()
}

fn root_of(version: u64, key: &Ed25519KeyPair) -> Value {
    let role = json!({ "keyids": [name(key)], "threshold": 1 });
    let held =
        json!({ "keytype": "ed25519", "scheme": "ed25519", "keyval": { "public": name(key) } });
    json!({
        "_type": "root", "spec_version": "1.0.31", "version": version, "expires": LATER,
        "consistent_snapshot": false,
        "keys": { name(key): held },
        "roles": { "root": role, "timestamp": role, "snapshot": role, "targets": role },
    })
}

/// One that proves something; the blanks at its end make it another file.
fn trusted_root(blanks: usize) -> Vec<u8> {
    let file = root().join("crates/trust/tests/sigstore/own/trusted_root.json");
    let mut bytes = fs::read(file).expect("a root");
    bytes.extend(std::iter::repeat_n(b'\n', blanks));
    bytes
}

impl Repository {
    fn new() -> Self {
        let files = Files::default();
        let held = files.clone();
        let server = Server::start(move |asked| held.answer(asked));
        let repository = Self {
            site: Site::new(SEAL),
            server,
            files,
            key: key(),
        };
        let root = signed(root_of(1, &repository.key), &[&repository.key]);
        fs::write(repository.site.path("root.json"), root).expect("the first root");
        repository
    }

    fn put(&self, name: &str, bytes: Vec<u8>) {
        self.files.put(&format!("/{name}"), bytes);
    }

    fn publish(&self, version: u64, target: &[u8]) {
        self.publish_until(version, target, LATER, &self.key);
    }

    fn publish_until(&self, version: u64, target: &[u8], until: &str, key: &Ed25519KeyPair) {
        let of = |kind: &str, more: Value| {
            let mut value = json!({
                "_type": kind, "spec_version": "1.0.31", "version": version, "expires": until,
            });
            let own = value.as_object_mut().expect("an object");
            own.extend(more.as_object().expect("an object").clone());
            signed(value, &[key])
        };
        let digest = Digest::sha256_of(target).hex();
        let target_file = json!({ "length": target.len(), "hashes": { "sha256": digest } });
        self.put("targets/trusted_root.json", target.to_vec());
        self.put(
            "targets.json",
            of(
                "targets",
                json!({ "targets": { "trusted_root.json": target_file } }),
            ),
        );
        let meta = |name: &str| json!({ "meta": { name: { "version": version } } });
        self.put("snapshot.json", of("snapshot", meta("targets.json")));
        self.put("timestamp.json", of("timestamp", meta("snapshot.json")));
    }

    fn update(&self) -> Outcome<'_> {
        let url = self.server.url("");
        let more = ["--url", &url, "--root", "root.json", "--to", "trusted.json"];
        self.site.run(&[&["trust", "update"][..], &more].concat())
    }

    fn written(&self) -> Vec<u8> {
        fs::read(self.site.path("trusted.json")).unwrap_or_default()
    }

    /// The refusal's first sentence; what was written before stays.
    fn refused(&self) -> String {
        let before = self.written();
        let outcome = self.update();
        assert_eq!(outcome.status(), Some(5), "{}", outcome.whole());
        assert_eq!(self.written(), before);
        let error = outcome.error();
        error.lines().next().expect("a line").to_string()
    }
}

#[test]
fn the_root_that_the_repository_holds_is_written() {
    let repository = Repository::new();
    repository.publish(1, &trusted_root(0));
    assert_eq!(
        repository.update().ended_well().stdout(),
        "trusted.json: written, sha256:[digest] (TUF root 1, targets 1)\n"
    );
    assert_eq!(repository.written(), trusted_root(0));
    let again = repository.update().ended_well().stdout();
    assert!(again.starts_with("trusted.json: up to date, "), "{again}");
    repository.publish(2, &trusted_root(1));
    let newer = repository.update().ended_well().stdout();
    assert!(newer.ends_with("(TUF root 1, targets 2)\n"), "{newer}");
    assert_eq!(repository.written(), trusted_root(1));
}

#[test]
fn what_is_older_forged_ended_or_no_root_is_refused() {
    let repository = Repository::new();
    let mut said = Vec::new();
    repository.publish(2, &trusted_root(1));
    repository.update().ended_well();

    repository.publish(1, &trusted_root(0));
    said.push(("an earlier version", repository.refused()));
    repository.publish_until(3, &trusted_root(2), LATER, &key());
    said.push(("another key", repository.refused()));
    repository.publish_until(3, &trusted_root(2), "2020-01-01T00:00:00Z", &repository.key);
    said.push(("ended", repository.refused()));
    repository.publish(3, &trusted_root(2));
    let mut changed = trusted_root(2);
    *changed.last_mut().expect("a byte") = b' ';
    repository.put("targets/trusted_root.json", changed);
    said.push(("another file", repository.refused()));
    repository.publish(4, b"{}");
    said.push(("no root", repository.refused()));
    repository.files.remove("/snapshot.json");
    repository.publish(5, &trusted_root(2));
    repository.files.remove("/timestamp.json");
    said.push(("nothing there", repository.refused()));
    let said: Vec<String> = said
        .iter()
        .map(|(case, text)| format!("{case}: {text}"))
        .collect();
    insta::assert_snapshot!(said.join("\n"));
}

#[test]
fn the_owners_keys_change_as_the_owners_say() {
    let mut repository = Repository::new();
    repository.publish(1, &trusted_root(0));
    repository.update().ended_well();
    let stranger = key();
    repository.put("2.root.json", signed(root_of(2, &stranger), &[&stranger]));
    insta::assert_snapshot!(repository.refused());
    let next = key();
    let both = signed(root_of(2, &next), &[&repository.key, &next]);
    repository.put("2.root.json", both);
    repository.key = next;
    repository.publish(2, &trusted_root(1));
    let updated = repository.update().ended_well().stdout();
    assert!(updated.ends_with("(TUF root 2, targets 2)\n"), "{updated}");
    // The first key is nobody's any more, also when the new root is not served again.
    repository.files.remove("/2.root.json");
    repository.publish_until(3, &trusted_root(2), LATER, &key());
    repository.refused();
}

const SIGNED: &str = r#"
[components.signed]
url = "signed.exe"
[components.signed.signature]
kind = "sigstore"
identity = "https://github.com/example/tools/.github/workflows/release.yml@refs/tags/v1.2.0"
issuer = "https://token.actions.githubusercontent.com"
"#;

#[test]
fn a_signature_is_judged_by_this_hosts_root_and_the_lock_says_which() {
    let site = Site::new(SEAL);
    let own = root().join("crates/trust/tests/sigstore/own");
    for (from, to) in [
        ("tool.exe", "signed.exe"),
        ("good.sigstore.json", "signed.exe.sigstore.json"),
    ] {
        fs::copy(own.join(from), site.path(to)).expect("a copy");
    }
    let recipe = site.read("recipe.toml");
    site.write("recipe.toml", &format!("{recipe}{SIGNED}"));
    let lock = ["lock", "recipe.toml"];
    // The public instance knows nothing of it.
    assert_eq!(site.run(&lock).status(), Some(5));

    let bytes = trusted_root(0);
    fs::create_dir_all(site.path(".config/winimg/trust")).expect("a folder");
    site.write(
        ".config/winimg/trust/trusted_root.json",
        &String::from_utf8(bytes.clone()).expect("text"),
    );
    media::run("chmod", &["-R", "go-w", media::text(&site.path(".config"))]);
    site.run(&lock).ended_well();
    let lock_text = site.read("recipe.lock");
    let named = format!("trust root {}", Digest::sha256_of(&bytes));
    assert!(lock_text.contains(&named), "{lock_text}");

    media::run(
        "chmod",
        &[
            "a+w",
            media::text(&site.path(".config/winimg/trust/trusted_root.json")),
        ],
    );
    let open = site.run(&lock);
    assert_eq!(open.status(), Some(2), "{}", open.whole());
    assert!(
        open.whole().contains("is writable by other users"),
        "{}",
        open.whole()
    );
}
