//! What a lock names is what is taken, and a run off line asks nobody.

use std::collections::BTreeMap;
use std::fs;

use winimg_base::digest::{Algorithm, Digest};
use winimg_base::error::{Error, Kind};
use winimg_recipe::{LockedInput, MissingProof, ProofSpec};
use winimg_supply::fetch::{FetchRequest, FetchSource};
use winimg_supply::store::{ExpectedBytes, StoredBlob};

use crate::fetch::desk::{Desk, lock_source};
use support::server::{Answer, Server};

fn lock(blob: &StoredBlob) -> LockedInput {
    LockedInput {
        digest: blob.digest().clone(),
        size: blob.size(),
        evidence: blob.evidence().clone(),
        source: lock_source(),
    }
}

fn locked(
    desk: &Desk,
    url: &str,
    proof: ProofSpec,
    lock: &LockedInput,
) -> Result<StoredBlob, Error> {
    let mut request: FetchRequest = desk.request("kubelet", url, proof);
    request.origin.locked = Some(lock.clone());
    one(desk.fetch_all(vec![request]))
}

fn one(fetched: Result<Vec<StoredBlob>, Vec<Error>>) -> Result<StoredBlob, Error> {
    match fetched {
        Ok(mut blobs) => Ok(blobs.remove(0)),
        Err(mut errors) => Err(errors.remove(0)),
    }
}

#[test]
fn a_file_that_the_publisher_replaced_since_the_lock_is_refused() {
    let desk = Desk::new();
    let server = Server::start(|asked| match asked.number {
        0 => Answer::file(asked, b"first", "\"1\""),
        _ => Answer::file(asked, b"second", "\"2\""),
    });
    let url = server.url("/kubelet.exe?sig=SECRET");
    let unverified = || desk.unverified("no publisher");
    let plain = one(desk.fetch_all(vec![desk.request("kubelet", &url, unverified())]));
    assert!(plain.unwrap_err().fact().contains("over http"));
    // The lock's digest proves it, so that plain http is fine.
    let first = LockedInput {
        digest: Digest::sha256_of(b"first"),
        size: 5,
        evidence: BTreeMap::new(),
        source: lock_source(),
    };
    let blob = locked(&desk, &url, unverified(), &first).unwrap();
    assert_eq!(fs::read(blob.path()).unwrap(), b"first");
    // What is locked and there is not asked for again.
    locked(&desk, &url, unverified(), &first).unwrap();
    assert_eq!(server.log(), ["GET /kubelet.exe?sig=SECRET"]);
    let other = Desk::new();
    let error = locked(&other, &url, other.unverified("no publisher"), &first).unwrap_err();
    let text = other.text(&error).replace(&server.host(), "HOST");
    insta::assert_snapshot!(text);
    assert_eq!(error.kind(), Kind::Unproved);
    assert_eq!(other.stored("blobs"), [""; 0]);
}

#[test]
fn no_more_is_taken_than_the_lock_names() {
    let desk = Desk::new();
    let server = Server::start(|_| Answer::chunked(&vec![0; 8 << 20]));
    let url = server.url("/kubelet.exe");
    let wanted = LockedInput {
        digest: Digest::sha256_of(b"first"),
        size: 1 << 20,
        evidence: BTreeMap::new(),
        source: lock_source(),
    };
    let error = locked(&desk, &url, desk.pin(b"first"), &wanted).unwrap_err();
    assert_eq!(error.kind(), Kind::Unproved);
    insta::assert_snapshot!(desk.text(&error).replace(&server.host(), "HOST"));
    // The lock cannot be updated before the digest in the recipe is.
    assert_eq!(
        error.cure_text(),
        Some(
            "if you trust the new one, put its digest into the recipe first, then update the \
             lock: `winimg lock recipe.toml --refresh kubelet`"
        )
    );
    let error = locked(&desk, &url, desk.unverified("ours"), &wanted).unwrap_err();
    assert_eq!(
        error.cure_text(),
        Some(
            "if you trust the new one, update the lock: \
             `winimg lock recipe.toml --refresh kubelet`"
        )
    );
    for folder in ["blobs", "partial", "quarantine"] {
        assert_eq!(desk.stored(folder), [""; 0], "{folder}");
    }
}

#[test]
fn no_input_is_endless() {
    let mut desk = Desk::new();
    assert_eq!(desk.options.longest, 64 << 30);
    desk.options.longest = 1 << 20;
    let server = Server::start(|_| Answer::chunked(&vec![0; 8 << 20]));
    let url = server.url("/kubelet.exe");
    let error = desk.fetch(&url, desk.pin(b"first")).unwrap_err();
    insta::assert_snapshot!(desk.text(&error).replace(&server.host(), "HOST"));
    assert_eq!(server.log().len(), 1);
    assert_eq!(desk.stored("partial"), [""; 0]);
}

