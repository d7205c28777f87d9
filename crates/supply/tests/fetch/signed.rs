//! Signatures from the recipe to the blob: what is met, what is refused, and what is asked of the
//! network.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::sync::{Arc, Mutex, OnceLock};
use support::tree;

use regex::Regex;
use winimg_base::digest::Digest;
use winimg_base::error::Kind;
use winimg_recipe::{self as recipe, InputId, LockedInput, ReadOptions, Recipe};
use winimg_supply::fetch::FetchRequest;
use winimg_supply::store::{ExpectedBytes, StoredBlob};
use winimg_trust::Scheme;

use crate::fetch::desk::{Desk, lock_source};
use support::server::{Answer, Server};

/// What `signed.sh` made, once for all tests.
fn made(name: &str) -> PathBuf {
    static FOLDER: OnceLock<tempfile::TempDir> = OnceLock::new();
    let folder = FOLDER.get_or_init(|| {
        let tests = tree::root().join("tests");
        let folder = tempfile::tempdir().unwrap();
        let made = Command::new("bash")
            .arg("-eu")
            .arg(tree::root().join("crates/supply/tests/fetch/signed.sh"))
            .arg(&tests)
            .current_dir(folder.path())
            .output()
            .unwrap();
        let log = fs::read_to_string(folder.path().join("log")).unwrap_or_default();
        let said = String::from_utf8_lossy(&made.stderr);
        assert!(made.status.success(), "signed.sh: {said}\n{log}");
        folder
    });
    folder.path().join(name)
}

fn bytes(name: &str) -> Vec<u8> {
    fs::read(made(name)).unwrap_or_else(|e| panic!("{name}: {e}"))
}

fn keyless(name: &str) -> Vec<u8> {
    let own = tree::root().join("crates/trust/tests/sigstore/own");
    fs::read(own.join(name)).unwrap_or_else(|e| panic!("{name}: {e}"))
}

/// A publisher's server, whose files may be replaced, and a desk with a recipe and keys.
struct Bench {
    desk: Desk,
    server: Server,
    files: Arc<Mutex<BTreeMap<String, Vec<u8>>>>,
}

impl Bench {
    fn new(served: &[(&str, Vec<u8>)]) -> Self {
        let files: BTreeMap<String, Vec<u8>> = served
            .iter()
            .map(|(path, bytes)| (path.to_string(), bytes.clone()))
            .collect();
        let files = Arc::new(Mutex::new(files));
        let shared = Arc::clone(&files);
        let server = Server::start(move |asked| {
            let path = asked.path.split('?').next().unwrap_or_default();
            match shared.lock().unwrap().get(path) {
                Some(bytes) => {
                    let tag = format!("\"{}\"", Digest::sha256_of(bytes).hex());
                    Answer::file(asked, bytes, &tag)
                }
                None => Answer::new("404 Not Found", &[], "no"),
            }
        });
        let desk = Desk::new();
        for key in ["release.pub", "other.pub", "release.asc", "root.pem"] {
            desk.write(key, bytes(key));
        }
        desk.write("trusted_root.json", keyless("trusted_root.json"));
        Self {
            desk,
            server,
            files,
        }
    }

    fn serve(&self, path: &str, bytes: Vec<u8>) {
        self.files.lock().unwrap().insert(path.into(), bytes);
    }

    /// A recipe with these components; URL stands for the server's address.
    fn recipe(&self, components: &str) -> Recipe {
        let components = components.replace("URL", self.server.url("").trim_end_matches('/'));
        let text = format!(
            "schema = 1\nname = \"signed\"\n[media]\nimage = \"datacenter-core\"\n[media.iso]\n\
             url = \"x.iso\"\nunverified = \"test\"\n[outputs]\nraw = {{}}\n{components}"
        );
        let path = self.desk.write("recipe.toml", text);
        let (recipe, diagnostics) = recipe::read(&path, &ReadOptions::default());
        recipe.unwrap_or_else(|| panic!("{}", diagnostics.render(false)))
    }

