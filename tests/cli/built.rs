//! A build that ends well: what the guest was asked, what the user reads, what is left, and what is not.

use base64::Engine as _;
use serde_json::Value;

use crate::cli::site::{BUILD, KEEP, Site};
use support::media;
use support::tree::root;

const PASSWORD: &str = "Open-Sesame-42!";

const STEPS: &str = r#"
[[steps]]
name = "the tool"
copy = { component = "tool", to = 'C:\k\tool.exe' }

[[steps]]
name = "site settings"
registry = { key = 'HKLM\SOFTWARE\Example', name = "Tier", type = "sz", data = "gold" }

[[steps]]
name = "not today"
when = "no"
cmd = "echo never"

[[steps]]
name = "hello"
cmd = "echo hello"

[[steps]]
name = "restart"
reboot = {}
"#;

const ANSWERS: &str = r#"
[[run]]
command = 'C:\Windows\System32\cmd.exe /d /c C:\winimg\steps\004.cmd'
output = "hello\r\n"
"#;

const INSTALL: &str = "[install]\nprogress = [\"firmware\", \"Windows Setup\"]\nrestarts = 2\n";

/// A build with every format, its password in the environment.
fn site() -> Site {
    let site = Site::with_every_output(STEPS);
    site.machine(INSTALL, ANSWERS);
    site
}

fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|e| panic!("{e}: {text}"))
}

#[test]
fn the_whole_story() {
    let site = site();
    let outcome = site.build(&[]).ended_well();
    // Sizes of compressed files are their compressors' affair.
    let size = regex::Regex::new(r" +[0-9.]+ KiB").expect("a pattern");
    let rendered = outcome.whole();
    insta::assert_snapshot!("rendered", size.replace_all(&rendered, " [size]"));
    insta::assert_snapshot!("asked", site.asked());
    insta::assert_snapshot!("left", site.files("out").join("\n"));
    let mut logs = String::new();
    for log in site.files("out/logs") {
        logs += &format!("--- {log}\n{}", site.read(&format!("out/logs/{log}")));
    }
    insta::assert_snapshot!("logs", logs);
}

#[test]
fn the_records_say_what_is_so() {
    let site = site();
    site.build(&[]).ended_well();
    let manifest = json(&site.read("out/manifest.json"));
    let schema = std::fs::read_to_string(root().join("schemas/manifest-1.json")).expect("it");
    let validator = jsonschema::validator_for(&json(&schema)).expect("a schema");
    let wrong: Vec<String> = validator
        .iter_errors(&manifest)
        .map(|e| e.to_string())
        .collect();
    assert!(wrong.is_empty(), "{wrong:#?}");
    for artifact in manifest["artifacts"].as_array().expect("artifacts") {
        let file = site
            .path("out")
            .join(artifact["file"].as_str().expect("a file"));
        let found = media::run("sha256sum", &[media::text(&file)]);
        assert_eq!(artifact["sha256"], found[..64], "{}", file.display());
        let size = std::fs::metadata(&file).expect("the file").len();
        assert_eq!(artifact["size"], size, "{}", file.display());
    }
    insta::assert_snapshot!(
        "manifest",
        site.filtered(&sizes_left_out(&site.read("out/manifest.json")))
    );
    let packers = json(&site.read("out/packer-manifest.json"));
    assert_eq!(packers["builds"].as_array().map(Vec::len), Some(1));
    assert_eq!(packers["builds"][0]["custom_data"]["tool_version"], "1.2.0");
    for line in site.read("out/events.jsonl").lines() {
        let event = json(line);
        assert!(
            event["time"].is_string() && event["event"].is_string(),
            "{line}"
        );
    }

    // A second run into the same directory: its records replace the first's, Packer's file grows.
    site.build(&["--fresh"]).ended_well();
    let packers = json(&site.read("out/packer-manifest.json"));
    assert_eq!(packers["builds"].as_array().map(Vec::len), Some(2));
    assert_eq!(
        packers["last_run_uuid"],
        packers["builds"][1]["packer_run_uuid"]
    );
}

/// Sizes of media and archives are their tools' affair.
fn sizes_left_out(text: &str) -> String {
    let size = regex::Regex::new(r#""size": \d+"#).expect("a pattern");
    size.replace_all(text, "\"size\": 0").into_owned()
}

#[test]
fn the_password_is_nowhere() {
    for (name, head) in [
        ("a good build", INSTALL),
        ("a step that fails", "default_exit = 1\n"),
        (
            "a setup that fails",
            "[install]\noutcome = \"stands-still\"\n",
        ),
    ] {
        let site = site();
        site.machine(head, "");
        if name == "a step that fails" {
            let machine = site.read("machine.toml");
            site.write("machine.toml", &machine.replace(r"\steps\*.cmd", r"\none"));
        }
        let mut command = site.command(&BUILD);
        let output = command.env("WINIMG_ADMIN_PASSWORD", PASSWORD).output();
        let output = output.expect("winimg starts");
        assert_eq!(output.status.success(), name == "a good build", "{name}");
        let mut places = vec![
            ("standard output".to_string(), output.stdout),
            ("standard error".to_string(), output.stderr),
            ("transcript".to_string(), site.asked().into_bytes()),
        ];
        for folder in ["out", "cache"] {
            for file in site.files(folder) {
                let bytes = std::fs::read(site.path(folder).join(&file)).expect("the file");
                places.push((format!("{folder}/{file}"), bytes));
            }
        }
        for (place, bytes) in places {
            for secret in forms(PASSWORD) {
                let found = bytes.windows(secret.len()).any(|w| w == secret);
                assert!(!found, "{name}: {place} holds the password");
            }
        }
        assert!(
            !site.files("out").iter().any(|f| f.ends_with(".iso")),
            "{name}"
        );
    }
}

/// As it is, in UTF-16, and as an answer file encodes it.
fn forms(password: &str) -> Vec<Vec<u8>> {
    let utf16 = |text: &str| {
        text.encode_utf16()
            .flat_map(u16::to_le_bytes)
            .collect::<Vec<u8>>()
    };
    let encode = |bytes: Vec<u8>| {
        base64::engine::general_purpose::STANDARD
            .encode(bytes)
            .into_bytes()
    };
    vec![
        password.as_bytes().to_vec(),
        utf16(password),
        encode(password.as_bytes().to_vec()),
        encode(utf16(password)),
        encode(utf16(&format!("{password}AdministratorPassword"))),
    ]
}

/// The answer disc does hold it, in one of the forms that are searched for: otherwise the search would prove nothing.
#[test]
fn the_answer_disc_holds_the_password_until_the_steps_begin() {
    let site = site();
    site.machine("[install]\noutcome = \"stands-still\"\n", "");
    let mut command = site.command(&KEEP);
    let output = command.env("WINIMG_ADMIN_PASSWORD", PASSWORD).output();
    let said = String::from_utf8_lossy(&output.expect("winimg starts").stderr).into_owned();
    let disc = site
        .files("out")
        .into_iter()
        .find(|f| f.ends_with("answer.iso"));
    let disc = std::fs::read(site.path("out").join(disc.expect("the disc is kept")));
    let disc = disc.expect("the disc");
    let holds = |secret: &Vec<u8>| disc.windows(secret.len()).any(|w| w == secret);
    assert!(forms(PASSWORD).iter().any(holds));
    assert!(
        said.contains("answer.iso in that folder contains this build's Administrator password"),
        "{said}"
    );
}
