//! TLS: whose certificates count, where redirects may lead, and files that nothing proves.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use winimg_base::digest::Digest;

use crate::fetch::desk::Desk;
use crate::fetch::processes::{said, start};
use support::server::{Answer, Asked, Server};

/// A server with TLS, a desk, and a file with its certificate.
struct Secure {
    server: Server,
    desk: Desk,
    roots: String,
}

impl Secure {
    fn new(answer: impl Fn(&Asked) -> Answer + Send + Sync + 'static) -> Self {
        let (server, pem) = Server::start_tls(answer);
        let desk = Desk::new();
        let roots = desk.write("roots.pem", pem).display().to_string();
        Self {
            server,
            desk,
            roots,
        }
    }

    /// Fetches in a process that trusts the server's certificate. The server is shown as HOST.
    fn fetch(&self, path: &str, environment: &[(&str, &str)]) -> String {
        let mut all = vec![("SSL_CERT_FILE", self.roots.as_str())];
        all.extend(environment);
        self.said(path, &all)
    }

    fn said(&self, path: &str, environment: &[(&str, &str)]) -> String {
        let text = said(start(&self.desk, &self.server.url(path), environment));
        text.replace(&self.server.host(), "HOST")
    }
}

#[test]
fn roots_come_from_ssl_cert_file_and_others_are_not_trusted() {
    let secure = Secure::new(|asked| Answer::file(asked, b"content", "\"v1\""));
    let digest = Digest::sha256_of(b"content").to_string();
    let pinned = ("TEST_DIGEST", digest.as_str());
    let (_, stranger) = Server::start_tls(|_| Answer::new("200 OK", &[], ""));
    let stranger = secure
        .desk
        .write("stranger.pem", stranger)
        .display()
        .to_string();
    assert_eq!(
        secure.said("/a", &[("SSL_CERT_FILE", &stranger), pinned]),
        "error kubelet: the certificate of 127.0.0.1 is not trusted: invalid peer certificate: UnknownIssuer\n  \
         at: https://HOST/a\n  \
         recipe: DESK/recipe.toml:3:1\n  \
         cure: if your network has its own certificate authority, set SSL_CERT_FILE to a file with its root"
    );
    assert!(secure.server.log().is_empty());
    assert_eq!(secure.fetch("/a", &[pinned]), "blob content");
}

#[test]
fn a_redirect_to_http_is_not_followed() {
    let plain = Arc::new(Server::of(b"content"));
    let target = plain.url("/a?sig=S");
    let secure = Secure::new(move |_| Answer::redirect(&target));
    let digest = Digest::sha256_of(b"content").to_string();
    let text = secure.fetch("/a", &[("TEST_DIGEST", &digest)]);
    assert_eq!(
        text.replace(&plain.host(), "PLAIN"),
        "error kubelet: https://HOST/a redirects to http, which is not followed (http://PLAIN/a?…)\n  \
         at: https://HOST/a\n  \
         recipe: DESK/recipe.toml:3:1"
    );
    assert!(plain.log().is_empty());
}

#[test]
fn a_checksum_file_over_https_proves_a_file_over_http() {
    let line = format!("{}  kubelet.exe\n", Digest::sha256_of(b"content").hex());
    let secure = Secure::new(move |asked| match asked.path.as_str() {
        "/SHA256SUMS" => Answer::new("200 OK", &[], line.clone()),
        "/page" => Answer::new("200 OK", &[], "<html><title>Log in</title></html>"),
        _ => Answer::new("404 Not Found", &[], "no"),
    });
    let plain = Server::of(b"content");
    let fetch = |checksum: &str| {
        let checksum = secure.server.url(checksum);
        let environment = [
            ("SSL_CERT_FILE", secure.roots.as_str()),
            ("TEST_CHECKSUM", checksum.as_str()),
        ];
        let text = said(start(
            &secure.desk,
            &plain.url("/kubelet.exe"),
            &environment,
        ));
        text.replace(&secure.server.host(), "HOST")
    };
    assert_eq!(fetch("/SHA256SUMS"), "blob content");
    assert_eq!(
        fetch("/kubelet.exe.sha256?sig=S"),
        "error the checksum file of kubelet: no checksum file is published there: the server answered 404 Not Found\n  \
         at: https://HOST/kubelet.exe.sha256?…\n  \
         recipe: DESK/recipe.toml:4:1\n  \
         cure: check the version and the spelling of the address; if the publisher has no checksum file, remove it and set \
         the file's sha256"
    );
    assert_eq!(
        fetch("/page"),
        "error the checksum file of kubelet is a web page\n  \
         at: https://HOST/page\n  \
         recipe: DESK/recipe.toml:4:1\n  \
         cure: open the address in a browser to see the page"
    );
}

#[test]
fn an_unverified_file_is_asked_about_each_time() {
    let version = Arc::new(AtomicUsize::new(1));
    let now = Arc::clone(&version);
    let secure = Secure::new(move |asked| match now.load(Ordering::SeqCst) {
        0 => Answer::new("404 Not Found", &[], ""),
        n => Answer::file(
            asked,
            format!("content {n}").as_bytes(),
            &format!("\"v{n}\""),
        ),
    });
    let unverified = "warning kubelet is not verified: for a test\n";
    assert_eq!(
        secure.fetch("/a", &[]),
        format!("{unverified}blob content 1")
    );
    assert_eq!(
        secure.fetch("/a", &[]),
        format!("{unverified}blob content 1")
    );
    version.store(2, Ordering::SeqCst);
    assert_eq!(
        secure.fetch("/a", &[]),
        format!(
            "{unverified}warning kubelet: the publisher replaced this file: it was {}, now it is {}\nblob content 2",
            Digest::sha256_of(b"content 1"),
            Digest::sha256_of(b"content 2")
        )
    );
    version.store(0, Ordering::SeqCst);
    assert_eq!(
        secure.fetch("/a", &[]),
        format!(
            "{unverified}warning kubelet: the server answered 404 Not Found; using the copy of an earlier run\n\
             blob content 2"
        )
    );
    assert_eq!(
        secure.server.log(),
        [
            "GET /a",
            "GET /a if-none-match \"v1\"",
            "GET /a if-none-match \"v1\"",
            "GET /a if-none-match \"v2\""
        ]
    );
}
