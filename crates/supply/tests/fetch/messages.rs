//! What users read when it goes wrong, whole.

use std::fs;
use std::io::Write;

use winimg_base::digest::Digest;
use winimg_base::error::{Error, Kind};
use winimg_recipe::ProofSpec;
use winimg_supply::store::{AdmitTerms, ExpectedBytes, ResumeRecord};

use crate::fetch::desk::{Desk, walk};
use support::server::{Answer, Cut, Server};

/// The message with the server shown as HOST.
fn failed(desk: &Desk, server: &Server, path: &str, proof: ProofSpec) -> (Kind, String) {
    let error = desk.fetch(&server.url(path), proof).unwrap_err();
    (error.kind(), shown(desk, server, &error))
}

fn shown(desk: &Desk, server: &Server, error: &Error) -> String {
    desk.text(error).replace(&server.host(), "HOST")
}

#[test]
fn a_missing_file_is_shown_as_such_and_asked_for_once() {
    let desk = Desk::new();
    let server = Server::start(|_| Answer::new("404 Not Found", &[], "gone"));
    let (kind, text) = failed(&desk, &server, "/v1.36.1/kubelet.exe?sig=S", desk.pin(b"x"));
    assert_eq!(kind, Kind::Fetch);
    assert_eq!(
        text,
        "kubelet: the server answered 404 Not Found\n  \
         at: http://HOST/v1.36.1/kubelet.exe?…\n  \
         recipe: DESK/recipe.toml:3:1\n  \
         cure: check the version and the spelling of the address"
    );
    assert_eq!(server.log().len(), 1);
}

#[test]
fn a_server_that_stays_broken_is_given_up_by_name() {
    let desk = Desk::new();
    let server = Server::start(|_| Answer::new("500 Internal Server Error", &[], ""));
    let (_, text) = failed(&desk, &server, "/a", desk.pin(b"x"));
    assert_eq!(
        text,
        "kubelet: the server answered 500 Internal Server Error\n  \
         at: http://HOST/a\n  \
         recipe: DESK/recipe.toml:3:1\n  \
         | gave up after 5 tries"
    );
    assert_eq!(server.log().len(), 5);
}

#[test]
fn half_a_body_is_a_broken_transfer() {
    let desk = Desk::new();
    let server = Server::start(|_| Answer::new("200 OK", &[], "0123456789").cut(5, Cut::Close));
    let (kind, text) = failed(&desk, &server, "/a", desk.pin(b"01234"));
    assert_eq!(kind, Kind::Fetch);
    assert_eq!(
        text,
        "kubelet: the transfer broke after 5 bytes: end of file before message length reached\n  \
         at: http://HOST/a\n  \
         recipe: DESK/recipe.toml:3:1\n  \
         | gave up after 5 tries"
    );
    assert!(desk.stored("blobs").is_empty());
}

#[test]
fn a_file_that_has_no_room_is_not_begun() {
    let mut desk = Desk::new();
    desk.options.longest = u64::MAX;
    let server = Server::start(|_| Answer::new("200 OK", &[], "x".repeat(1000)).claims(1 << 60));
    let (kind, text) = failed(&desk, &server, "/media.iso", desk.pin(b"x"));
    assert_eq!(kind, Kind::Host);
    let (before, rest) = text.split_once("found: ").unwrap();
    let (_, after) = rest.split_once(" bytes free").unwrap();
    assert_eq!(
        format!("{before}found: N bytes free{after}"),
        "kubelet: not enough free space in the store\n  \
         at: DESK/store\n  \
         recipe: DESK/recipe.toml:3:1\n  \
         expected: 1152921504606846976 bytes, plus 67108864 bytes in reserve\n  \
         found: N bytes free\n  \
         cure: free some space (`winimg cache prune`), or set WINIMG_CACHE_DIR to a folder on a larger disk"
    );
    assert!(desk.stored("partial").is_empty());

    // No room would be enough for what is longer than any input.
    desk.options.longest = 64 << 30;
    let (kind, text) = failed(&desk, &server, "/media.iso", desk.pin(b"x"));
    assert_eq!(kind, Kind::Fetch);
    let fact = "kubelet exceeds the maximum size of an input\n";
    assert!(text.starts_with(fact), "{text}");
    assert!(desk.stored("partial").is_empty());
}

#[test]
fn nobody_there_is_said_plainly() {
    let desk = Desk::new();
    let port = {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        listener.local_addr().unwrap().port()
    };
    let url = format!("http://127.0.0.1:{port}/a");
    let error = desk.fetch(&url, desk.pin(b"x")).unwrap_err();
    assert_eq!(
        desk.text(&error).replace(&port.to_string(), "PORT"),
        "kubelet: 127.0.0.1 cannot be reached: Connection refused (os error 111)\n  \
         at: http://127.0.0.1:PORT/a\n  \
         recipe: DESK/recipe.toml:3:1\n  \
         | gave up after 5 tries\n  \
         cure: check the network and the proxy settings (https_proxy, http_proxy, no_proxy)"
    );
}

