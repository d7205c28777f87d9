//! `recipe.lock`: its text, what it refuses, and every way in which a recipe drifts from it, as
//! whole texts.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use support::complaints::facts;

use tempfile::TempDir;
use winimg_base::digest::Digest;
use winimg_recipe::lock::{self, LockComparison, LockEntry, LockFile, RecipeLock, ResolvedInput};
use winimg_recipe::{InputId, ReadOptions, Recipe, read};
use winimg_supply::store::Store;
use winimg_trust::{Scheme, Signer};

const RECIPE: &str = r#"schema = 1
name = "node"

[vars]
kubernetes_version = "1.36.0"

[media]
image = "datacenter-core"

[media.iso]
url = "isos/ws2022.iso"
unverified = "published without a digest"

[components.kubelet]
version = "{{kubernetes_version}}"
url = "https://dl.example.com/v{{version}}/kubelet.exe?build=1"
checksum_url = "https://dl.example.com/v{{version}}/kubelet.exe.sha256"

[components.tool]
url = "https://dl.example.com/tool.exe"
sha256 = "1111111111111111111111111111111111111111111111111111111111111111"

[images.pause]
reference = "registry.example.com/pause:3.10"
unverified = "its owner moves the tag"

[outputs]
raw = {}
"#;

/// As winimg wrote it before schema 2, for [`RECIPE`] and [`SIGNED`].
const SCHEMA_1: &str = include_str!("schema1.lock");

const SIGNED: &str = r#"
[components.agent]
version = "2.0"
url = "https://dl.example.com/agent-{{version}}.zip?sig=1"
checksum_url = "https://dl.example.com/SHA256SUMS?sig=1"
checksum_entry = "agent.zip"
signature = { kind = "minisign", key = "RWQf6LRCGA9i53mlYecO4IzT51TGPpvWucNSCh1CBM0QTaLn73Y7GFO3" }
checksum_signature = { kind = "minisign", key = "RWQf6LRCGA9i53mlYecO4IzT51TGPpvWucNSCh1CBM0QTaLn73Y7GFO3" }

[components.cni]
url = "https://dl.example.com/cni.tgz"
signature = { kind = "minisign", key = "RWQf6LRCGA9i53mlYecO4IzT51TGPpvWucNSCh1CBM0QTaLn73Y7GFO3" }
"#;

/// A folder with the recipe.
struct Desk {
    folder: TempDir,
}

impl Desk {
    fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        fs::create_dir(folder.path().join("isos")).expect("a folder");
        Self { folder }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn read(&self, text: &str) -> Recipe {
        let path = self.path("recipe.toml");
        fs::write(&path, text).expect("the recipe");
        let (recipe, found) = read(&path, &ReadOptions::default());
        recipe.unwrap_or_else(|| panic!("{}", found.render(false)))
    }

    fn shown(&self, text: &str) -> String {
        text.replace(&format!("{}/", self.folder.path().display()), "")
    }

    /// What a changed recipe is told about the lock of the first one.
    fn drift(&self, change: impl Fn(&str) -> String) -> String {
        let file = self.locked(&lock_of(&self.read(RECIPE)));
        let mut recipe = self.read(&change(RECIPE));
        let found = lock::apply_lock(&mut recipe, &file, LockComparison::Full);
        if found.has_errors() {
            let laid = recipe.components.iter().any(|c| c.origin.locked.is_some());
            assert!(!laid, "a refused lock was laid in");
        }
        self.shown(&found.render(false))
    }

    fn locked(&self, lock: &RecipeLock) -> LockFile {
        self.parsed(&lock.render().expect("a text"))
            .unwrap_or_else(|text| panic!("{text}"))
    }

    fn parsed(&self, text: &str) -> Result<LockFile, String> {
        let path = self.path("recipe.lock");
        fs::write(&path, text).expect("the lock");
        LockFile::read(&path).map_err(|found| self.shown(&found.render(false)))
    }
}

fn digest(word: &str) -> Digest {
    Digest::sha256_of(word.as_bytes())
}

