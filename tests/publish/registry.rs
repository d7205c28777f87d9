//! An image in Debian's docker-registry, taken out again by skopeo.

use std::collections::BTreeSet;
use std::fs;
use std::process::Command;

use serde_json::Value;
use support::docker_registry::Registry;
use support::unreliable::Unreliable;
use winimg_base::digest::Digest;

use crate::export::fixture::sh;
use crate::publish::place::{Place, complained, said};

fn raw(place: &str) -> String {
    sh(
        "skopeo",
        &[
            "inspect",
            "--tls-verify=false",
            "--raw",
            &format!("docker://{place}"),
        ],
    )
}

fn tags(registry: &Registry, repository: &str) -> BTreeSet<String> {
    let place = format!("docker://127.0.0.1:{}/{repository}", registry.port);
    let listed = sh("skopeo", &["list-tags", "--tls-verify=false", &place]);
    let listed: Value = serde_json::from_str(&listed).unwrap();
    let tags = listed["Tags"].as_array().unwrap().iter();
    tags.map(|tag| tag.as_str().unwrap().to_owned()).collect()
}

#[test]
fn the_same_image_twice_is_one_artifact_with_its_records() {
    let (place, registry) = (Place::new(), Registry::start(None));
    let address = format!("127.0.0.1:{}/team/node:1", registry.port);
    let to = format!("oci+http://{address}");
    let seen = |text: String| text.replace(&registry.port.to_string(), "[port]");
    insta::assert_snapshot!(
        "artifact_planned",
        seen(said(&place.publish(&["--to", &to, "--dry-run"], &[])))
    );
    assert!(!place.path("published.json").exists());
    let first = said(&place.publish(&["--to", &to], &[]));
    assert!(first.ends_with(" sent, 0 already there\n"), "{first}");
    let record = place.published();
    let again = said(&place.publish(&["--to", &to], &[]));
    insta::assert_snapshot!("artifact_again", seen(again));
    // What is known of it from the first time is not forgotten.
    let objects = |record: &Value| record["publications"][0]["objects"].clone();
    assert_eq!(objects(&record), objects(&place.published()));

    let manifest: Value = serde_json::from_str(&raw(&address)).unwrap();
    assert_eq!(manifest["artifactType"], "application/vnd.winimg.image.v1");
    let layers = manifest["layers"].as_array().unwrap();
    for layer in layers {
        let name = layer["annotations"]["org.opencontainers.image.title"]
            .as_str()
            .unwrap();
        let bytes = fs::read(place.path(name)).unwrap();
        assert_eq!(
            layer["digest"],
            Digest::sha256_of(&bytes).to_string(),
            "{name}"
        );
    }
    // Debian's registry lists no referrers: the tag of the specification does.
    let digest = Digest::sha256_of(raw(&address).as_bytes());
    let listed = format!(
        "127.0.0.1:{}/team/node:sha256-{}",
        registry.port,
        digest.hex()
    );
    let listed: Value = serde_json::from_str(&raw(&listed)).unwrap();
    let kinds: Vec<&str> = listed["manifests"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| one["artifactType"].as_str().unwrap())
        .collect();
    assert_eq!(
        kinds,
        [
            "application/spdx+json",
            "application/vnd.in-toto+json",
            "application/json"
        ]
    );
    let attached = listed["manifests"][1]["digest"].as_str().unwrap();
    let attached = raw(&format!("127.0.0.1:{}/team/node@{attached}", registry.port));
    let attached: Value = serde_json::from_str(&attached).unwrap();
    assert_eq!(attached["subject"]["digest"], digest.to_string());
}

