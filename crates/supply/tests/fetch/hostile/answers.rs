//! What a hostile server sends, and what a good one would.

use std::io::Write as _;
use std::sync::LazyLock;
use std::time::Duration;

use flate2::Compression;
use flate2::write::GzEncoder;
use serde_json::json;
use winimg_base::digest::Digest;

use super::rows::{CONTENT, Part};
use support::registry::{self, pause};
use support::server::{Answer, Asked, Cut};

pub const OK: &str = "HTTP/1.1 200 OK\r\n";
pub const LINK_LOCAL: &str = "http://169.254.169.254/latest/meta-data/";

pub fn ok(headers: &str, cut: Cut) -> Answer {
    Answer::raw(format!("{OK}{headers}connection: close\r\n\r\n")).then(cut)
}

/// A body without an end, whose length is said nowhere.
pub fn endless() -> Answer {
    ok("etag: \"1\"\r\n", Cut::Endless(b" "))
}

pub fn endless_in_chunks() -> Answer {
    static CHUNK: LazyLock<Vec<u8>> =
        LazyLock::new(|| [b"1000\r\n".as_slice(), &[b' '; 4096], b"\r\n"].concat());
    ok("transfer-encoding: chunked\r\n", Cut::Endless(&CHUNK))
}

pub fn drip() -> Answer {
    ok(
        "etag: \"1\"\r\n",
        Cut::Drip(b" ", Duration::from_millis(20)),
    )
}

pub fn redirect(to: &str) -> Answer {
    Answer::redirect(to)
}

/// One that keeps the method and the body.
pub fn moved(to: &str) -> Answer {
    Answer::new("307 Temporary Redirect", &[("location", to)], "")
}

/// A page whose title would read as another one.
pub fn page() -> Answer {
    let page = "<!doctype html><title>log\u{202e}ni \u{1b}[2Jplease\u{2028}</title>";
    Answer::new("200 OK", &[("content-type", "text/html")], page)
}

pub fn path(asked: &Asked) -> &str {
    asked.path.split('?').next().unwrap_or_default()
}

/// Ten million zeros.
pub fn bomb() -> Answer {
    let mut packed = GzEncoder::new(Vec::new(), Compression::best());
    packed.write_all(&vec![0; 10_000_000]).unwrap();
    let packed = packed.finish().unwrap();
    Answer::new("200 OK", &[("content-encoding", "gzip")], packed)
}

/// A registry's error, with words that would turn the line and begin others.
pub fn words(status: &str) -> Answer {
    denied(status, "no\u{202e}sey\u{1b}[2J\nerror: everything is fine")
}

pub fn denied(status: &str, message: &str) -> Answer {
    let body = json!({ "errors": [{ "code": "DENIED", "message": message }] });
    let json = [("content-type", "application/json")];
    Answer::new(status, &json, body.to_string())
}

/// What comes once, and then something else.
pub fn changing(asked: &Asked) -> Answer {
    let body: Vec<u8> = vec![b'a' + (asked.number % 20) as u8; 200_000];
    let answer = Answer::file(asked, &body, "\"1\"");
    match asked.number {
        0 => answer.cut(100_000, Cut::Close),
        _ => answer,
    }
}

pub fn other_range(asked: &Asked) -> Answer {
    let body = vec![b'a'; 200_000];
    match asked.header("range") {
        None => Answer::file(asked, &body, "\"1\"").cut(100_000, Cut::Close),
        Some(_) => {
            let range = [
                ("content-range", "bytes 0-199999/200000"),
                ("etag", "\"1\""),
            ];
            Answer::new("206 Partial Content", &range, body)
        }
    }
}

/// A name that this machine has an address for.
pub fn by_name(elsewhere: &str) -> String {
    elsewhere.replace("127.0.0.1", "localhost")
}

/// What a good server of this part answers.
pub fn good(part: Part, asked: &Asked) -> Answer {
    match part {
        Part::File | Part::LockedFile | Part::ChecksumFile | Part::Signature => {
            Answer::file(asked, CONTENT, "\"1\"")
        }
        Part::Manifest | Part::Blob | Part::Realm | Part::Token => match path(asked) {
            "/v2/" => Answer::new("200 OK", &[], ""),
            _ => registry::answer(&pause().0, asked),
        },
        Part::Place | Part::Upload | Part::Tags => match (asked.method.as_str(), path(asked)) {
            ("HEAD", _) => Answer::new("404 Not Found", &[], ""),
            ("POST", _) => place("/v2/team/cache/blobs/uploads/1"),
            ("PUT", _) => Answer::new("201 Created", &[], ""),
            (_, "/v2/") => {
                let basic = [("www-authenticate", "Basic realm=\"cache\"")];
                Answer::new("401 Unauthorized", &basic, "")
            }
            _ => Answer::new("200 OK", &[], r#"{"tags": []}"#),
        },
    }
}

/// The image of a row that needs another one than the good registry has.
pub fn image_digest(row: &str) -> Option<String> {
    let manifest = match row {
        "a foreign layer" => foreign(),
        "a layer elsewhere" => layer_elsewhere(),
        _ => return None,
    };
    Some(Digest::sha256_of(manifest.as_bytes()).to_string())
}

fn manifest(layer_type: &str) -> String {
    let part = |media_type: &str| {
        json!({
            "mediaType": media_type,
            "digest": Digest::sha256_of(b"layer").to_string(),
            "size": 5,
            "urls": ["http://127.0.0.1:9/layer", "http://169.254.169.254/"],
        })
    };
    let media_type = "application/vnd.oci.image.manifest.v1+json";
    let config = part("application/vnd.oci.image.config.v1+json");
    let layers = [part(layer_type)];
    json!({ "schemaVersion": 2, "mediaType": media_type, "config": config, "layers": layers })
        .to_string()
}

pub fn foreign() -> String {
    manifest("application/vnd.docker.image.rootfs.foreign.diff.tar.gzip")
}

pub fn layer_elsewhere() -> String {
    manifest("application/vnd.oci.image.layer.nondistributable.v1.tar+gzip")
}

pub fn bearer(realm: &str) -> Answer {
    let asks = format!("Bearer realm=\"{realm}\",service=\"cache\"");
    let headers = [("www-authenticate", asks.as_str())];
    Answer::new("401 Unauthorized", &headers, "")
}

/// The registry's own realm, with this answer.
pub fn tokens(asked: &Asked, answer: fn() -> Answer) -> Answer {
    match path(asked) {
        "/token" => answer(),
        _ => bearer(&format!("http://{}/token", asked.header("host").unwrap())),
    }
}

pub fn place(at: &str) -> Answer {
    Answer::new("202 Accepted", &[("location", at)], "")
}

/// A page of short tags, nearly as long as an answer may be, and another one each time.
pub fn tags(page: usize) -> String {
    let tags: Vec<String> = (0..300_000).map(|n| format!("\"{page}{n}\"")).collect();
    format!("{{\"tags\": [{}]}}", tags.join(","))
}