/// As if every input had been fetched.
fn lock_of(recipe: &Recipe) -> RecipeLock {
    let entry = |ask: &winimg_recipe::LockRequest| {
        let mut evidence = BTreeMap::new();
        let mut signers = Vec::new();
        if ask.id.to_string() == "kubelet" {
            let url = "https://dl.example.com/v1.36.0/kubelet.exe.sha256";
            evidence.insert(url.to_string(), digest("checksums"));
            signers.push(Signer {
                scheme: Scheme::Minisign,
                signer: "RWQ".into(),
                pinned_by: "key RWQ".into(),
                signed_at: None,
                remarks: Vec::new(),
            });
        }
        let found = ResolvedInput {
            size: 12,
            digest: digest(&ask.id.to_string()),
            signers,
            evidence,
        };
        LockEntry::new(ask, found)
    };
    RecipeLock {
        recipe: recipe.name.value.clone(),
        serial: 4,
        inputs: recipe.lock_requests.iter().map(entry).collect(),
    }
}

#[test]
fn the_file() {
    let desk = Desk::new();
    let lock = lock_of(&desk.read(RECIPE));
    let text = lock.render().expect("a text");
    insta::assert_snapshot!(text);
    assert_eq!(desk.locked(&lock).lock, lock);
    // As git may lay it down on Windows.
    let crlf = desk.parsed(&text.replace('\n', "\r\n")).expect("a lock");
    assert_eq!(crlf.lock, lock);
    // As an editor may save it.
    for changed in [
        format!("\u{feff}{text}"),
        format!("{text}\n"),
        format!("\u{feff}{}\r\n\r\n", text.replace('\n', "\r\n")),
        text.trim_end().to_string(),
    ] {
        let read = desk.parsed(&changed).expect("a lock");
        assert_eq!(
            (read.lock.clone(), read.digest()),
            (lock.clone(), digest(&text))
        );
    }
    for edited in [
        format!("{text}# ours\n"),
        format!("\n{text}"),
        format!(" {text}"),
    ] {
        assert!(desk.parsed(&edited).is_err(), "{edited}");
    }
}

const KEY: &str = "RWQf6LRCGA9i53mlYecO4IzT51TGPpvWucNSCh1CBM0QTaLn73Y7GFO3";
const OTHER_KEY: &str = "RWQBAgMEBQYHCHmlYecO4IzT51TGPpvWucNSCh1CBM0QTaLn73Y7GFO3";

/// [`RECIPE`] with a component whose key is a file.
fn by_key_file() -> String {
    format!(
        "{RECIPE}\n[components.agent]\nurl = \"https://dl.example.com/agent.exe\"\n\
         signature = {{ kind = \"minisign\", key = \"keys/release.pub\" }}\n"
    )
}

impl Desk {
    fn key(&self, text: &str) {
        fs::create_dir_all(self.path("keys")).expect("a folder");
        fs::write(self.path("keys/release.pub"), text).expect("a key");
    }
}

#[test]
fn another_key_in_a_key_file_is_reported_with_both_keys() {
    let desk = Desk::new();
    desk.key(&format!("untrusted comment: ours\n{KEY}\n"));
    let old = lock_of(&desk.read(&by_key_file()));
    let file = desk.locked(&old);
    insta::assert_snapshot!(
        old.render()
            .expect("a text")
            .split("name = \"agent\"")
            .nth(1)
            .expect("it")
    );

    // The same key, written in another way.
    desk.key(&format!("untrusted comment: of 2026\r\n{KEY}\r\n"));
    let mut recipe = desk.read(&by_key_file());
    assert_eq!(
        lock::apply_lock(&mut recipe, &file, LockComparison::Full).render(false),
        ""
    );

    desk.key(&format!("untrusted comment: ours\n{OTHER_KEY}\n"));
    let mut recipe = desk.read(&by_key_file());
    for comparison in [LockComparison::Full, LockComparison::WithoutQueries] {
        let found = lock::apply_lock(&mut recipe, &file, comparison);
        assert!(found.has_errors());
    }
    let found = lock::find_drift(&recipe, &file, LockComparison::Full);
    insta::assert_snapshot!(desk.shown(&found.render(false)));

    // What `winimg lock` shows when it judged the file by the new key.
    let new = lock_of(&recipe);
    insta::assert_snapshot!(lock::compare_locks(Some(&old), &new).render_table());
    let ask = recipe
        .lock_requests
        .iter()
        .find(|ask| ask.id.to_string() == "agent")
        .expect("it");
    let mut asked = lock::LockChanges::default();
    asked.add_unresolved(ask, old.find_entry(&ask.id));
    let row =
        "not resolved yet: key 0807060504030201 in keys/release.pub (was key E7620F1842B4E81F)";
    assert_eq!(asked.rows[0].2, row);
}

