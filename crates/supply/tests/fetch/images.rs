//! Container images from a registry of our own: which manifest is taken, what proves it, what `ctr`
//! is given.

use std::io::Read;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::{Value, json};
use winimg_base::digest::Digest;
use winimg_base::event::Sink;
use winimg_recipe::{ContainerImage, ImageProof};
use winimg_supply::fetch::FetchSource;
use winimg_supply::fetch::image::{FetchedImage, fetch_images};

use crate::fetch::desk::Desk;
use support::registry::{INDEX, answer, of_one_layer, pause};
use support::server::{Answer, Cut, Server};

fn spec(desk: &Desk, server: &Server, proof: ImageProof) -> ContainerImage {
    let address = server.url("").replace("http://", "");
    let reference = format!("http://{}/pause:3.10.2", address.trim_end_matches('/'));
    desk.container(&reference, proof)
}

fn fetch(desk: &Desk, spec: ContainerImage, build: &str) -> Result<FetchedImage, String> {
    let sink = Arc::clone(&desk.events) as Arc<dyn Sink>;
    let fetched = fetch_images(
        &[spec],
        build,
        &desk.store(),
        &sink,
        &desk.cancel,
        &desk.options,
    );
    fetched.map(|mut i| i.remove(0)).map_err(|e| desk.text(&e))
}

/// The image pinned by `digest`, for this build of Windows.
fn fetch_pinned(
    desk: &Desk,
    server: &Server,
    digest: &str,
    build: &str,
) -> Result<FetchedImage, String> {
    fetch(desk, spec(desk, server, desk.pin_image(digest)), build)
}

/// Names and contents of the archive, the port taken out.
fn archive(desk: &Desk, image: &FetchedImage, server: &Server) -> Vec<(String, String)> {
    let path = desk.folder.path().join("image.tar");
    image.write(&path).unwrap();
    let port = server.url("").replace("http://", "");
    let mut tar = tar::Archive::new(std::fs::File::open(path).unwrap());
    let entries = tar.entries().unwrap().map(|entry| {
        let mut entry = entry.unwrap();
        let name = entry.path().unwrap().display().to_string();
        let mut text = String::new();
        entry.read_to_string(&mut text).unwrap();
        (name, text.replace(port.trim_end_matches('/'), "registry"))
    });
    entries.collect()
}

#[test]
fn of_an_index_the_newest_of_the_windows_build_is_taken() {
    let (held, digest) = pause();
    let server = Server::start(move |asked| answer(&held, asked));
    let desk = Desk::new();
    let image = fetch_pinned(&desk, &server, &digest, "10.0.20348").unwrap();
    assert_eq!(image.os_version.as_deref(), Some("10.0.20348.1000"));
    let files = archive(&desk, &image, &server);
    let names: Vec<&str> = files.iter().map(|(name, _)| name.as_str()).collect();
    let blob = |n: usize| format!("blobs/sha256/{}", &names[n]["blobs/sha256/".len()..]);
    assert_eq!(names[..2], ["oci-layout", "index.json"]);
    assert_eq!(files.len(), 5, "{names:?}");
    for (n, (name, text)) in files.iter().enumerate().skip(2) {
        let digest = Digest::sha256_of(text.as_bytes()).to_string();
        assert_eq!(*name, blob(n));
        assert!(name.ends_with(&digest["sha256:".len()..]));
    }
    assert_eq!(files[4].1, "layer of windows 10.0.20348.1000");
    let index: Value = serde_json::from_str(&files[1].1).unwrap();
    assert_eq!(
        index["manifests"][0]["annotations"]["io.containerd.image.name"],
        "registry/pause:3.10.2"
    );
    assert_eq!(
        index["manifests"][0]["digest"],
        image.manifest.blob.digest().to_string()
    );
    // The same bytes every time, and nothing is asked for twice.
    let again = desk.folder.path().join("again.tar");
    image.write(&again).unwrap();
    let first = std::fs::read(desk.folder.path().join("image.tar")).unwrap();
    assert_eq!(first, std::fs::read(again).unwrap());
    assert_eq!(image.from(), FetchSource::Network);
    let asked = server.log().len();
    let image = fetch_pinned(&desk, &server, &digest, "10.0.20348").unwrap();
    assert_eq!(image.from(), FetchSource::Cache);
    assert_eq!(server.log().len(), asked);
}

#[test]
fn a_windows_that_the_image_does_not_have_is_reported_with_those_it_has() {
    let (held, digest) = pause();
    let server = Server::start(move |asked| answer(&held, asked));
    let desk = Desk::new();
    let text = fetch_pinned(&desk, &server, &digest, "10.0.26100").unwrap_err();
    insta::assert_snapshot!(text);
}