    fn fetch_with(
        &self,
        components: &str,
        edit: impl Fn(&mut FetchRequest),
    ) -> Result<Vec<StoredBlob>, (Kind, String)> {
        let recipe = self.recipe(components);
        let inputs = recipe.inputs().filter(|i| i.id != InputId::Iso);
        let mut requests: Vec<FetchRequest> = inputs
            .filter_map(|i| FetchRequest::from_input(&i))
            .collect();
        requests.iter_mut().for_each(edit);
        self.desk.fetch_all(requests).map_err(|errors| {
            let kind = errors[0].kind();
            let texts: Vec<String> = errors
                .iter()
                .map(|e| self.shown(&self.desk.text(e)))
                .collect();
            (kind, texts.join("\n\n"))
        })
    }

    fn fetch(&self, components: &str) -> Result<Vec<StoredBlob>, (Kind, String)> {
        self.fetch_with(components, |_| {})
    }

    /// What differs from run to run is taken out.
    fn shown(&self, text: &str) -> String {
        let text = text.replace(&self.server.host(), "HOST");
        let keys = Regex::new(r"RW[A-Za-z0-9+/]{54}|\b[0-9A-F]{16}\b").unwrap();
        let text = keys.replace_all(&text, "<key>");
        let hex = Regex::new(r"[0-9a-f]{64}|[0-9A-F]{40}").unwrap();
        hex.replace_all(&text, "<hex>").into_owned()
    }

    fn refused(&self, components: &str) -> String {
        let (kind, text) = self.fetch(components).expect_err("refused");
        assert_eq!(kind, Kind::Unproved, "{text}");
        assert!(!text.contains("SECRET"), "{text}");
        text
    }
}

fn pin(bytes: &[u8]) -> String {
    format!("sha256 = \"{}\"\n", Digest::sha256_of(bytes).hex())
}

const TOOL: &str = "[components.tool]\nurl = \"URL/tool.exe?sig=SECRET\"\n";
const MINISIGN: &str = "signature = { kind = \"minisign\", key = \"release.pub\" }\n";
const CODE: &str = "kind = \"authenticode\", roots = \"root.pem\", subject = \"CN=Example leaf\"";

#[test]
fn a_signature_alone_proves_a_file_and_is_recorded() {
    let bench = Bench::new(&[
        ("/tool.exe", bytes("tool.exe")),
        ("/tool.exe.minisig", bytes("tool.exe.minisig")),
    ]);
    let blobs = bench.fetch(&format!("{TOOL}{MINISIGN}")).unwrap();
    assert_eq!(fs::read(blobs[0].path()).unwrap(), bytes("tool.exe"));
    assert_eq!(*blobs[0].proof(), ExpectedBytes::Signed);
    let [signer] = blobs[0].signers() else {
        panic!("{:?}", blobs[0].signers());
    };
    assert_eq!(signer.scheme, Scheme::Minisign);
    let url = bench.server.url("/tool.exe.minisig?…");
    let digest = Digest::sha256_of(&bytes("tool.exe.minisig"));
    assert_eq!(*blobs[0].evidence(), BTreeMap::from([(url, digest)]));
    // Nothing but the signature names the bytes: the publisher is asked whether there are others.
    bench.fetch(&format!("{TOOL}{MINISIGN}")).unwrap();
    let log = bench.server.log();
    assert_eq!(log.len(), 3, "{log:?}");
    assert!(log[2].contains("if-none-match"), "{log:?}");
}

#[test]
fn a_pinned_and_signed_file_is_judged_again_without_a_network() {
    let bench = Bench::new(&[
        ("/tool.exe", bytes("tool.exe")),
        ("/tool.exe.minisig", bytes("tool.exe.minisig")),
    ]);
    let pinned = format!("{TOOL}{}", pin(&bytes("tool.exe")));
    bench.fetch(&format!("{pinned}{MINISIGN}")).unwrap();
    assert_eq!(bench.server.log().len(), 2);
    let again = bench.fetch(&format!("{pinned}{MINISIGN}")).unwrap();
    assert_eq!(again[0].signers().len(), 1);
    assert_eq!(bench.server.log().len(), 2, "{:?}", bench.server.log());

    // Another key in the recipe: the same bytes and the same signature do not do any more.
    let other = MINISIGN.replace("release.pub", "other.pub");
    insta::assert_snapshot!(bench.refused(&format!("{pinned}{other}")));
    // The signature may have been out of date, so it was asked for anew, once.
    assert_eq!(bench.server.log().len(), 3, "{:?}", bench.server.log());
    assert_eq!(bench.desk.stored("quarantine"), [""; 0]);
}