#[test]
fn an_unreachable_target_of_a_redirect_is_named() {
    let desk = Desk::new();
    let other = {
        let listener = std::net::TcpListener::bind("127.0.0.2:0").unwrap();
        listener.local_addr().unwrap().to_string()
    };
    let target = format!("http://{other}/b?sig=S");
    let server = Server::start(move |_| Answer::redirect(&target));
    let (_, text) = failed(&desk, &server, "/a", desk.pin(b"x"));
    assert_eq!(
        text.replace(&other, "OTHER"),
        "kubelet: 127.0.0.2 cannot be reached: Connection refused (os error 111)\n  \
         at: http://HOST/a\n  \
         recipe: DESK/recipe.toml:3:1\n  \
         | the server redirected to http://OTHER/b?…\n  \
         | gave up after 5 tries\n  \
         cure: check the network and the proxy settings (https_proxy, http_proxy, no_proxy)"
    );
}

#[test]
fn a_wrong_digest_after_a_redirect_names_the_final_address() {
    let desk = Desk::new();
    let server = Server::start(|asked| match asked.path.as_str() {
        "/a" => Answer::redirect("/b?sig=S"),
        _ => Answer::new("200 OK", &[], "content"),
    });
    let (kind, text) = failed(&desk, &server, "/a", desk.pin(b"other"));
    assert_eq!(kind, Kind::Unproved);
    assert!(text.contains("  at: http://HOST/a\n"), "{text}");
    let line = "  | the server redirected to http://HOST/b?…\n";
    assert!(text.contains(line), "{text}");
    let (_, text) = failed(&desk, &server, "/c?sig=S", desk.pin(b"another"));
    assert!(!text.contains("redirected"), "{text}");
}

#[test]
fn a_circle_of_redirects_is_named() {
    let desk = Desk::new();
    let server = Server::start(|asked| match asked.path.as_str() {
        "/a" => Answer::redirect("/b?sig=S"),
        _ => Answer::redirect("/a"),
    });
    let (_, text) = failed(&desk, &server, "/a", desk.pin(b"x"));
    assert_eq!(
        text,
        "kubelet: redirect loop at http://HOST/a\n  \
         at: http://HOST/a\n  \
         recipe: DESK/recipe.toml:3:1"
    );
}

#[test]
fn a_web_page_is_not_a_file() {
    const PAGE: &str =
        "\n<!DOCTYPE html><html><head><title>Log in\n to continue</title></head></html>";
    let by_type = Server::start(|_| {
        Answer::new(
            "200 OK",
            &[("content-type", "text/html; charset=utf-8")],
            "<title>Log in to continue</title>",
        )
    });
    let by_body = Server::start(|_| {
        Answer::new(
            "200 OK",
            &[("content-type", "application/octet-stream")],
            PAGE,
        )
    });
    for server in [by_type, by_body] {
        let desk = Desk::new();
        let (kind, text) = failed(&desk, &server, "/virtio-win.iso", desk.pin(b"x"));
        assert_eq!(kind, Kind::Fetch);
        assert_eq!(
            text,
            "kubelet: the server sent a web page titled “Log in to continue” instead of the file\n  \
             at: http://HOST/virtio-win.iso\n  \
             recipe: DESK/recipe.toml:3:1\n  \
             cure: open the address in a browser: the file may have moved, or the host requires a login, a licence or a \
             captcha; then use the direct address of the file, or download it once and give its path"
        );
        for folder in ["blobs", "partial", "quarantine", "seen"] {
            assert!(desk.stored(folder).is_empty(), "{folder}");
        }
    }
}

#[test]
fn a_page_that_is_wanted_is_fetched() {
    let desk = Desk::new();
    let server = Server::of(b"<html></html>");
    desk.fetch(&server.url("/help.html"), desk.pin(b"<html></html>"))
        .unwrap();
}

#[test]
fn a_wrong_digest_shows_both_and_keeps_the_file() {
    let desk = Desk::new();
    let server = Server::of(b"content");
    let (expected, found) = (Digest::sha256_of(b"other"), Digest::sha256_of(b"content"));
    let (kind, text) = failed(&desk, &server, "/a?sig=S", desk.pin(b"other"));
    assert_eq!(kind, Kind::Unproved);
    assert_eq!(
        text,
        format!(
            "kubelet is not the file that the recipe names\n  \
             at: http://HOST/a?…\n  \
             recipe: DESK/recipe.toml:4:1\n  \
             expected: {expected}\n  \
             found: {found} (7 bytes)\n  \
             | the download is kept as DESK/store/quarantine/{}\n  \
             cure: if the publisher replaced the file and you trust the new one, \
             put its digest into the recipe; it is not downloaded again",
            found.hex()
        )
    );
    assert!(desk.stored("blobs").is_empty());
}