#[test]
fn other_bytes_than_the_digest_says_are_refused() {
    let (held, digest) = pause();
    let desk = Desk::new();
    let mut changed = held.clone();
    for (_, bytes) in changed.0.values_mut() {
        if bytes.starts_with(b"layer") {
            bytes[0] = b'L';
        }
    }
    let server = Server::start(move |asked| answer(&changed, asked));
    let text = fetch_pinned(&desk, &server, &digest, "10.0.20348").unwrap_err();
    assert!(text.contains("does not match its digest"), "{text}");

    // A moved tag: the index is another one than the recipe pins.
    let mut moved = held;
    let other = json!({ "schemaVersion": 2, "mediaType": INDEX, "manifests": [] }).to_string();
    moved.0.insert(digest.clone(), (INDEX, other.into_bytes()));
    let server = Server::start(move |asked| answer(&moved, asked));
    let desk = Desk::new();
    let text = fetch_pinned(&desk, &server, &digest, "10.0.20348").unwrap_err();
    assert!(text.contains("does not match its digest"), "{text}");
}

#[test]
fn a_tag_is_followed_only_with_a_warning() {
    let (held, _) = pause();
    let server = Server::start(move |asked| answer(&held, asked));
    let desk = Desk::new();
    let reason = desk.located(4, "a test".to_owned());
    let image = fetch(
        &desk,
        spec(&desk, &server, ImageProof::Unverified { reason }),
        "10.0.17763",
    )
    .unwrap();
    assert_eq!(image.os_version.as_deref(), Some("10.0.17763.8000"));
    assert_eq!(
        desk.warnings(),
        ["image pause is not pinned to a digest: a test"]
    );
}

#[test]
fn a_layer_that_breaks_off_is_fetched_again() {
    let (held, digest) = pause();
    let server = Server::start(move |asked| {
        let answer = answer(&held, asked);
        match asked.number {
            n if n < 3 && asked.path.contains("/blobs/") => answer.cut(3, Cut::Close),
            _ => answer,
        }
    });
    let desk = Desk::new();
    fetch_pinned(&desk, &server, &digest, "10.0.20348").unwrap();
}

#[test]
fn a_registry_that_wants_a_password_is_named() {
    let server = Server::start(|_| Answer::new("401 Unauthorized", &[], ""));
    let desk = Desk::new();
    let digest = format!("sha256:{}", "0".repeat(64));
    let text = fetch_pinned(&desk, &server, &digest, "10.0.20348").unwrap_err();
    let port = server.url("").replace("http://", "");
    insta::assert_snapshot!(text.replace(port.trim_end_matches('/'), "registry"));
}

#[test]
fn an_image_that_is_longer_than_any_input_is_refused_before_its_layers_come() {
    let (held, digest) = pause();
    let server = Server::start(move |asked| answer(&held, asked));
    let mut desk = Desk::new();
    desk.options.longest = 50;
    let text = fetch_pinned(&desk, &server, &digest, "10.0.20348").unwrap_err();
    assert!(
        text.contains("image pause exceeds the maximum image size"),
        "{text}"
    );
    assert!(text.contains("expected: 50 bytes at most"), "{text}");
    let log = server.log();
    assert!(!log.iter().any(|path| path.contains("/blobs/")), "{log:?}");
}

#[test]
fn addresses_that_a_manifest_names_are_not_followed() {
    let other = Server::start(|_| Answer::new("200 OK", &[], "a layer of elsewhere"));
    let layer = Digest::sha256_of(b"a layer of elsewhere").to_string();
    let manifest = json!({
        "schemaVersion": 2,
        "mediaType": "application/vnd.oci.image.manifest.v1+json",
        "config": { "mediaType": "application/vnd.oci.image.config.v1+json", "digest": layer, "size": 20 },
        "layers": [{
            "mediaType": "application/vnd.oci.image.layer.nondistributable.v1.tar+gzip",
            "digest": layer, "size": 20, "urls": [other.url("/layer")],
        }],
    });
    let manifest = manifest.to_string().into_bytes();
    let digest = Digest::sha256_of(&manifest).to_string();
    let mut held = support::registry::Held::default();
    let of_image = "application/vnd.oci.image.manifest.v1+json";
    held.0.insert(digest.clone(), (of_image, manifest));
    let server = Server::start(move |asked| answer(&held, asked));
    let desk = Desk::new();
    let text = fetch_pinned(&desk, &server, &digest, "10.0.20348").unwrap_err();
    assert!(text.contains("cannot be fetched"), "{text}");
    assert_eq!(other.log(), [""; 0]);
}

#[test]
fn a_tag_that_is_not_there_is_reported_with_its_cure() {
    let server = Server::start(|asked| answer(&support::registry::Held::default(), asked));
    let desk = Desk::new();
    let reason = desk.located(4, "a test".to_owned());
    let proof = ImageProof::Unverified { reason };
    let text = fetch(&desk, spec(&desk, &server, proof), "10.0.20348").unwrap_err();
    let cure = "cure: check the tag or the digest in the registry";
    assert!(text.contains(cure), "{text}");
}