#[test]
fn what_is_not_met_goes_to_quarantine_and_is_not_transferred_again() {
    let bench = Bench::new(&[
        ("/tool.exe", bytes("tool.exe")),
        ("/tool.exe.minisig", bytes("other.minisig")),
    ]);
    let recipe = format!("{TOOL}{}{MINISIGN}", pin(&bytes("tool.exe")));
    insta::assert_snapshot!(bench.refused(&recipe));
    let digest = Digest::sha256_of(&bytes("tool.exe")).hex();
    assert_eq!(bench.desk.stored("quarantine"), [digest]);
    bench.serve("/tool.exe.minisig", bytes("tool.exe.minisig"));
    bench.fetch(&recipe).unwrap();
    let files = bench.server.log();
    let files = files.iter().filter(|l| l.starts_with("GET /tool.exe?"));
    assert_eq!(files.count(), 1);
    assert_eq!(bench.desk.stored("quarantine"), [""; 0]);
}

#[test]
fn a_new_file_has_a_new_signature() {
    let bench = Bench::new(&[
        ("/tool.exe", bytes("tool.exe")),
        ("/tool.exe.minisig", bytes("tool.exe.minisig")),
    ]);
    let recipe = format!("{TOOL}{MINISIGN}");
    bench.fetch(&recipe).unwrap();
    bench.serve("/tool.exe", bytes("newer.exe"));
    bench.serve("/tool.exe.minisig", bytes("newer.exe.minisig"));
    let blobs = bench.fetch(&recipe).unwrap();
    assert_eq!(fs::read(blobs[0].path()).unwrap(), bytes("newer.exe"));

    // The same for a local file whose cached signature does not fit any more.
    let local = bench.desk.write("tool.exe", bytes("tool.exe"));
    let recipe = "[components.tool]\nurl = \"tool.exe\"\n\
                  signature = { kind = \"minisign\", key = \"release.pub\", url = \"URL/local.minisig\" }\n";
    bench.serve("/local.minisig", bytes("tool.exe.minisig"));
    bench.fetch(recipe).unwrap();
    fs::write(&local, bytes("newer.exe")).unwrap();
    bench.serve("/local.minisig", bytes("newer.exe.minisig"));
    let blobs = bench.fetch(recipe).unwrap();
    assert_eq!(fs::read(blobs[0].path()).unwrap(), bytes("newer.exe"));
    let asked = bench.server.log();
    let asked = asked.iter().filter(|l| *l == "GET /local.minisig").count();
    assert_eq!(asked, 2);
}

#[test]
fn missing_changed_and_foreign_signatures_are_reported_at_once() {
    let bench = Bench::new(&[
        ("/none.exe", bytes("tool.exe")),
        ("/changed.exe", bytes("newer.exe")),
        ("/changed.exe.minisig", bytes("tool.exe.minisig")),
        ("/page.exe", bytes("tool.exe")),
        (
            "/page.exe.minisig",
            b"<html><title>Log in</title></html>".to_vec(),
        ),
        ("/signed.exe", bytes("signed.exe")),
        ("/plain.exe", bytes("plain.exe")),
    ]);
    let component = |name: &str, more: &str| {
        format!("[components.{name}]\nurl = \"URL/{name}.exe?sig=SECRET\"\n{more}")
    };
    let other = CODE.replace("Example leaf", "Somebody Else");
    let recipe = [
        component("none", MINISIGN),
        component("changed", MINISIGN),
        component("page", MINISIGN),
        component("signed", &format!("signature = {{ {other} }}\n")),
        component("plain", &format!("signature = {{ {CODE} }}\n")),
    ];
    insta::assert_snapshot!(bench.refused(&recipe.concat()));
    let log = bench.server.log().join("\n");
    // Without a signature there is nothing to wait for.
    assert!(!log.contains("GET /none.exe?"), "{log}");
    assert_eq!(bench.desk.stored("blobs").len(), 2, "signatures only");
}