#[test]
fn a_lock_of_schema_2_is_obeyed_whatever_the_key_files_hold() {
    let desk = Desk::new();
    desk.key(KEY);
    let lock = lock_of(&desk.read(&by_key_file()));
    let text = lock.render().expect("a text");
    // Schema 2 had no such tables.
    let at = text.find("\n[[inputs.keys]]").expect("the key");
    let end = text[at + 1..].find("\n[[inputs]]");
    let end = end.map_or(text.len(), |n| at + 1 + n);
    let old = format!("{}{}", &text[..at], &text[end..]).replace("schema = 3", "schema = 2");
    let content = |text: &str, digest: &str| {
        let start = text.find("content = \"").expect("it") + "content = \"".len();
        format!("{}sha256:{digest}{}", &text[..start], &text[start + 71..])
    };
    let zeros = content(&old, &"0".repeat(64));
    let old = content(&old, &digest(&zeros).hex());
    let file = desk.parsed(&old).expect("a lock");
    insta::assert_snapshot!(file.describe_upgrade("recipe.toml").expect("a notice"));
    for key in [KEY, OTHER_KEY] {
        desk.key(key);
        let mut recipe = desk.read(&by_key_file());
        assert_eq!(
            lock::apply_lock(&mut recipe, &file, LockComparison::Full).render(false),
            ""
        );
    }
    // Written again it has the key, and notices the next one.
    let mut lock = file.lock.clone();
    lock.complete(&desk.read(&by_key_file()).lock_requests);
    let again = desk.locked(&lock);
    desk.key(KEY);
    let mut recipe = desk.read(&by_key_file());
    assert!(lock::apply_lock(&mut recipe, &again, LockComparison::Full).has_errors());
}

#[test]
fn a_query_that_lets_somebody_download_is_no_part_of_the_lock() {
    let desk = Desk::new();
    let locked = |text: &str| desk.locked(&lock_of(&desk.read(text)));
    let drifts = |file: &LockFile, text: &str| {
        lock::apply_lock(&mut desk.read(text), file, LockComparison::Full).has_errors()
    };
    let with = |url: &str| RECIPE.replace("kubelet.exe?build=1", url);
    let signed = with("kubelet.exe?build=1&sv=2024-11-04&se=2026-01-01&sig=AAA");
    let file = locked(&signed);
    for same in [
        with("kubelet.exe?build=1&sv=2024-11-04&se=2026-02-02&sig=BBB"),
        with("kubelet.exe?build=1"),
    ] {
        assert!(!drifts(&file, &same), "{same}");
    }
    for other in [
        with("kubelet.exe?build=2&sig=AAA"),
        with("kubelet.exe?sig=AAA"),
    ] {
        assert!(drifts(&file, &other), "{other}");
    }
    let text = file.lock.render().expect("a text");
    assert!(
        !text.contains("AAA") && !text.contains("2024-11-04"),
        "{text}"
    );

    // A digest says which bytes are meant.
    let pinned = |query: &str| RECIPE.replace("com/tool.exe", &format!("com/tool.exe{query}"));
    let file = locked(&pinned("?id=1"));
    assert!(!drifts(&file, &pinned("?id=2&session=x")));
    assert!(drifts(
        &file,
        &pinned("?id=1").replace("tool.exe", "tool-2.exe")
    ));

    // So are addresses of what proves the file.
    let proved = |sums: &str, signature: &str| {
        format!("{RECIPE}{SIGNED}")
            .replace("SHA256SUMS?sig=1", &format!("SHA256SUMS?{sums}"))
            .replace(
                "[components.cni]\nurl = \"https://dl.example.com/cni.tgz\"\nsignature = {",
                &format!("[components.cni]\nurl = \"https://dl.example.com/cni.tgz\"\nsignature = {{ url = \"https://dl.example.com/s?{signature}\","),
            )
    };
    let file = locked(&proved("sig=1", "sig=1"));
    assert!(!drifts(&file, &proved("sig=2", "X-Amz-Signature=2")));
    assert!(drifts(&file, &proved("list=2", "sig=1")));
    assert!(drifts(&file, &proved("sig=1", "file=2")));
}