/// As servers send it that compress whatever they like, with the header that says so or without.
#[test]
fn a_file_that_came_compressed_is_named_as_that() {
    let desk = Desk::new();
    let packed = gzip(b"content");
    for headers in [&[("content-encoding", "gzip")][..], &[]] {
        let sent = packed.clone();
        let headers = headers.to_vec();
        let server = Server::start(move |_| Answer::new("200 OK", &headers, sent.clone()));
        let (kind, text) = failed(&desk, &server, "/a", desk.pin(b"content"));
        assert_eq!(kind, Kind::Unproved);
        let fact =
            "the server sent kubelet compressed with gzip; the unpacked file is the expected one";
        assert!(text.starts_with(fact), "{text}");
        assert!(!text.contains("put its digest into the recipe"), "{text}");
        // An archive is what it is.
        desk.fetch(&server.url("/a"), desk.pin(&packed)).unwrap();
    }
    // Something else inside is another file.
    let other = gzip(b"other");
    let server = Server::start(move |_| Answer::new("200 OK", &[], other.clone()));
    let (_, text) = failed(&desk, &server, "/b", desk.pin(b"content"));
    assert!(
        text.starts_with("kubelet is not the file that the recipe names"),
        "{text}"
    );
}

#[test]
fn a_compressed_file_is_named_whatever_the_refusal_says() {
    let desk = Desk::new();
    let store = desk.store();
    let partial = store.lock_partial("key", &desk.watch()).unwrap();
    let mut file = partial.begin(&ResumeRecord::default()).unwrap();
    file.write_all(&gzip(b"content")).unwrap();
    let terms = AdmitTerms {
        locked: Some(Digest::sha256_of(b"content")),
        ..AdmitTerms::from(ExpectedBytes::Unverified {
            reason: "a test".into(),
        })
    };
    let admitted = store.admit(partial.to_candidate(), terms, &desk.watch());
    assert_eq!(
        admitted.unwrap_err().fact(),
        "the server sent kubelet compressed with gzip; the unpacked file is the expected one"
    );
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut packer = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    std::io::Write::write_all(&mut packer, bytes).unwrap();
    packer.finish().unwrap()
}

#[test]
fn a_local_file_with_a_wrong_digest_stays_where_it_is() {
    let desk = Desk::new();
    let path = desk.write("a.msi", b"content");
    let error = desk.fetch("a.msi", desk.pin(b"other")).unwrap_err();
    let (expected, found) = (Digest::sha256_of(b"other"), Digest::sha256_of(b"content"));
    assert_eq!(
        desk.text(&error),
        format!(
            "kubelet is not the file that the recipe names\n  \
             at: DESK/a.msi\n  \
             recipe: DESK/recipe.toml:4:1\n  \
             expected: {expected}\n  \
             found: {found} (7 bytes)\n  \
             cure: if the publisher replaced the file and you trust the new one, \
             put its digest into the recipe; it is not downloaded again"
        )
    );
    assert_eq!(fs::read(path).unwrap(), b"content");
    for folder in ["blobs", "partial", "quarantine"] {
        assert!(desk.stored(folder).is_empty(), "{folder}");
    }
}

#[test]
fn a_file_that_its_checksum_file_contradicts_names_the_line() {
    let desk = Desk::new();
    let (expected, found) = (Digest::sha256_of(b"other"), Digest::sha256_of(b"content"));
    desk.write("SUMS", format!("{}  a\n", expected.hex()));
    let server = Server::of(b"content");
    let (_, text) = failed(&desk, &server, "/a", desk.checksum("SUMS"));
    assert_eq!(
        text,
        format!(
            "kubelet is not the file that the checksum file names\n  \
             at: http://HOST/a\n  \
             recipe: DESK/recipe.toml:4:1\n  \
             expected: {expected}\n  \
             found: {found} (7 bytes)\n  \
             | DESK/SUMS says: {}  a\n  \
             | the download is kept as DESK/store/quarantine/{}\n  \
             cure: ask the publisher: one of the two files was replaced or damaged on its server",
            expected.hex(),
            found.hex()
        )
    );
}

