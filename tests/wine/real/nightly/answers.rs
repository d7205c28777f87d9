//! What the packs' checks ask of programs, asked of the real ones: the table by which the stand-in knows them (`make real-node`).

use std::process::Stdio;

use serde_json::{Value, json};
use support::skip;
use winimg_base::digest::Digest;

use crate::wine::prefix::Prefix;
use crate::wine::real::{built, version};

/// Program, arguments, and whose version the answer holds: packs/capi-checks.toml.
const ASKED: [(&str, &[&str], (&str, &str)); 4] = [
    (
        "containerd",
        &["--version"],
        ("containerd", "containerd_version"),
    ),
    ("kubelet", &["--version"], KUBERNETES),
    ("kubeadm", &["version", "-o", "short"], KUBERNETES),
    (
        "kubectl",
        &["version", "--client", "-o", "json"],
        KUBERNETES,
    ),
];
const KUBERNETES: (&str, &str) = ("kubernetes", "kubernetes_semver");

fn answer(prefix: &Prefix, program: &str, arguments: &[&str]) -> Value {
    let done = prefix
        .wine(&built(program))
        .args(arguments)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .output();
    let done = done.unwrap_or_else(|e| panic!("{program}: {e}"));
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("UTF-8");
    json!({
        "arguments": arguments,
        "stdout": text(done.stdout),
        "stderr": text(done.stderr),
        "code": done.status.code(),
    })
}

#[test]
#[ignore = "needs Wine and the real programs: make real-programs"]
fn each_program_says_its_version_as_the_packs_ask() {
    if let Some((missing, ..)) = ASKED.iter().find(|(program, ..)| !built(program).exists()) {
        skip::skipped(format!(
            "no {missing}.exe, which `make real-programs` builds where Go is installed"
        ));
        return;
    }
    let prefix = Prefix::new();
    let rows = ASKED.map(|(program, arguments, (pack, variable))| {
        let answer = answer(&prefix, program, arguments);
        let version = version(pack, variable);
        let said = answer["stdout"].as_str().expect("text");
        assert!(
            answer["code"] == 0 && said.contains(&version),
            "{program}, not {version}: {answer:#}"
        );
        let file = std::fs::read(built(program)).expect("a program");
        let digest = Digest::sha256_of(&file).to_string();
        json!({
            "size": file.len(),
            "sha256": digest.trim_start_matches("sha256:"),
            "answers": [answer],
        })
    });
    prefix.end();
    let table = serde_json::to_string_pretty(&rows).expect("JSON");
    std::fs::write(built("answers").with_extension("json"), table).expect("a table");
}
