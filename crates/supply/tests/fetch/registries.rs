//! Registries that are after something: passwords, a way around TLS. What else a server may do,
//! `hostile` has.

use std::env;
use std::fs;
use std::process::Stdio;
use std::sync::{Arc, Mutex};
use support::tree::this_program_as;

use winimg_base::digest::Digest;
use winimg_base::event::Sink;
use winimg_base::text::Secret;
use winimg_recipe::ImageProof;
use winimg_supply::fetch::image::fetch_images;
use winimg_supply::fetch::shared_cache::{
    CacheAddress, Credentials, DEFAULT_TIMEOUTS, SharedCacheClient, SharedCacheSettings,
};
use winimg_supply::store::ProgressWatch;

use crate::fetch::desk::Desk;
use crate::fetch::processes::said;
use support::registry::{answer, pause};
use support::server::{Answer, Asked, Server};

fn image(desk: &Desk, reference: String, digest: Option<String>) -> String {
    let proof = match digest {
        Some(digest) => desk.pin_image(&digest),
        None => ImageProof::Unverified {
            reason: desk.located(4, "a test".into()),
        },
    };
    let spec = desk.container(&reference, proof);
    let sink = Arc::clone(&desk.events) as Arc<dyn Sink>;
    let (store, options) = (desk.store(), &desk.options);
    let fetched = fetch_images(&[spec], "10.0.20348", &store, &sink, &desk.cancel, options);
    match fetched {
        Ok(_) => "it is fetched".into(),
        Err(error) => desk.text(&error),
    }
}

/// Bytes of an input.
const LIMIT: u64 = 1 << 10;

/// An input of a shared cache, asked for as `ci`.
fn shared(desk: &Desk, address: &str, digest: &str) -> String {
    let spec = SharedCacheSettings {
        proxies: Default::default(),
        address: CacheAddress::parse(address).unwrap(),
        login: Some(Credentials::new("ci", Secret::new("open-sesame"))).into(),
        keys: Vec::new(),
        push: None,
        patience: DEFAULT_TIMEOUTS,
    };
    let sink = Arc::clone(&desk.events) as Arc<dyn Sink>;
    let remote = SharedCacheClient::open(spec, &sink, &desk.cancel).unwrap();
    let file = fs::File::create(desk.folder.path().join("came")).unwrap();
    let watch = ProgressWatch::new("kubelet", sink, desk.cancel.clone());
    let came = remote.pull_blob(&digest.parse().unwrap(), LIMIT, file, &desk.store(), &watch);
    if came.unwrap() {
        "it came".into()
    } else {
        desk.warnings().join("\n")
    }
}

/// Not a test of its own: the others start this binary again for it, with the roots that it is to
/// trust.
#[test]
#[ignore = "started by the other tests"]
fn child() {
    let mut desk = Desk::new();
    desk.options.tries = 1;
    let set = |name: &str| env::var(name).ok();
    let digest = set("TEST_DIGEST");
    let rendered = match set("TEST_IMAGE") {
        Some(reference) => image(&desk, reference, digest),
        None => shared(&desk, &set("TEST_CACHE").unwrap(), &digest.unwrap()),
    };
    println!("CHILD\n{rendered}\nEND");
}

/// A registry with TLS, and what came to other addresses.
struct Trap {
    registry: Server,
    roots: String,
    elsewhere: Server,
    /// The credentials that came, by the path that they came with.
    learnt: Arc<Mutex<Vec<String>>>,
    desk: Desk,
}

impl Trap {
    /// `answer` is told the address of a plain server of its owner's.
    fn new(
        answer: impl Fn(&Asked, &str) -> Answer + Send + Sync + 'static,
        other: impl Fn(&Asked) -> Answer + Send + Sync + 'static,
    ) -> Self {
        let learnt: Arc<Mutex<Vec<String>>> = Arc::default();
        let note = |asked: &Asked, learnt: &Mutex<Vec<String>>| {
            if let Some(word) = asked.header("authorization") {
                let (kind, _) = word.split_once(' ').unwrap();
                let path = asked.path.split('?').next().unwrap();
                learnt.lock().unwrap().push(format!("{kind} to {path}"));
            }
        };
        let noted = Arc::clone(&learnt);
        let elsewhere = Server::start(move |asked| {
            note(asked, &noted);
            other(asked)
        });
        let (noted, url) = (Arc::clone(&learnt), elsewhere.url(""));
        let (registry, pem) = Server::start_tls(move |asked| {
            note(asked, &noted);
            answer(asked, &url)
        });
        let desk = Desk::new();
        let roots = desk.write("roots.pem", pem).display().to_string();
        Self {
            registry,
            roots,
            elsewhere,
            learnt,
            desk,
        }
    }

    fn rendered(&self, set: &[(&str, &str)]) -> String {
        let child = this_program_as(module_path!(), "child")
            .env("SSL_CERT_FILE", &self.roots)
            .env("TEST_STORE", self.desk.store().folder())
            .envs(set.iter().copied())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let text = said(child).replace(&self.registry.host(), "HOST");
        text.replace(&self.elsewhere.host(), "ELSEWHERE")
    }

    fn image(&self, digest: &str) -> String {
        let reference = format!("{}/pause:3.10.2", self.registry.host());
        let mut set = vec![("TEST_IMAGE", reference.as_str())];
        if !digest.is_empty() {
            set.push(("TEST_DIGEST", digest));
        }
        self.rendered(&set)
    }

    fn shared(&self) -> String {
        let cache = format!("oci://{}/team/cache", self.registry.host());
        let digest = Digest::sha256_of(b"content").to_string();
        self.rendered(&[("TEST_CACHE", &cache), ("TEST_DIGEST", &digest)])
    }

