//! An image on a WebDAV server (PyPI: wsgidav).

use std::fs;

use support::unreliable::Unreliable;

use crate::publish::place::{Place, Python, complained, said};

/// The server, and the folder that it serves.
fn dav() -> (Python, tempfile::TempDir) {
    let folder = tempfile::tempdir().expect("a folder");
    let root = folder.path().join("root");
    fs::create_dir_all(root.join("images")).expect("a folder");
    let root = root.display().to_string();
    let server = Python::start("wsgidav", folder.path(), |port| {
        let port = port.to_string();
        let arguments = [
            "--host=127.0.0.1",
            "--port",
            &port,
            "--root",
            &root,
            "--auth=anonymous",
            "--no-config",
        ];
        arguments.map(str::to_owned).to_vec()
    });
    (server, folder)
}

#[test]
fn files_are_put_once_under_their_names() {
    let (place, (server, folder)) = (Place::new(), dav());
    let line = Unreliable::every_third(server.port);
    let to = format!("http://127.0.0.1:{}/images", line.port);
    let first = place.publish(&["--to", &to], &[]);
    assert!(
        said(&first).ends_with("6 sent, 0 already there\n"),
        "{}",
        said(&first)
    );
    for name in [
        "demo.vhd",
        "demo.oci.tar",
        "sbom.spdx.json",
        "provenance.intoto.json",
        "manifest.json",
    ] {
        let there = fs::read(folder.path().join("root/images").join(name)).unwrap();
        assert!(there == fs::read(place.path(name)).unwrap(), "{name}");
    }
    // The server names no digest; the record of the first run does.
    let again = place.publish(&["--to", &to], &[]);
    assert!(
        said(&again).ends_with("0 sent, 6 already there\n"),
        "{}",
        said(&again)
    );
    fs::remove_file(place.path("published.json")).unwrap();
    let unknown = place.publish(&["--to", &to], &[]);
    assert_eq!(unknown.status.code(), Some(15));
    assert!(
        complained(&unknown).contains("bytes, without a digest"),
        "{}",
        complained(&unknown)
    );
}

#[test]
fn nothing_is_sent_of_an_image_that_was_changed() {
    let (place, (server, folder)) = (Place::new(), dav());
    let mut disk = fs::read(place.path("demo.vhd")).unwrap();
    disk[5000] ^= 1;
    fs::write(place.path("demo.vhd"), disk).unwrap();
    fs::remove_file(place.path("demo.oci.tar")).unwrap();
    let to = format!("http://127.0.0.1:{}/images", server.port);
    let output = place.publish(&["--to", &to], &[]);
    assert_eq!(output.status.code(), Some(15));
    let text = complained(&output);
    assert!(
        text.starts_with("error: 2 files differ from what the build wrote\n"),
        "{text}"
    );
    assert!(text.contains("| demo.oci.tar is missing"), "{text}");
    assert!(text.contains("| demo.vhd: expected "), "{text}");
    assert_eq!(
        fs::read_dir(folder.path().join("root/images"))
            .unwrap()
            .count(),
        0
    );
}

#[test]
fn a_traced_run_shows_no_token() {
    let (place, (server, _folder)) = (Place::new(), dav());
    let to = format!("http://127.0.0.1:{}/images", server.port);
    let secret = [("WINIMG_PUBLISH_TOKEN", "hunter2"), ("WINIMG_LOG", "trace")];
    let output = place.publish(&["--to", &to, "-vv"], &secret);
    let text = said(&output) + &complained(&output);
    assert!(text.contains("request url=http://127.0.0.1"), "{text}");
    assert!(!text.contains("hunter2"), "{text}");
}

#[test]
fn a_password_goes_over_https_alone() {
    let place = Place::new();
    let secret = [("WINIMG_PUBLISH_TOKEN", "hunter2")];
    let output = place.publish(&["--to", "http://files.example.com/images"], &secret);
    assert_eq!(output.status.code(), Some(2));
    let text = complained(&output);
    assert!(
        text.starts_with("error: the password for the server would be sent unencrypted\n"),
        "{text}"
    );
    assert!(!text.contains("hunter2"), "{text}");
}

#[test]
fn a_manifest_leads_neither_out_of_its_folder_nor_out_of_the_servers() {
    let (server, folder) = dav();
    let to = format!("http://127.0.0.1:{}/images", server.port);
    let elsewhere = tempfile::tempdir().expect("a folder");
    let secret = elsewhere.path().join("secret");
    let bytes = b"a secret of the host";
    fs::write(&secret, bytes).unwrap();
    let name = elsewhere.path().file_name().unwrap().to_str().unwrap();
    let climbing = format!("../{name}/secret");
    for file in [
        secret.to_str().unwrap(),
        &climbing,
        "link",
        "linked/secret",
        "pipe",
    ] {
        let place = Place::new();
        std::os::unix::fs::symlink(&secret, place.path("link")).unwrap();
        std::os::unix::fs::symlink(elsewhere.path(), place.path("linked")).unwrap();
        let made = std::process::Command::new("mkfifo")
            .arg(place.path("pipe"))
            .status();
        assert!(made.unwrap().success());
        let text = fs::read_to_string(place.path("manifest.json")).unwrap();
        let mut manifest: serde_json::Value = serde_json::from_str(&text).unwrap();
        let artifact = &mut manifest["artifacts"][0];
        artifact["file"] = file.into();
        artifact["size"] = bytes.len().into();
        artifact["sha256"] = winimg_base::digest::Digest::sha256_of(bytes).hex().into();
        fs::write(place.path("manifest.json"), manifest.to_string()).unwrap();
        let output = place.publish(&["--to", &to], &[]);
        assert_eq!(output.status.code(), Some(15), "{file}");
        let why = match file {
            "pipe" => format!("| {file} is not a regular file"),
            _ => format!("| {file} is not in the manifest's folder"),
        };
        let text = complained(&output);
        assert!(text.contains(&why), "{text}");
    }
    // A record that is a link is not sent either.
    let place = Place::new();
    fs::remove_file(place.path("sbom.spdx.json")).unwrap();
    std::os::unix::fs::symlink(&secret, place.path("sbom.spdx.json")).unwrap();
    let output = place.publish(&["--to", &to], &[]);
    assert_eq!(output.status.code(), Some(15));
    let text = complained(&output);
    assert!(
        text.contains("sbom.spdx.json is not in the manifest's folder"),
        "{text}"
    );
    let images = folder.path().join("root/images");
    assert_eq!(fs::read_dir(images).unwrap().count(), 0);
}
