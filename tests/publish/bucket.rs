//! An image in moto's bucket (PyPI): its plan, parts, resumption and refusals. Moto judges no signature.

use std::fs;
use std::process::Command;
use std::sync::mpsc;
use std::sync::{Mutex, PoisonError};

use support::tree;
use support::unreliable::{Fate, Unreliable};

use crate::export::fixture::sh;
use crate::publish::place::{Place, Python, complained, said};

const KEYS: [(&str, &str); 2] = [
    ("AWS_ACCESS_KEY_ID", "AKIAEXAMPLE"),
    ("AWS_SECRET_ACCESS_KEY", "hunter2hunter2"),
];

fn moto() -> (Python, tempfile::TempDir) {
    let folder = tempfile::tempdir().expect("a folder");
    let server = Python::start("moto_server", folder.path(), |port| {
        vec![
            "-H".into(),
            "127.0.0.1".into(),
            "-p".into(),
            port.to_string(),
        ]
    });
    sh(
        "curl",
        &[
            "-sf",
            "-X",
            "PUT",
            &format!("http://127.0.0.1:{}/images", server.port),
        ],
    );
    (server, folder)
}

fn variables(endpoint: &str) -> Vec<(&str, &str)> {
    let mut all = KEYS.to_vec();
    all.push(("AWS_ENDPOINT_URL_S3", endpoint));
    all
}

/// By AWS' own client for Python; nothing where there is no such object.
fn fetched(port: u16, name: &str) -> Vec<u8> {
    const CLIENT: &str = "import boto3, sys\n\
        try: sys.stdout.buffer.write(boto3.client('s3').get_object(Bucket='images', Key=sys.argv[1])['Body'].read())\n\
        except Exception as e: sys.exit(0 if 'NoSuchKey' in str(e) else str(e))\n";
    let output = Command::new(tree::root().join("target/record-venv/bin/python"))
        .args(["-c", CLIENT, name])
        .envs(KEYS)
        .env("AWS_DEFAULT_REGION", "us-east-1")
        .env("AWS_ENDPOINT_URL", format!("http://127.0.0.1:{port}"))
        .output()
        .expect("Python");
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    output.stdout
}

#[test]
fn files_go_in_parts_over_a_line_that_fails_and_are_there_once() {
    let (place, (server, _folder)) = (Place::new(), moto());
    let line = Unreliable::every_third(server.port);
    let endpoint = format!("http://127.0.0.1:{}", line.port);
    let first = place.publish(&["--to", "s3://images/windows"], &variables(&endpoint));
    insta::assert_snapshot!("bucket", said(&first));
    for name in ["demo.vhd", "demo.oci.tar", "manifest.json"] {
        let there = fetched(server.port, &format!("windows/{name}"));
        assert!(there == fs::read(place.path(name)).unwrap(), "{name}");
    }
    assert!(!complained(&first).contains("hunter2"));
    let again = place.publish(&["--to", "s3://images/windows/"], &variables(&endpoint));
    assert!(
        said(&again).ends_with("0 sent, 6 already there\n"),
        "{}",
        said(&again)
    );

    fs::write(place.path("sbom.spdx.json"), "{}\n").unwrap();
    let other = place.publish(&["--to", "s3://images/windows"], &variables(&endpoint));
    assert_eq!(other.status.code(), Some(15));
    assert!(
        complained(&other).contains("| s3://images/windows/sbom.spdx.json: "),
        "{}",
        complained(&other)
    );
}

#[test]
fn a_bucket_that_is_not_there_and_keys_that_are_not_there_are_named() {
    let (place, (server, _folder)) = (Place::new(), moto());
    let endpoint = format!("http://127.0.0.1:{}", server.port);
    let output = place.publish(&["--to", "s3://nowhere"], &variables(&endpoint));
    assert_eq!(output.status.code(), Some(15));
    insta::assert_snapshot!("no_bucket", complained(&output));
    let nobody = [
        ("AWS_ENDPOINT_URL_S3", endpoint.as_str()),
        ("AWS_EC2_METADATA_DISABLED", "true"),
    ];
    let output = place.publish(&["--to", "s3://images"], &nobody);
    let text = complained(&output);
    assert!(
        text.starts_with("error: there are no usable AWS credentials\n"),
        "{text}"
    );
}

/// Sends the first file until two of its parts are there, and kills it.
fn killed(place: &Place, upstream: u16, keys: &[(&str, &str)]) {
    let (tell, told) = mpsc::channel();
    let tell = Mutex::new(tell);
    let line = Unreliable::start(upstream, move |_, request| {
        let is_third = request.contains("partNumber=3");
        if is_third {
            let _ = tell.lock().unwrap_or_else(PoisonError::into_inner).send(());
        }
        // The others of its company are not answered either: two parts are there at the most.
        if is_third || request.contains("partNumber=4") || request.contains("partNumber=5") {
            Fate::Hang
        } else {
            Fate::Pass
        }
    });
    let endpoint = format!("http://127.0.0.1:{}", line.port);
    let mut all = keys.to_vec();
    all.push(("AWS_ENDPOINT_URL_S3", endpoint.as_str()));
    let mut child = place
        .command(&["--to", "s3://images/windows"], &all)
        .spawn()
        .expect("winimg");
    told.recv_timeout(std::time::Duration::from_secs(120))
        .expect("a third part");
    std::thread::sleep(std::time::Duration::from_secs(2));
    child.kill().expect("a kill");
    child.wait().expect("an end");
}

#[test]
fn a_killed_upload_is_continued_and_leaves_nothing_unfinished() {
    let (place, (server, _folder)) = (Place::new(), moto());
    killed(&place, server.port, &KEYS);
    assert!(fetched(server.port, "windows/demo.vhd").is_empty());
    let endpoint = format!("http://127.0.0.1:{}", server.port);
    let output = place.publish(&["--to", "s3://images/windows"], &variables(&endpoint));
    said(&output);
    assert!(
        complained(&output)
            .contains("demo.vhd: continuing an interrupted upload: 2 parts are there"),
        "{}",
        complained(&output)
    );
    assert!(fetched(server.port, "windows/demo.vhd") == fs::read(place.path("demo.vhd")).unwrap());
    let unfinished = sh(
        "curl",
        &[
            "-sf",
            &format!("http://127.0.0.1:{}/images?uploads", server.port),
        ],
    );
    assert!(!unfinished.contains("<Upload>"), "{unfinished}");
}