/// What the recipe leaves open is listed with what is to be decided, not as a difference from the
/// lock.
#[test]
fn a_proof_that_was_taken_out_is_no_difference() {
    let desk = Desk::new();
    let file = desk.locked(&lock_of(&desk.read(RECIPE)));
    let text = RECIPE.replace("unverified = \"published without a digest\"\n", "");
    let mut recipe = desk.read(&text);
    assert_eq!(
        lock::apply_lock(&mut recipe, &file, LockComparison::Full).render(false),
        ""
    );
    assert_eq!(recipe.undecided.len(), 1);
}

#[test]
fn an_unchanged_recipe_takes_the_lock_wherever_its_local_files_are() {
    let desk = Desk::new();
    let file = desk.locked(&lock_of(&desk.read(RECIPE)));
    let mut recipe = desk.read(&RECIPE.replace("isos/ws2022.iso", "/srv/media/ws2022.iso"));
    let found = lock::apply_lock(&mut recipe, &file, LockComparison::Full);
    assert_eq!(found.render(false), "");
    let iso = recipe.media.iso.locked.expect("locked");
    assert_eq!((iso.digest, iso.size), (digest("media.iso"), 12));
    let kubelet = recipe.components[0].origin.locked.clone().expect("locked");
    assert_eq!(kubelet.evidence.len(), 1);
    let image = recipe.images[0].locked.clone().expect("locked");
    assert_eq!(image.manifest, digest("image pause"));
}

#[test]
fn another_version_is_named_once_although_the_url_follows_it() {
    let desk = Desk::new();
    insta::assert_snapshot!(desk.drift(|text| text.replace("1.36.0", "1.36.1")));
}

#[test]
fn every_drift_is_reported_at_once() {
    let desk = Desk::new();
    insta::assert_snapshot!(facts(&desk.drift(|text| {
        let text = text
            .replace("ws2022.iso", "ws2022-march.iso")
            .replace("build=1", "build=2")
            .replace(&"1".repeat(64), &"2".repeat(64))
            .replace("pause:3.10", "pause:3.11");
        format!("{text}\n[components.more]\nurl = \"https://dl.example.com/more.exe\"\nsha256 = \"{}\"\n", "3".repeat(64))
    })));
}

#[test]
fn another_proof_and_another_file_are_two_facts() {
    let desk = Desk::new();
    insta::assert_snapshot!(facts(&desk.drift(|text| {
        text.replace("com/tool.exe", "com/tool-2.exe").replace(
            &format!("sha256 = \"{}\"", "1".repeat(64)),
            "unverified = \"new\"",
        )
    })));
}

#[test]
fn what_the_recipe_dropped_is_a_warning() {
    let desk = Desk::new();
    insta::assert_snapshot!(desk.drift(|text| {
        let at = text.find("[components.tool]").expect("it");
        let end = text.find("[images.pause]").expect("it");
        format!("{}{}", &text[..at], &text[end..])
    }));
}

#[test]
fn a_lock_of_another_recipe_is_refused() {
    let desk = Desk::new();
    insta::assert_snapshot!(desk.drift(|text| text.replace("\"node\"", "\"edge\"")));
}

#[test]
fn without_queries_only_what_is_shown_counts() {
    let desk = Desk::new();
    let file = desk.locked(&lock_of(&desk.read(RECIPE)));
    let mut recipe = desk.read(&RECIPE.replace("?build=1", ""));
    let found = lock::apply_lock(&mut recipe, &file, LockComparison::WithoutQueries);
    assert_eq!(found.render(false), "");
    let mut recipe = desk.read(&RECIPE.replace("tool.exe", "tool-2.exe"));
    assert!(lock::apply_lock(&mut recipe, &file, LockComparison::WithoutQueries).has_errors());
}

