//! `--json`: one document on standard output and nothing else, also where the command fails; docs/json.md lists the fields.

use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::cli::site::{Outcome, SEAL, Site};
use support::golden::schema_is_current;
use winimg::cmd::documents::{
    BuildResult, FetchResult, LockResult, MatrixBuildResult, OutdatedResult, VerifyResult,
};
use winimg_base::event::FindingSeverity;

const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/json.md");

/// All of standard output as one document, every field of which the type knows.
fn document<T: DeserializeOwned + serde::Serialize>(outcome: &Outcome<'_>) -> T {
    let value: Value = serde_json::from_slice(&outcome.output.stdout)
        .unwrap_or_else(|e| panic!("{e}: {}", outcome.whole()));
    let read: T = serde_json::from_value(value.clone()).expect("a document");
    let again = serde_json::to_value(&read).expect("JSON");
    assert_eq!(again, value);
    read
}

#[test]
fn lock_and_fetch_as_json() {
    let step = "[[steps]]\nname = \"tool\"\ncopy = { component = \"tool\", to = 'C:\\tool.exe' }\n";
    let site = Site::new(&format!("{step}\n{SEAL}"));
    let lock = |more: &[&str], status: i32| -> LockResult {
        let outcome = site.run(&[&["lock", "recipe.toml", "--json"], more].concat());
        assert_eq!(outcome.status(), Some(status), "{}", outcome.whole());
        document(&outcome)
    };
    let would = lock(&["--check"], 2);
    assert_eq!((would.serial, would.written), (None, false));
    assert!(
        would
            .changes
            .iter()
            .any(|change| change.name == "tool" && change.was == "-")
    );
    let first = lock(&[], 0);
    assert_eq!(
        (first.lock.as_str(), first.serial, first.written),
        ("recipe.lock", Some(1), true)
    );
    assert_eq!(first.changes.len(), would.changes.len());
    let next = lock(&[], 0);
    assert_eq!(
        (next.serial, next.written, next.changes.len()),
        (Some(1), false, 0)
    );

    let outcome = site.run(&["fetch", "recipe.toml", "--json"]).ended_well();
    let fetched: FetchResult = document(&outcome);
    let names: Vec<&str> = fetched
        .inputs
        .iter()
        .map(|input| input.name.as_str())
        .collect();
    assert!(
        names.contains(&"media.iso") && names.contains(&"tool"),
        "{names:?}"
    );
    let tool = fetched
        .inputs
        .iter()
        .find(|input| input.name == "tool")
        .expect("the tool");
    assert_eq!((tool.size, tool.signers.len()), (12, 0));
    assert!(tool.digest.starts_with("sha256:"), "{tool:?}");
}

#[test]
fn build_and_verify_as_json() {
    let site = Site::new(SEAL);
    for unchanged in [false, true] {
        let outcome = site.build(&["--json"]).ended_well();
        let built: BuildResult = document(&outcome);
        assert_eq!(
            (built.recipe.as_str(), built.unchanged),
            ("node", unchanged)
        );
        let files: Vec<&str> = built.artifacts.iter().map(|a| a.file.as_str()).collect();
        assert_eq!(files, ["node.raw"]);
        assert!(site.path("out").join(&built.manifest).is_file());
        assert_eq!(built.output, site.path("out").display().to_string());
    }
    // The scripted disk holds no Windows.
    let outcome = site.run(&["verify", "out/manifest.json", "--json"]);
    assert_eq!(outcome.status(), Some(10), "{}", outcome.whole());
    let verified: VerifyResult = document(&outcome);
    let [raw] = verified.files.as_slice() else {
        panic!("{verified:?}");
    };
    assert_eq!(
        (verified.good, raw.file.as_str(), raw.hold),
        (false, "node.raw", 1)
    );
    assert_eq!(raw.findings.len(), raw.checks - raw.hold);
    assert!(
        raw.findings
            .iter()
            .any(|f| f.severity == FindingSeverity::Error && !f.details.message.is_empty())
    );
}

#[test]
fn a_failure_leaves_standard_output_empty() {
    let site = Site::new("[[steps]]\nname = \"later\"\nfirewal = { port = 10250 }\n");
    for command in ["lock", "fetch", "build"] {
        let outcome = site.run(&[command, "recipe.toml", "--json"]);
        assert_eq!(
            (outcome.status(), outcome.stdout().as_str()),
            (Some(2), ""),
            "{command}"
        );
    }
}

/// After a change of the types: `WINIMG_WRITE_SCHEMA=1 cargo test --test winimg cli::json`.
#[test]
fn the_page_lists_every_field() {
    let page = std::fs::read_to_string(PAGE).expect("the page");
    let (head, _) = page
        .split_once("## `winimg lock")
        .expect("the first command");
    let mut text = head.to_owned();
    for (command, schema) in [
        ("lock", schemars::schema_for!(LockResult)),
        ("fetch", schemars::schema_for!(FetchResult)),
        ("outdated", schemars::schema_for!(OutdatedResult)),
        ("verify", schemars::schema_for!(VerifyResult)),
        ("build", schemars::schema_for!(BuildResult)),
        ("matrix build", schemars::schema_for!(MatrixBuildResult)),
    ] {
        text += &format!("## `winimg {command} --json`\n\n| field | what it is |\n|---|---|\n");
        fields(schema.as_value(), schema.as_value(), "", &mut text);
        text.push('\n');
    }
    schema_is_current(PAGE, &format!("{}\n", text.trim_end()));
}

/// A row for each field, and for those of what a list holds.
fn fields(schema: &Value, whole: &Value, above: &str, text: &mut String) {
    for (name, field) in schema["properties"].as_object().into_iter().flatten() {
        let about = field["description"]
            .as_str()
            .unwrap_or_default()
            .replace('\n', " ");
        let listed = field["items"]["$ref"].as_str();
        let list = if field["type"] == "array" { "[]" } else { "" };
        text.push_str(&format!("| `{above}{name}{list}` | {about} |\n"));
        if let Some(path) = listed.and_then(|path| path.strip_prefix('#')) {
            let held = whole.pointer(path).expect("a definition");
            fields(held, whole, &format!("{above}{name}[]."), text);
        }
    }
}