#[test]
fn a_container_disk_is_pulled_as_an_image() {
    let (place, registry) = (Place::new(), Registry::start(None));
    let address = format!("127.0.0.1:{}/team/disk:1", registry.port);
    said(&place.publish(&["--to", &format!("containerdisk+http://{address}")], &[]));
    let pulled = tempfile::tempdir().unwrap();
    let folder = format!("dir:{}", pulled.path().display());
    sh(
        "skopeo",
        &[
            "copy",
            "--src-tls-verify=false",
            &format!("docker://{address}"),
            &folder,
        ],
    );
    let manifest: Value = serde_json::from_str(&raw(&address)).unwrap();
    let layer = manifest["layers"][0]["digest"].as_str().unwrap();
    let layer = pulled.path().join(layer.strip_prefix("sha256:").unwrap());
    let unpacked = pulled.path().join("unpacked");
    fs::create_dir(&unpacked).unwrap();
    sh(
        "tar",
        &[
            "-xf",
            layer.to_str().unwrap(),
            "-C",
            unpacked.to_str().unwrap(),
        ],
    );
    let disk = fs::read(unpacked.join("disk/demo.qcow2")).unwrap();
    assert!(disk == fs::read(place.path("demo.qcow2")).unwrap());
}

#[test]
fn a_line_that_fails_every_third_request_delays_and_no_more() {
    let (place, registry) = (Place::new(), Registry::start(None));
    let line = Unreliable::every_third(registry.port);
    let to = format!("oci+http://127.0.0.1:{}/team/node:1", line.port);
    let output = place.publish(&["--to", &to], &[]);
    assert!(
        said(&output).ends_with(" already there\n"),
        "{}",
        complained(&output)
    );
    assert!(
        complained(&output).contains("trying again in"),
        "{}",
        complained(&output)
    );
    assert!(line.asked() > 30, "{}", line.asked());
    let straight = format!("127.0.0.1:{}/team/node:1", registry.port);
    let manifest: Value = serde_json::from_str(&raw(&straight)).unwrap();
    let disk = manifest["layers"][0]["digest"].as_str().unwrap();
    let blob = Command::new("curl")
        .args([
            "-sf",
            &format!(
                "http://127.0.0.1:{}/v2/team/node/blobs/{disk}",
                registry.port
            ),
        ])
        .output()
        .expect("curl");
    assert!(blob.stdout == fs::read(place.path("demo.vhd")).unwrap());
}

#[test]
fn another_image_is_not_replaced_unasked() {
    let (place, registry) = (Place::new(), Registry::start(None));
    let address = format!("127.0.0.1:{}/team/node:1", registry.port);
    let to = format!("oci+http://{address}");
    said(&place.publish(&["--to", &to, "--only", "vhd"], &[]));
    let before = raw(&address);
    let output = place.publish(&["--to", &to], &[]);
    assert_eq!(output.status.code(), Some(15));
    let digest = Digest::sha256_of(before.as_bytes());
    assert_eq!(
        complained(&output),
        format!(
            "error: 1 file at the destination would be replaced\n  | {address}: the manifest {digest}\n  \
             cure: choose another folder or tag, or use --replace\n"
        )
    );
    assert_eq!(raw(&address), before);
    said(&place.publish(&["--to", &to, "--replace"], &[]));
    assert_ne!(raw(&address), before);
    assert_eq!(
        tags(&registry, "team/node")
            .iter()
            .filter(|t| *t == "1")
            .count(),
        1
    );
}

#[test]
fn a_registry_that_wants_a_login_says_so() {
    // `htpasswd -nbB ci hunter2`
    let line = "ci:$2y$05$9nVbZ8Q0xS8fJp0VtW3G8e6O5oYH7l3mX1rPp1P3p0pQF3E4b8s6S";
    let (place, registry) = (Place::new(), Registry::start(Some(line)));
    let to = format!("oci+http://127.0.0.1:{}/team/node:1", registry.port);
    let output = place.publish(&["--to", &to], &[]);
    assert_eq!(output.status.code(), Some(15));
    let text = complained(&output);
    assert!(text.contains("the registry denies access"), "{text}");
    assert!(text.contains("`docker login 127.0.0.1:"), "{text}");
    assert!(!place.path("published.json").exists());
}
