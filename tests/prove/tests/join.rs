//! What kubeadm prints of a join, and the user data that are made of it.

use prove::join::Join;

pub const TOKEN: &str = "abcdef.0123456789abcdef";
pub const HASH: &str = "sha256:1234567890123456789012345678901234567890123456789012345678901234";

pub fn printed() -> String {
    format!("kubeadm join 192.0.2.10:6443 --token {TOKEN} --discovery-token-ca-cert-hash {HASH} \n")
}

#[test]
fn what_kubeadm_prints_is_a_join() {
    let two_lines = printed().replace("--discovery", "\\\n\t--discovery");
    let equal = printed().replace("--token ", "--token=");
    for text in [printed(), two_lines, equal] {
        let join = Join::parse(&text).expect(&text);
        assert_eq!(join.endpoint(), "192.0.2.10:6443");
        assert!(join.user_data().expose().contains(TOKEN));
        assert!(!format!("{join:?}").contains(TOKEN));
    }
    for host in ["[fd00::1]:6443", "api.example:443"] {
        let text = printed().replace("192.0.2.10:6443", host);
        assert_eq!(Join::parse(&text).expect("a join").endpoint(), host);
    }
}

#[test]
fn anything_else_is_refused_without_a_word_of_it() {
    let bad_token = "ABCDEF.0123456789abcdef";
    let texts = [
        String::new(),
        TOKEN.into(),
        printed().replace("join", "init"),
        printed().replace(TOKEN, bad_token),
        printed().replace("192.0.2.10:6443", "192.0.2.10"),
        printed().replace("192.0.2.10:6443", "\"x\\ny:1\":6443"),
        printed().replace(HASH, "sha256:12"),
        printed().trim_end().replace(HASH, ""),
        printed() + "--control-plane --certificate-key 0011",
        printed() + TOKEN,
    ];
    let mut said = String::new();
    for text in texts {
        let error = Join::parse(&text).expect_err(&text);
        assert!(
            !error.contains("cdef.") && !error.contains("0123456789abcdef"),
            "{error}"
        );
        said += &format!("{error}\n");
    }
    insta::assert_snapshot!(said);
}

#[test]
fn the_user_data_as_text() {
    let join = Join::parse(&printed()).expect("a join");
    insta::assert_snapshot!(join.user_data().expose());
}

#[cfg(unix)]
mod used {
    use std::fs;
    use std::os::unix::fs::PermissionsExt as _;
    use std::process::Command;

    use serde_json::{Value, json};
    use support::media::{have, run, text};
    use support::tree::root;

    use super::*;

    /// As `tests/trial/user_data.py` says: cloudbase-init's own code, with bash in the place of cmd.exe.
    #[test]
    fn the_real_cloudbase_init_runs_kubeadm_with_the_file_that_they_hold() {
        if !have(&["python3", "bash", "base64"]) {
            return;
        }
        run(text(&root().join("tests/record/venv.sh")), &[]);
        let dir = tempfile::tempdir().expect("a folder");
        let data = dir.path().join("user-data");
        let join = Join::parse(&printed()).expect("a join");
        fs::write(&data, join.user_data().expose()).expect("the user data");
        let kubeadm = dir.path().join("kubeadm");
        fs::write(&kubeadm, "#!/bin/bash\necho \"$1 $2\"; cat \"$3\"\n").expect("a program");
        fs::set_permissions(&kubeadm, fs::Permissions::from_mode(0o755)).expect("a program");
        let ask = json!({
            "user_data": run("base64", &["-w0", text(&data)]),
            "host_name": "winimg-try-1",
            "folder": dir.path(),
            "path": dir.path(),
        });
        let file = dir.path().join("ask.json");
        fs::write(&file, ask.to_string()).expect("the question");
        let done = Command::new(root().join("target/record-venv/bin/python"))
            .arg(root().join("tests/trial/user_data.py"))
            .arg(&file)
            .output()
            .expect("Python");
        let said = String::from_utf8_lossy(&done.stderr);
        let answer: Value = serde_json::from_slice(&done.stdout).expect(&said);
        let log = answer["log"].as_str().expect("a log");
        let wanted =
            "User_data stdout:\nb'join --config\\n---\\napiVersion: kubeadm.k8s.io/v1beta4\\n";
        assert!(log.contains(wanted), "{log}");
        assert!(log.contains("ended with return code: 0"), "{log}");
        assert!(!log.contains("ERROR") && !log.contains("WARNING"), "{log}");
        let success = dir
            .path()
            .join("run/cluster-api/bootstrap-success.complete");
        assert_eq!(fs::read_to_string(success).expect("the mark"), "success\n");
    }
}