#[test]
fn one_of_several_is_enough_and_all_of_a_list_are_needed() {
    let bench = Bench::new(&[
        ("/tool.exe", bytes("tool.exe")),
        ("/tool.exe.minisig", bytes("tool.exe.minisig")),
        ("/other.minisig", bytes("other.minisig")),
    ]);
    let any = "signature = { any = [{ kind = \"minisign\", key = \"release.pub\", url = \"URL/gone\" }, \
               { kind = \"minisign\", key = \"release.pub\" }] }\n";
    let blobs = bench.fetch(&format!("{TOOL}{any}")).unwrap();
    assert_eq!(blobs[0].signers().len(), 1);
    let none = "signature = { any = [{ kind = \"minisign\", key = \"other.pub\" }, \
                { kind = \"minisign\", key = \"release.pub\", url = \"URL/gone?token=SECRET\" }] }\n";
    let both = "[[components.tool.signature]]\nkind = \"minisign\"\nkey = \"release.pub\"\n\
                [[components.tool.signature]]\nkind = \"minisign\"\nkey = \"other.pub\"\nurl = \"URL/other.minisig\"\n";
    let blobs = bench.fetch(&format!("{TOOL}{both}")).unwrap();
    assert_eq!(blobs[0].signers().len(), 2);
    let refused = [
        bench.refused(&format!("{TOOL}{none}")),
        bench.refused(&format!(
            "{TOOL}{}",
            both.replace("other.pub", "release.pub")
        )),
    ];
    insta::assert_snapshot!(refused.join("\n\n"));
}

#[test]
fn a_signed_checksum_file_proves_over_http() {
    let fingerprint = String::from_utf8(bytes("release.fpr")).unwrap();
    let bench = Bench::new(&[
        ("/tool.exe", bytes("tool.exe")),
        ("/SHA256SUMS", bytes("SHA256SUMS")),
        ("/SHA256SUMS.asc", bytes("SHA256SUMS.asc")),
        ("/CLEAR", bytes("CLEAR")),
    ]);
    let openpgp = format!(
        "kind = \"openpgp\", key = \"release.asc\", fingerprints = [\"{}\"]",
        fingerprint.trim()
    );
    let detached =
        format!("{TOOL}checksum_url = \"URL/SHA256SUMS\"\nchecksum_signature = {{ {openpgp} }}\n");
    let blobs = bench.fetch(&detached).unwrap();
    let [signer] = blobs[0].signers() else {
        panic!("{:?}", blobs[0].signers());
    };
    let remark = format!(
        "signed the checksum file {}",
        bench.server.url("/SHA256SUMS")
    );
    assert!(signer.remarks.contains(&remark), "{signer:?}");
    assert!(matches!(
        blobs[0].proof(),
        ExpectedBytes::ChecksumFile { .. }
    ));
    assert_eq!(blobs[0].evidence().len(), 2);

    let clear = format!(
        "{TOOL}checksum_url = \"URL/CLEAR\"\nchecksum_signature = {{ {openpgp}, form = \"clearsigned\" }}\n"
    );
    bench.fetch(&clear).unwrap();

    // With a lock neither is asked for again.
    let lock = LockedInput {
        digest: blobs[0].digest().clone(),
        size: blobs[0].size(),
        evidence: blobs[0].evidence().clone(),
        source: lock_source(),
    };
    let asked = bench.server.log().len();
    let locked = bench.fetch_with(&detached, |r| r.origin.locked = Some(lock.clone()));
    assert_eq!(locked.unwrap()[0].signers(), blobs[0].signers());
    assert_eq!(bench.server.log().len(), asked);

    let mut sums = bytes("SHA256SUMS");
    sums[0] ^= 1;
    bench.serve("/SHA256SUMS", sums);
    bench.serve("/CLEAR", bytes("CLEAR.changed"));
    let refused = [bench.refused(&detached), bench.refused(&clear)];
    insta::assert_snapshot!(refused.join("\n\n"));
}

