//! An image in registries and on servers that do not behave as most do.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use support::server::{Answer, Asked, Server};
use winimg_base::digest::Digest;

use crate::publish::place::{Place, complained, said};

/// What a registry answers to what it is given.
#[derive(Clone, Copy)]
struct Ways {
    blob: &'static str,
    manifest: &'static str,
    /// It has what it took.
    keeps: bool,
    /// It says of a manifest that it has the digest of something else.
    is_other: bool,
}

const USUAL: Ways = Ways {
    blob: "201 Created",
    manifest: "201 Created",
    keeps: true,
    is_other: false,
};

type Held = Arc<Mutex<BTreeMap<String, Vec<u8>>>>;

fn registry(ways: Ways) -> Server {
    let held = Held::default();
    Server::start(move |asked| answer(asked, ways, &held))
}

fn answer(asked: &Asked, ways: Ways, held: &Held) -> Answer {
    let mut held = held.lock().expect("what it has");
    let (path, query) = asked.path.split_once('?').unwrap_or((&asked.path, ""));
    let name = path.rsplit('/').next().unwrap_or_default();
    let given = query
        .split('&')
        .find_map(|pair| pair.strip_prefix("digest="));
    match (asked.method.as_str(), path.contains("/uploads/")) {
        (_, _) if path == "/v2/" => Answer::new("200 OK", &[], "{}"),
        ("POST", true) => {
            let place = format!("{path}{}", held.len());
            Answer::new("202 Accepted", &[("location", &place)], "")
        }
        ("PATCH", true) => {
            held.entry(path.to_owned()).or_default().extend(&asked.body);
            Answer::new("202 Accepted", &[("location", path)], "")
        }
        ("PUT", true) => {
            let mut bytes = held.remove(path).unwrap_or_default();
            bytes.extend(&asked.body);
            if ways.keeps {
                let digest = given.unwrap_or_default().replace("%3A", ":");
                held.insert(digest, bytes);
            }
            Answer::new(ways.blob, &[], "")
        }
        ("PUT", false) => {
            let digest = Digest::sha256_of(&asked.body).to_string();
            if ways.keeps {
                held.insert(name.to_owned(), asked.body.clone());
                held.insert(digest.clone(), asked.body.clone());
            }
            let digest = if ways.is_other {
                Digest::sha256_of(b"other").to_string()
            } else {
                digest
            };
            Answer::new(ways.manifest, &[("docker-content-digest", &digest)], "")
        }
        _ => match held.get(name) {
            Some(bytes) => Answer::new("200 OK", &[], bytes.clone()),
            None => Answer::new("404 Not Found", &[], ""),
        },
    }
}

fn to(server: &Server) -> String {
    format!("oci+http://{}/team/node:1", server.host())
}

#[test]
fn every_status_that_says_that_it_was_taken_is_success() {
    let place = Place::new();
    for (blob, manifest) in [
        ("201 Created", "202 Accepted"),
        ("201 Created", "200 OK"),
        ("202 Accepted", "201 Created"),
        ("204 No Content", "201 Created"),
    ] {
        let server = registry(Ways {
            blob,
            manifest,
            ..USUAL
        });
        let output = place.publish(&["--to", &to(&server), "--only", "vhd"], &[]);
        assert!(
            said(&output).contains(" sent, 0 already there"),
            "{blob} {manifest}"
        );
    }
}

#[test]
fn what_a_registry_took_and_does_not_have_is_no_success() {
    let place = Place::new();
    for (ways, fact) in [
        (
            Ways {
                blob: "202 Accepted",
                keeps: false,
                ..USUAL
            },
            "it answered 202 but does not have it",
        ),
        (
            Ways {
                is_other: true,
                ..USUAL
            },
            "the bytes are sha256:",
        ),
    ] {
        let server = registry(ways);
        let output = place.publish(&["--to", &to(&server), "--only", "vhd"], &[]);
        assert_eq!(output.status.code(), Some(15));
        assert!(
            complained(&output).contains(fact),
            "{}",
            complained(&output)
        );
    }
}

/// A server that wants this token.
fn guarded(asked: &Asked) -> Answer {
    match (asked.header("authorization"), asked.method.as_str()) {
        (Some("Bearer t0ken"), "HEAD") => Answer::new("404 Not Found", &[], ""),
        (Some("Bearer t0ken"), _) => Answer::new("201 Created", &[], ""),
        _ => Answer::new("401 Unauthorized", &[], ""),
    }
}

#[test]
fn a_token_is_taken_without_the_line_break_behind_it_and_no_other_is_sent() {
    let (place, server) = (Place::new(), Server::start(guarded));
    let to = server.url("/images");
    let publish = |token: &str| {
        let variables = [("WINIMG_PUBLISH_TOKEN", token)];
        place.publish(&["--to", &to, "--dry-run"], &variables)
    };
    assert!(said(&publish("t0ken\n")).contains("to be sent"));
    let asked = server.log().len();
    for token in ["t0 ken", "t0\nken", "t0k\u{e9}n"] {
        let refused = publish(token);
        assert_eq!(refused.status.code(), Some(2));
        let text = complained(&refused);
        assert!(
            text.contains("at: WINIMG_PUBLISH_TOKEN") && !text.contains("t0"),
            "{text}"
        );
    }
    assert_eq!(server.log().len(), asked);
}