#[test]
fn a_checksum_file_for_another_file_lists_what_it_has() {
    let desk = Desk::new();
    desk.write("SUMS", format!("{}  b.zip\n", Digest::sha256_of(b"").hex()));
    let server = Server::of(b"content");
    let (kind, text) = failed(&desk, &server, "/a.zip", desk.checksum("SUMS"));
    assert_eq!(kind, Kind::Unproved);
    assert_eq!(
        text,
        "the checksum file of kubelet does not list a.zip\n  \
         at: DESK/SUMS\n  \
         recipe: DESK/recipe.toml:4:1\n  \
         | it lists b.zip\n  \
         cure: name the line with checksum_entry, or use the checksum file of this version"
    );
    assert!(server.log().is_empty());
}

#[test]
fn http_needs_a_digest() {
    let desk = Desk::new();
    let server = Server::of(b"content");
    let (kind, text) = failed(&desk, &server, "/a", desk.unverified("none is published"));
    assert_eq!(kind, Kind::Recipe);
    assert_eq!(
        text,
        "kubelet: anyone on the network path can change a file sent over http\n  \
         at: http://HOST/a\n  \
         recipe: DESK/recipe.toml:3:1\n  \
         cure: use https, or pin the file with sha256"
    );
    let (_, text) = failed(
        &desk,
        &server,
        "/a",
        desk.checksum(&server.url("/a.sha256")),
    );
    assert_eq!(
        text,
        "the checksum file of kubelet: anyone on the network path can change a file sent over http\n  \
         at: http://HOST/a.sha256\n  \
         recipe: DESK/recipe.toml:4:1\n  \
         cure: use https, or pin the file with sha256"
    );
    assert!(server.log().is_empty());
}

#[test]
fn all_problems_come_at_once_and_in_order() {
    let desk = Desk::new();
    let server = Server::start(|asked| match asked.path.as_str() {
        "/good" => Answer::file(asked, b"content", "\"v1\""),
        _ => Answer::new("404 Not Found", &[], ""),
    });
    // Not one digest for all: what one address brought would do for the others.
    let request = |name: &str, url: &str| match name {
        "c" => desk.request(name, url, desk.pin(b"content")),
        _ => desk.request(name, url, desk.pin(name.as_bytes())),
    };
    let errors = desk
        .fetch_all(vec![
            request("a", &server.url("/a")),
            request("b", "missing.msi"),
            request("c", &server.url("/good")),
        ])
        .unwrap_err();
    let facts: Vec<String> = errors
        .iter()
        .map(|e| {
            e.fact()
                .replace(&desk.folder.path().display().to_string(), "DESK")
        })
        .collect();
    assert_eq!(
        facts,
        [
            "a: the server answered 404 Not Found",
            "there is no file DESK/missing.msi",
        ]
    );
    // The good one is kept for the next run.
    assert_eq!(desk.stored("blobs").len(), 1);
}

#[test]
fn no_secret_of_a_url_is_shown_or_kept() {
    let desk = Desk::new();
    let server = Server::start(|asked| match asked.path.split('?').next().unwrap() {
        "/ok" => Answer::file(asked, b"content", "\"v1\""),
        "/moved" => Answer::redirect("/gone?token=PLANTED"),
        "/circle" => Answer::redirect("/circle?sig=PLANTED"),
        "/half" => Answer::file(asked, b"content", "\"v1\"").cut(3, Cut::Close),
        "/page" => Answer::new("200 OK", &[], "<html><title>x</title>"),
        _ => Answer::new("404 Not Found", &[], ""),
    });
    let mut said = String::new();
    for path in ["/ok", "/moved", "/circle", "/half", "/page", "/gone"] {
        for proof in [
            desk.pin(b"content"),
            desk.pin(b"other"),
            desk.unverified("x"),
        ] {
            let url = format!(
                "http://me:PLANTED@{}{path}?sig=PLANTED#PLANTED",
                server.host()
            );
            if let Err(error) = desk.fetch(&url, proof) {
                said += &format!("{error}\n{error:?}\n");
            }
        }
    }
    let nobody = "http://me:PLANTED@127.0.0.1:1/a?sig=PLANTED";
    said += &desk.fetch(nobody, desk.pin(b"x")).unwrap_err().to_string();
    for event in desk.events.0.lock().unwrap().iter() {
        said += &format!("{event:?}\n");
    }
    walk(desk.store().folder(), &mut |path| {
        said += &format!("{}\n", path.display());
        said += &String::from_utf8_lossy(&fs::read(path).unwrap());
    });
    assert!(server.log().iter().any(|l| l.contains("sig=PLANTED")));
    let shown: Vec<&str> = said.lines().filter(|l| l.contains("PLANTED")).collect();
    assert!(shown.is_empty(), "{shown:?}");
}