    fn learnt(&self) -> Vec<String> {
        self.learnt.lock().unwrap().clone()
    }
}

/// Asks for a token of this realm.
fn bearer(realm: &str) -> Answer {
    let asks = format!("Bearer realm=\"{realm}\",service=\"cache\"");
    Answer::new("401 Unauthorized", &[("www-authenticate", &asks)], "")
}

fn token(_: &Asked) -> Answer {
    Answer::new("200 OK", &[], r#"{"token": "t0ken"}"#)
}

#[test]
fn passwords_go_to_the_registry_alone() {
    let trap = Trap::new(|_, other| bearer(&format!("{other}/token")), token);
    insta::assert_snapshot!("a_realm_over_http", trap.shared());
    assert_eq!(trap.learnt(), [""; 0]);
    assert_eq!(trap.elsewhere.log(), [""; 0]);

    let trap = Trap::new(|_, _| bearer("https://localhost:1/token"), token);
    insta::assert_snapshot!("a_realm_of_another_host", trap.shared());
    assert_eq!(trap.learnt(), [""; 0]);

    // What the registry itself asks for it is told, and a file that it sends elsewhere gets
    // nothing.
    let own = |asked: &Asked, _: &str| match asked.path.split('?').next().unwrap() {
        "/token" => token(asked),
        "/v2/" => {
            let host = asked.header("host").unwrap();
            bearer(&format!("https://{host}/token"))
        }
        _ => Answer::new("200 OK", &[], "content"),
    };
    let trap = Trap::new(own, token);
    assert_eq!(trap.shared(), "it came");
    let blob = format!("/v2/team/cache/blobs/{}", Digest::sha256_of(b"content"));
    let rendered = ["Basic to /token".into(), format!("Bearer to {blob}")];
    assert_eq!(trap.learnt(), rendered);
}

#[test]
fn a_password_for_this_machine_goes_to_no_proxy() {
    // Plain http is for registries of this machine alone.
    let own = |asked: &Asked| match asked.path.as_str() {
        "/v2/" => {
            let basic = ("www-authenticate", "Basic realm=\"cache\"");
            Answer::new("401 Unauthorized", &[basic], "")
        }
        _ => Answer::new("200 OK", &[], "content"),
    };
    let trap = Trap::new(|_, _| Answer::new("200 OK", &[], ""), own);
    let proxy = Server::start(|_| Answer::new("200 OK", &[], "content"));
    let cache = format!("oci+http://{}/team/cache", trap.elsewhere.host());
    let digest = Digest::sha256_of(b"content").to_string();
    let url = proxy.url("");
    let rendered = trap.rendered(&[
        ("TEST_CACHE", &cache),
        ("TEST_DIGEST", &digest),
        ("HTTP_PROXY", &url),
        ("http_proxy", &url),
        ("ALL_PROXY", &url),
        ("NO_PROXY", ""),
        ("no_proxy", ""),
    ]);
    assert_eq!(rendered, "it came");
    let blob = format!("/v2/team/cache/blobs/{digest}");
    assert_eq!(trap.learnt(), [format!("Basic to {blob}")]);
    assert_eq!(proxy.log(), [""; 0]);
}

#[test]
fn an_input_of_a_shared_cache_is_bounded_whatever_its_length_is_said_to_be() {
    let content = vec![b'x'; LIMIT as usize];
    for (body, came) in [
        (content.clone(), true),
        ([&content[..], b"x"].concat(), false),
    ] {
        let digest = Digest::sha256_of(&body).to_string();
        let whole = Server::start({
            let body = body.clone();
            move |asked| {
                if asked.path.contains("/blobs/") {
                    Answer::new("200 OK", &[], body.clone())
                } else {
                    Answer::new("200 OK", &[], "")
                }
            }
        });
        let in_pieces = Server::start(move |asked| {
            if asked.path.contains("/blobs/") {
                Answer::chunked(&body)
            } else {
                Answer::new("200 OK", &[], "")
            }
        });
        for server in [whole, in_pieces] {
            let desk = Desk::new();
            let cache = format!("oci+http://{}/team/cache", server.host());
            let rendered = shared(&desk, &cache, &digest);
            if came {
                assert_eq!(rendered, "it came")
            } else {
                let fact = "the shared cache sent more bytes than expected";
                assert!(rendered.contains(fact), "{rendered}");
                assert!(
                    rendered.contains("expected: 1024 bytes at most"),
                    "{rendered}"
                );
            }
        }
    }
}

#[test]
fn an_anonymous_token_is_not_asked_for_over_http() {
    let trap = Trap::new(|_, other| bearer(&format!("{other}/token")), token);
    insta::assert_snapshot!(trap.image(""));
    assert_eq!(trap.elsewhere.log(), [""; 0]);
}

#[test]
fn an_image_over_https_stays_there() {
    let (held, digest) = pause();
    for led in ["/manifests/3.10.2", "/manifests/sha256:", "/blobs/"] {
        let (here, there) = (held.clone(), held.clone());
        let answers = move |asked: &Asked, other: &str| {
            if asked.path.contains(led) {
                Answer::redirect(&format!("{other}{}", asked.path))
            } else {
                answer(&here, asked)
            }
        };
        let trap = Trap::new(answers, move |asked| answer(&there, asked));
        let pinned = if led.ends_with("3.10.2") { "" } else { &digest };
        let rendered = trap.image(pinned);
        let fact = "redirects to http, which is not followed (http://ELSEWHERE/";
        assert!(rendered.contains(fact), "{led}: {rendered}");
        assert_eq!(trap.elsewhere.log(), [""; 0], "{led}");
        // Once: another answer is not to be had.
        let asked = trap.registry.log();
        assert_eq!(asked.iter().filter(|path| path.contains(led)).count(), 1);
    }
}
