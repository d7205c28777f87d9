//! User data on their way through cloudbase-init: the real one uses them, and what its log says of them is read.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Command;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use support::media::{have, run, text};
use support::tree;
use support::windows_disk::can_make;
use winimg::trial::state::{AgentRun, KnownFact, ScriptEnd};

use super::state;

/// As Cluster API's bootstrap provider writes it, with a file that has no `permissions`.
const CLOUD_CONFIG: &str = "\
## template: jinja
#cloud-config

write_files:
-   path: /run/kubeadm/kubeadm-join-config.yaml
    owner: root:root
    permissions: '0640'
    content: |
      ---
      nodeRegistration:
        name: '{{ v1.local_hostname }}'
-   path: /run/cluster-api/placeholder
    content: \"\"
runcmd:
  - 'kubeadm join --config /run/kubeadm/kubeadm-join-config.yaml && echo success > /run/cluster-api/done'
";

/// The log of the real cloudbase-init after it has used these data in `folder`, where `kubeadm` is a program of a few lines.
fn used(data: &[u8], kubeadm: &str, folder: &Path) -> String {
    run(text(&tree::root().join("tests/record/venv.sh")), &[]);
    let programs = folder.join("bin");
    fs::create_dir(&programs).expect("a folder");
    let program = programs.join("kubeadm");
    fs::write(&program, kubeadm).expect("a program");
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).expect("a program");
    let ask = json!({
        "user_data": STANDARD.encode(data),
        "host_name": "clone-a",
        "folder": folder,
        "path": programs,
    });
    let file = folder.join("ask.json");
    fs::write(&file, ask.to_string()).expect("the question");
    let output = Command::new(tree::root().join("target/record-venv/bin/python"))
        .arg(tree::root().join("tests/trial/user_data.py"))
        .arg(&file)
        .output()
        .expect("Python");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    let answer: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    // Done, without a restart: a script that fails fails no plugin.
    assert_eq!(answer["plugin"], json!([1, false]));
    answer["log"].as_str().expect("a log").to_owned()
}

/// That log on a clone's disk, as `winimg try` reads it.
fn read(log: &str) -> AgentRun {
    let agent = state::with_agents_log(log).cloudbase_init;
    let KnownFact::Is(Some(agent)) = agent else {
        panic!("{agent:?}");
    };
    let mut runs = agent.service.expect("a log").runs;
    assert_eq!(runs.len(), 1, "{runs:?}");
    runs.remove(0)
}

#[test]
fn a_cloud_config_is_used_and_its_commands_end_is_read() {
    if !have(&["python3", "bash"]) || !can_make() {
        return;
    }
    let dir = tempfile::tempdir().expect("a folder");
    let kubeadm = "#!/bin/bash\necho \"it's here\"\necho \"no route to host: ü\" >&2\nexit 3\n";
    let log = used(CLOUD_CONFIG.as_bytes(), kubeadm, dir.path());
    let file = dir.path().join("run/kubeadm/kubeadm-join-config.yaml");
    let written = fs::read_to_string(file).expect("the file");
    assert_eq!(written, "---\nnodeRegistration:\n  name: 'clone-a'\n");
    let run = read(&log);
    assert_eq!(run.errors, Vec::<String>::new(), "{log}");
    assert_eq!(run.user_data.refused, Vec::<String>::new(), "{log}");
    let [ScriptEnd { code: 3, said }] = &run.user_data.scripts[..] else {
        panic!("{:?}", run.user_data);
    };
    assert_eq!(said.first().map(String::as_str), Some("it's here"));
    assert_eq!(
        said.last().map(String::as_str),
        Some("no route to host: ü"),
        "{said:?}"
    );
}

#[test]
fn user_data_of_no_known_kind_are_named() {
    if !have(&["python3"]) || !can_make() {
        return;
    }
    let dir = tempfile::tempdir().expect("a folder");
    let log = used(b"echo hello\n", "", dir.path());
    assert_eq!(
        read(&log).user_data.refused,
        ["Unsupported user_data format"]
    );
}