#[test]
fn a_registry_that_is_asked_too_often_is_asked_again() {
    let (held, digest) = pause();
    let refused = AtomicBool::new(false);
    let server = Server::start(move |asked| {
        if asked.path.contains("/manifests/") {
            if !refused.swap(true, Ordering::SeqCst) {
                Answer::new(
                    "429 Too Many Requests",
                    &[("content-type", "application/json")],
                    r#"{"errors":[{"code":"TOOMANYREQUESTS","message":"wait"}]}"#,
                )
            } else {
                answer(&held, asked)
            }
        } else {
            answer(&held, asked)
        }
    });
    let desk = Desk::new();
    fetch_pinned(&desk, &server, &digest, "10.0.20348").unwrap();
}

/// docker's type of layers whose bytes are Microsoft's, and the one of OCI for the same.
const FOREIGN: [&str; 2] = [
    "application/vnd.docker.image.rootfs.foreign.diff.tar.gzip",
    "application/vnd.oci.image.layer.nondistributable.v1.tar+gzip",
];

#[test]
fn a_foreign_layer_is_taken_where_the_registry_has_it() {
    for media_type in FOREIGN {
        let (held, digest, layer) = of_one_layer(media_type);
        let server = Server::start(move |asked| answer(&held, asked));
        let desk = Desk::new();
        let image = fetch_pinned(&desk, &server, &digest, "10.0.20348").unwrap();
        assert_eq!(image.parts[1].blob.digest().to_string(), layer);
        assert_eq!(image.parts[1].media_type, media_type);
    }
}

#[test]
fn a_foreign_layer_that_the_registry_does_not_have_is_named() {
    for media_type in FOREIGN {
        let (mut held, digest, layer) = of_one_layer(media_type);
        held.0.remove(&layer);
        let server = Server::start(move |asked| answer(&held, asked));
        let text = fetch_pinned(&Desk::new(), &server, &digest, "10.0.20348").unwrap_err();
        assert!(
            text.contains("has a foreign layer, and its registry does not have it"),
            "{text}"
        );
        assert!(text.contains(media_type) && text.contains(&layer), "{text}");
    }
    // Of an ordinary layer that is missing, nothing of that is said.
    let (mut held, digest, layer) = of_one_layer("application/vnd.oci.image.layer.v1.tar+gzip");
    held.0.remove(&layer);
    let server = Server::start(move |asked| answer(&held, asked));
    let text = fetch_pinned(&Desk::new(), &server, &digest, "10.0.20348").unwrap_err();
    assert!(!text.contains("foreign"), "{text}");
}

/// A registry that lets everybody in at its first address and wants a token for the rest; what
/// gives the token says this.
fn wants_a_token_later(given: &'static str) -> (Server, String) {
    let (held, digest) = pause();
    let server = Server::start(move |asked| {
        let host = asked.header("host").unwrap_or_default();
        match (asked.path.as_str(), asked.header("authorization")) {
            ("/v2/", _) => Answer::new("200 OK", &[], "{}"),
            (path, None) if path.starts_with("/token") => Answer::new("200 OK", &[], given),
            (_, Some("Bearer t0ken")) => answer(&held, asked),
            _ => {
                let scope = "repository:pause:pull registry:catalog:*";
                let realm =
                    format!("Bearer realm=\"http://{host}/token\",service=\"r\",scope=\"{scope}\"");
                Answer::new("401 Unauthorized", &[("www-authenticate", &realm)], "")
            }
        }
    });
    (server, digest)
}

#[test]
fn a_token_is_asked_for_where_any_answer_wants_one() {
    for given in [
        r#"{"token": "t0ken"}"#,
        r#"{"token": "", "access_token": "t0ken"}"#,
        r#"{"access_token": "t0ken", "expires_in": 300}"#,
    ] {
        let (server, digest) = wants_a_token_later(given);
        fetch_pinned(&Desk::new(), &server, &digest, "10.0.20348").unwrap();
        // With the rights that the answer names, each once; and not again for each part.
        let log = server.log();
        let tokens: Vec<_> = log.iter().filter(|line| line.contains("/token")).collect();
        assert_eq!(
            tokens,
            ["GET /token?scope=repository%3Apause%3Apull&scope=registry%3Acatalog%3A*&service=r"]
        );
    }
    // A token that does not help is asked for once.
    let (server, digest) = wants_a_token_later(r#"{"token": "other"}"#);
    let text = fetch_pinned(&Desk::new(), &server, &digest, "10.0.20348").unwrap_err();
    assert!(text.contains("not authorized"), "{text}");
    assert_eq!(
        server
            .log()
            .iter()
            .filter(|line| line.contains("/token"))
            .count(),
        1
    );
}