/// The digest is over values: other words for a proof change no lock.
#[test]
fn what_is_asked_is_hashed_as_values() {
    let desk = Desk::new();
    let recipe = desk.read(&format!("{RECIPE}{SIGNED}"));
    let key =
        r#"{"key":"RWQf6LRCGA9i53mlYecO4IzT51TGPpvWucNSCh1CBM0QTaLn73Y7GFO3","kind":"minisign"}"#;
    let ones = "1".repeat(64);
    let expected = [
        r#"{"checksum_url":null,"format":2,"proof":"unverified","rules":[],"url":"ws2022.iso","version":null}"#.to_string(),
        r#"{"checksum_url":"https://dl.example.com/v1.36.0/kubelet.exe.sha256","format":2,"proof":{"checksum-file":{"url":"https://dl.example.com/v1.36.0/kubelet.exe.sha256"}},"rules":[],"url":"https://dl.example.com/v1.36.0/kubelet.exe?build=1","version":"1.36.0"}"#.to_string(),
        format!(r#"{{"checksum_url":null,"format":2,"proof":{{"digest":"sha256:{ones}"}},"rules":[],"url":"https://dl.example.com/tool.exe","version":null}}"#),
        format!(r#"{{"checksum_url":"https://dl.example.com/SHA256SUMS","format":2,"proof":{{"checksum-file":{{"entry":"agent.zip","url":"https://dl.example.com/SHA256SUMS"}}}},"rules":[["signature",{key}],["checksum_signature",{key}]],"url":"https://dl.example.com/agent-2.0.zip","version":"2.0"}}"#),
        format!(r#"{{"checksum_url":null,"format":2,"proof":"signed","rules":[["signature",{key}]],"url":"https://dl.example.com/cni.tgz","version":null}}"#),
        r#"{"checksum_url":null,"format":2,"proof":"unverified","rules":[],"url":"registry.example.com/pause:3.10","version":null}"#.to_string(),
    ];
    assert_eq!(recipe.lock_requests.len(), expected.len());
    for (ask, json) in recipe.lock_requests.iter().zip(&expected) {
        assert_eq!(ask.digest, digest(json), "{}: {json}", ask.id);
    }
}

#[test]
fn a_lock_of_schema_1_is_obeyed() {
    let desk = Desk::new();
    let file = desk.parsed(SCHEMA_1).expect("a lock");
    assert_eq!(file.text, SCHEMA_1);
    assert_eq!(file.digest(), digest(SCHEMA_1));
    let mut recipe = desk.read(&format!("{RECIPE}{SIGNED}"));
    let found = lock::apply_lock(&mut recipe, &file, LockComparison::Full);
    assert_eq!(found.render(false), "");
    let locked = |at: usize| recipe.components[at].origin.locked.clone().expect("locked");
    assert_eq!(locked(0).digest, digest("kubelet"));
    assert_eq!(locked(0).evidence.len(), 1);
    assert_eq!(locked(2).digest, digest("agent"));
    let notice = file.describe_upgrade("recipe.toml").expect("a notice");
    insta::assert_snapshot!(notice);

    // It becomes one of the present schema, and nothing of it is asked for again.
    let mut lock = file.lock.clone();
    lock.complete(&recipe.lock_requests);
    let again = desk.locked(&lock);
    assert_eq!(
        (again.schema, again.describe_upgrade("recipe.toml")),
        (lock::SCHEMA, None)
    );
    assert_eq!(again.lock, lock);
    assert_eq!(
        lock::apply_lock(&mut recipe, &again, LockComparison::Full).render(false),
        ""
    );
    assert!(lock.inputs.iter().all(|entry| entry.asked.is_some()));
}

#[test]
fn a_lock_of_schema_1_detects_every_drift_but_that_of_a_query() {
    let desk = Desk::new();
    let file = desk.parsed(SCHEMA_1).expect("a lock");
    let drift = |from: &str, to: &str| {
        let text = format!("{RECIPE}{SIGNED}");
        assert!(text.contains(from), "{from}");
        let mut recipe = desk.read(&text.replace(from, to));
        let found = lock::apply_lock(&mut recipe, &file, LockComparison::Full);
        let mut lock = file.lock.clone();
        lock.complete(&recipe.lock_requests);
        let open = lock.inputs.iter().filter(|entry| entry.asked.is_none());
        let open: Vec<String> = open.map(|entry| entry.id.to_string()).collect();
        let facts = found.0.iter().map(|d| d.problem.fact.as_str());
        (facts.collect::<Vec<_>>().join("\n"), open.join(" "))
    };
    let key = "checksum_signature = { kind = \"minisign\", key = \"RWQf";
    for (from, to, fact, input) in [
        (
            "1.36.0",
            "1.36.1",
            "component kubelet: recipe.lock was made for version 1.36.0, the recipe asks for 1.36.1",
            "kubelet",
        ),
        (
            "pause:3.10",
            "pause:3.11",
            "image pause: recipe.lock was made for registry.example.com/pause:3.10, the recipe asks for registry.example.com/pause:3.11",
            "image pause",
        ),
        (
            "\"agent.zip\"",
            "\"other.zip\"",
            "component agent: recipe.lock was made with the proof `checksum file https://dl.example.com/SHA256SUMS, line `agent.zip``, the recipe has `checksum file https://dl.example.com/SHA256SUMS, line `other.zip``",
            "agent",
        ),
        (
            key,
            &key.replace(
                "minisign\"",
                "minisign\", url = \"https://dl.example.com/s\"",
            ),
            "component agent: the recipe changed its signature rule since recipe.lock was written",
            "agent",
        ),
        ("sig=1", "sig=2", "", ""),
    ] {
        assert_eq!(
            drift(from, to),
            (fact.to_string(), input.to_string()),
            "{from}"
        );
    }
}

#[test]
fn what_no_lock_looks_like_is_refused_in_words() {
    let desk = Desk::new();
    let text = lock_of(&desk.read(RECIPE)).render().expect("a text");
    let iso = digest("media.iso").to_string();
    let cases = [
        (
            "a digest by hand",
            text.replace(&iso, &digest("other").to_string()),
        ),
        (
            "a comment by hand",
            text.replace("serial", "# ours\nserial"),
        ),
        ("another schema", text.replace("schema = 3", "schema = 4")),
        ("no schema", text.replace("schema = 3\n", "")),
        (
            "an unknown key",
            text.replace("serial = 4", "serial = 4\ncolour = 1"),
        ),
        ("a digest that is none", text.replace(&iso, "sha256:12")),
        ("a merge", format!("<<<<<<< HEAD\n{text}")),
        ("cut off", text[..text.len() / 2].to_string()),
        ("another file", "<html>".to_string()),
    ];
    let rendered = cases.map(|(what, text)| {
        let error = desk.parsed(&text).map(|_| "TAKEN".to_string());
        format!("--- {what}\n{}", error.unwrap_or_else(|rendered| rendered))
    });
    insta::assert_snapshot!(facts(&rendered.join("\n")));
}

#[test]
fn what_a_new_lock_changes() {
    let desk = Desk::new();
    let old = lock_of(&desk.read(RECIPE));
    assert!(lock::compare_locks(Some(&old), &old).is_empty());
    let mut new = old.clone();
    new.inputs[1].version = Some("1.36.1".into());
    new.inputs[1].digest = digest("newer");
    new.inputs[2].signers = new.inputs[1].signers.clone();
    new.inputs.remove(0);
    let again = LockEntry {
        id: InputId::Component("more".into()),
        ..old.inputs[2].clone()
    };
    new.inputs.push(again);
    let mut reworded = old.clone();
    reworded.inputs[1].signers[0].remarks = vec!["another remark".into()];
    let rows = lock::compare_locks(Some(&old), &reworded).rows;
    assert_eq!(
        rows[0].2,
        "the same file, the details of its signatures changed"
    );
    insta::assert_snapshot!(lock::compare_locks(Some(&old), &new).render_table());
    assert!(lock::refuse_lower_versions(&old, &new, "recipe.toml").is_none());
    let error = lock::refuse_lower_versions(&new, &old, "recipe.toml").expect("a refusal");
    insta::assert_snapshot!(error.to_string());
}

#[test]
fn an_older_lock_than_the_one_that_was_built_with_is_refused() {
    let desk = Desk::new();
    let store = Store::open(&desk.path("cache")).expect("a store");
    let old = lock_of(&desk.read(RECIPE));
    let mut new = old.clone();
    new.serial = 5;
    new.inputs[1].version = Some("1.36.1".into());
    new.inputs[1].digest = digest("newer");
    store.record_built_with(&new.to_record()).expect("a record");
    // A lower one does not take the place of a higher one.
    store.record_built_with(&old.to_record()).expect("a record");
    let before = store.built_with("node").expect("a record");
    assert!(lock::check_rollback(&new, "recipe.lock", &before).is_none());
    let error = lock::check_rollback(&old, "recipe.lock", &before).expect("a refusal");
    insta::assert_snapshot!(error.to_string());
    insta::assert_snapshot!(lock::warn_rollback(&old, "recipe.lock", &before).expect("a warning"));
    assert!(store.built_with("edge").is_none());
}