#[test]
fn a_locked_checksum_file_is_taken_as_it_was() {
    let desk = Desk::new();
    let server = Server::of(b"kubelet");
    let url = server.url("/kubelet.exe");
    let line = format!("{}  kubelet.exe\n", Digest::sha256_of(b"kubelet").hex());
    desk.write("SHA256SUMS", &line);
    let checksum = || desk.checksum("SHA256SUMS");
    let blob = desk.fetch(&url, checksum()).unwrap();
    let digest = Digest::sha256_of(line.as_bytes());
    let evidence = BTreeMap::from([("SHA256SUMS".to_owned(), digest)]);
    assert_eq!(*blob.evidence(), evidence);
    desk.write("SHA256SUMS", "gone");
    assert!(desk.fetch(&url, checksum()).is_err());
    let again = locked(&desk, &url, checksum(), &lock(&blob)).unwrap();
    assert_eq!(*again.evidence(), evidence);
    assert_eq!(again.proof(), blob.proof());
    assert!(matches!(again.proof(), ExpectedBytes::ChecksumFile { .. }));
}

#[test]
fn off_line_nobody_is_asked_and_what_is_lacking_is_named() {
    let mut desk = Desk::new();
    let server = Server::of(b"kubelet");
    let url = server.url("/kubelet.exe?sig=SECRET");
    desk.options.offline = true;
    let local = desk.write("local.exe", b"local");
    let local = local.display().to_string();
    desk.fetch(&local, desk.pin(b"local")).unwrap();
    let error = desk.fetch(&url, desk.pin(b"kubelet")).unwrap_err();
    assert_eq!(error.kind(), Kind::Fetch);
    insta::assert_snapshot!(desk.text(&error).replace(&server.host(), "HOST"));
    assert_eq!(server.log(), [""; 0]);
    desk.options.offline = false;
    desk.fetch(&url, desk.pin(b"kubelet")).unwrap();
    desk.options.offline = true;
    desk.fetch(&url, desk.pin(b"kubelet")).unwrap();
    assert_eq!(server.log().len(), 1);
    // The bytes of a local file that is gone come from the store when a lock names them.
    let there = LockedInput {
        digest: Digest::sha256_of(b"local"),
        size: 5,
        evidence: BTreeMap::new(),
        source: lock_source(),
    };
    fs::remove_file(&local).unwrap();
    let blob = locked(&desk, &local, desk.unverified("ours"), &there).unwrap();
    assert_eq!(fs::read(blob.path()).unwrap(), b"local");
}

#[test]
fn with_each_file_comes_where_its_bytes_came_from() {
    let mut desk = Desk::new();
    desk.options.first_use = true;
    desk.write("a.msi", b"local");
    let unproved = MissingProof {
        input: "unproved".parse().unwrap(),
        algorithm: Algorithm::Sha256,
        variable: None,
        place: desk.located(4, ()).place,
        fact: "a test".into(),
        has_signed_members: false,
    };
    let server = Server::start(|asked| match asked.header("if-none-match") {
        Some("\"v1\"") => Answer::new("304 Not Modified", &[], ""),
        _ => Answer::new("200 OK", &[("etag", "\"v1\"")], asked.path.as_str()),
    });
    let fetched = || {
        let unproved = ProofSpec::Undecided(unproved.clone());
        let requests = vec![
            desk.request("pinned", &server.url("/pinned"), desk.pin(b"/pinned")),
            desk.request("unproved", &server.url("/unproved"), unproved),
            desk.request("local", "a.msi", desk.pin(b"local")),
        ];
        let all = desk.fetched(requests).unwrap();
        all.iter().map(|one| one.from).collect::<Vec<_>>()
    };
    use FetchSource::{Cache, Local, Network};
    assert_eq!(fetched(), [Network, Network, Local]);
    // The server is asked about the second, and sends no bytes.
    assert_eq!(fetched(), [Cache, Cache, Local]);
    assert_eq!(server.log().len(), 3);
}

#[test]
fn the_locked_bytes_of_a_local_file_that_is_gone_come_from_the_cache() {
    let desk = Desk::new();
    let path = desk.write("a.msi", b"local");
    let lock = lock(&desk.fetch("a.msi", desk.pin(b"local")).unwrap());
    fs::remove_file(path).unwrap();
    let mut request = desk.request("local", "a.msi", desk.pin(b"local"));
    request.origin.locked = Some(lock);
    let fetched = desk.fetched(vec![request]).unwrap();
    assert_eq!(fetched[0].from, FetchSource::Cache);
}