#[test]
fn authenticode_in_a_file_and_in_an_archives_members() {
    let bench = Bench::new(&[
        ("/signed.exe", bytes("signed.exe")),
        ("/good.zip", bytes("good.zip")),
        ("/bad.zip", bytes("bad.zip")),
    ]);
    let file = format!("[components.signed]\nurl = \"URL/signed.exe\"\nsignature = {{ {CODE} }}\n");
    let blobs = bench.fetch(&file).unwrap();
    let [signer] = blobs[0].signers() else {
        panic!("{:?}", blobs[0].signers());
    };
    assert_eq!(signer.scheme, Scheme::Authenticode);
    assert!(signer.signed_at.is_some());
    assert!(blobs[0].evidence().is_empty());

    let archive = |name: &str, pattern: &str| {
        format!(
            "[components.{name}]\nurl = \"URL/{name}.zip\"\nunpack = \"zip\"\n{}\
             signature = {{ {CODE}, members = [\"{pattern}\"] }}\n",
            pin(&bytes(&format!("{name}.zip")))
        )
    };
    let blobs = bench.fetch(&archive("good", "**/*.exe")).unwrap();
    let [signer] = blobs[0].signers() else {
        panic!("{:?}", blobs[0].signers());
    };
    let of = signer.remarks.last().unwrap();
    assert!(of.contains("bin/a.exe") && of.contains("bin/b.exe"), "{of}");
    let refused = [
        bench.refused(&archive("bad", "**/*.exe")),
        bench.fetch(&archive("good", "**/*.msi")).unwrap_err().1,
    ];
    insta::assert_snapshot!(refused.join("\n\n"));
    assert_eq!(
        bench.desk.stored("partial"),
        [""; 0],
        "members are not left"
    );
}

const WHO: &str = "identity = \"https://github.com/example/tools/.github/workflows/release.yml@refs/tags/v1.2.0\", \
                   issuer = \"https://token.actions.githubusercontent.com\", trusted_root = \"trusted_root.json\"";

#[test]
fn keyless_signatures_by_bundle_and_by_the_logs_entry() {
    let tool = keyless("tool.exe");
    let bench = Bench::new(&[
        ("/tool.exe", tool.clone()),
        ("/tool.exe.sigstore.json", keyless("good.sigstore.json")),
        ("/tool.exe.sig", keyless("tool.exe.sig")),
        ("/tool.exe.cert", keyless("tool.exe.cert")),
        ("/other.sigstore.json", keyless("other.sigstore.json")),
        ("/release.intoto.jsonl", keyless("release.intoto.jsonl")),
        (
            "/called.intoto.jsonl",
            keyless("called-provenance.sigstore.json"),
        ),
    ]);
    // The log: an index that names every entry, and the entries by their IDs.
    let entries: Vec<serde_json::Value> = serde_json::from_slice(&keyless("entries.json")).unwrap();
    let mut ids = Vec::new();
    for entry in &entries {
        let id = entry.as_object().unwrap().keys().next().unwrap();
        bench.serve(
            &format!("/log/api/v1/log/entries/{id}"),
            entry.to_string().into(),
        );
        ids.push(id.clone());
    }
    let index = serde_json::to_vec(&ids).unwrap();
    bench.serve("/log/api/v1/index/retrieve", index);

    let bundle = format!("{TOOL}signature = {{ kind = \"sigstore\", {WHO} }}\n");
    let blobs = bench.fetch(&bundle).unwrap();
    assert_eq!(blobs[0].signers()[0].scheme, Scheme::Sigstore);

    let loose = format!(
        "{TOOL}{}signature = {{ kind = \"sigstore\", {WHO}, certificate = \"URL/tool.exe.cert\", log = \"URL/log\" }}\n",
        pin(&tool)
    );
    let blobs = bench.fetch(&loose).unwrap();
    let digest = Digest::sha256_of(&tool);
    let answer = bench
        .server
        .url(&format!("/log/api/v1/log/entries/{digest}"));
    assert!(
        blobs[0].evidence().contains_key(&answer),
        "{:?}",
        blobs[0].evidence()
    );
    assert_eq!(blobs[0].evidence().len(), 3);
    let asked = bench.server.log().len();
    bench.fetch(&loose).unwrap();
    assert_eq!(bench.server.log().len(), asked, "the log's word is kept");
    // Without a digest the log can be asked once the file is there.
    let unpinned = loose.replace(&pin(&tool), "");
    bench.fetch(&unpinned).unwrap();

    let attested = format!(
        "{TOOL}signature = {{ kind = \"attestation\", repository = \"example/tools\", \
         workflow = \".github/workflows/release.yml\", ref = \"refs/tags/v1.2.0\", \
         trusted_root = \"trusted_root.json\", url = \"URL/release.intoto.jsonl\" }}\n"
    );
    let blobs = bench.fetch(&attested).unwrap();
    assert_eq!(blobs[0].signers()[0].scheme, Scheme::Attestation);

    bench.serve("/log/api/v1/index/retrieve", b"[]".to_vec());
    let fresh = Bench {
        desk: Desk::new(),
        ..bench
    };
    fresh
        .desk
        .write("trusted_root.json", keyless("trusted_root.json"));
    let refused = [
        fresh.refused(&bundle.replace("v1.2.0", "v9.9.9")),
        fresh.refused(&bundle.replace(
            "trusted_root =",
            "url = \"URL/other.sigstore.json\", trusted_root =",
        )),
        fresh.refused(&loose),
        // The same workflow, started by somebody else's repository.
        fresh.refused(&attested.replace("release.intoto", "called.intoto")),
    ];
    insta::assert_snapshot!(refused.join("\n\n"));
}

/// A recipe's component whose signature only the log's word makes good.
fn logged(tool: &[u8], log: &str) -> String {
    format!(
        "{TOOL}{}signature = {{ kind = \"sigstore\", {WHO}, certificate = \"URL/tool.exe.cert\", log = \"{log}\" }}\n",
        pin(tool)
    )
}

const BY_ENTRY: &str = "/log/api/v1/log/entries/retrieve";
const BY_INDEX: &str = "/log/api/v1/index/retrieve";

#[test]
fn a_log_is_asked_for_the_entry_itself() {
    let tool = keyless("tool.exe");
    let files = [
        ("/tool.exe", tool.clone()),
        ("/tool.exe.sig", keyless("tool.exe.sig")),
        ("/tool.exe.cert", keyless("tool.exe.cert")),
        (BY_ENTRY, keyless("entries.json")),
    ];
    let loose = logged(&tool, "URL/log");
    // Whatever the index says, or without one.
    for index in [None, Some(&b"[]"[..]), Some(b"<html>")] {
        let bench = Bench::new(&files);
        if let Some(index) = index {
            bench.serve(BY_INDEX, index.to_vec());
        }
        bench.fetch(&loose).unwrap();
        let log = bench.server.log().join("\n");
        assert!(
            log.contains(&format!("POST {BY_ENTRY}")) && !log.contains("index"),
            "{log}"
        );
    }
    // A log that knows nothing of it is believed.
    for entries in [b"[]".to_vec(), keyless("stranger.json")] {
        let bench = Bench::new(&files);
        bench.serve(BY_ENTRY, entries);
        bench.serve(BY_INDEX, b"[]".to_vec());
        let (kind, text) = bench.fetch(&loose).unwrap_err();
        assert_eq!(kind, Kind::Unproved, "{text}");
    }
}

#[test]
fn an_outage_of_the_log_is_no_verdict_about_the_file() {
    let tool = keyless("tool.exe");
    for index in ["[]", "down"] {
        let log = Server::start(move |asked| {
            if asked.path.contains("index") {
                if index == "[]" {
                    Answer::new("200 OK", &[], "[]")
                } else {
                    Answer::new("503 Service Unavailable", &[], "")
                }
            } else {
                Answer::new("503 Service Unavailable", &[], "")
            }
        });
        let mut bench = Bench::new(&[
            ("/tool.exe", tool.clone()),
            ("/tool.exe.sig", keyless("tool.exe.sig")),
            ("/tool.exe.cert", keyless("tool.exe.cert")),
        ]);
        bench.desk.options.tries = 1;
        let base = log.url("");
        let (kind, text) = bench
            .fetch(&logged(&tool, base.trim_end_matches('/')))
            .unwrap_err();
        assert_eq!(kind, Kind::Fetch, "{text}");
        assert!(text.contains("the server answered 503"), "{text}");
    }
}
