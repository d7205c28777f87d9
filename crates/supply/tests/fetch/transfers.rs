//! What arrives, how often the server is asked, and what is left in the store.

use std::fs;
use std::io::Write;
use std::sync::Arc;
use std::time::Duration;

use winimg_base::digest::{Algorithm, Digest, Hasher};
use winimg_base::error::Kind;
use winimg_base::event::Event;
use winimg_supply::store::{ExpectedBytes, ResumeRecord, Store};

use crate::fetch::desk::Desk;
use support::server::{Answer, Asked, Cut, Server};

/// 200 KB that do not repeat within a chunk.
pub fn content(seed: u8) -> Vec<u8> {
    (0..200_000u32)
        .map(|i| (i / 251) as u8 ^ i as u8 ^ seed)
        .collect()
}

/// Bytes of the one transfer under way.
pub fn part_of(store: &Store) -> Option<u64> {
    let folder = store.folder().join("partial");
    let parts = fs::read_dir(folder).unwrap().map(|e| e.unwrap().path());
    let data = parts
        .filter(|p| p.extension().is_some_and(|e| e == "data"))
        .last()?;
    fs::metadata(data).ok().map(|m| m.len())
}

/// The first request is answered with a part, all others well.
fn breaks_once(bytes: Vec<u8>, after: usize, cut: Cut) -> Server {
    Server::start(move |asked| {
        let answer = Answer::file(asked, &bytes, "\"v1\"");
        if asked.number == 0 {
            answer.cut(after, cut)
        } else {
            answer
        }
    })
}

#[test]
fn a_pinned_file_arrives_once_and_is_not_asked_for_again() {
    let desk = Desk::new();
    let server = Server::start(|asked: &Asked| {
        let agent = asked.header("user-agent").unwrap_or_default().to_string();
        Answer::new("200 OK", &[], agent)
    });
    let agent = concat!("winimg/", env!("CARGO_PKG_VERSION")).as_bytes();
    let proof = desk.pin(agent);
    let blob = desk
        .fetch(&server.url("/kubelet.exe"), proof.clone())
        .unwrap();
    assert_eq!(fs::read(blob.path()).unwrap(), agent);
    assert_eq!(blob.size(), agent.len() as u64);
    assert_eq!(*blob.digest(), Digest::sha256_of(agent));
    let hex = blob.digest().hex();
    assert!(
        blob.path()
            .ends_with(format!("blobs/sha256/{}/{hex}", &hex[..2]))
    );
    assert!(fs::metadata(blob.path()).unwrap().permissions().readonly());
    assert_eq!(
        *blob.proof(),
        ExpectedBytes::Digest(Digest::sha256_of(agent))
    );
    let again = desk.fetch(&server.url("/kubelet.exe"), proof).unwrap();
    assert_eq!(again.path(), blob.path());
    assert_eq!(server.log(), ["GET /kubelet.exe"]);
    assert!(desk.stored("partial").is_empty());
}

#[test]
fn a_sha512_pin_is_kept_too() {
    let desk = Desk::new();
    let server = Server::of(b"content");
    let mut hasher = Hasher::new(Algorithm::Sha512);
    hasher.update(b"content");
    let proof = desk.pin_digest(&hasher.finish().to_string());
    for _ in 0..2 {
        let blob = desk.fetch(&server.url("/a"), proof.clone()).unwrap();
        assert_eq!(*blob.digest(), Digest::sha256_of(b"content"));
    }
    assert_eq!(server.log(), ["GET /a"]);
}

#[test]
fn a_broken_transfer_goes_on_where_it_stopped() {
    let (desk, bytes) = (Desk::new(), content(1));
    let server = breaks_once(bytes.clone(), 70_000, Cut::Close);
    let blob = desk.fetch(&server.url("/a"), desk.pin(&bytes)).unwrap();
    assert_eq!(fs::read(blob.path()).unwrap(), bytes);
    assert_eq!(
        server.log(),
        ["GET /a", "GET /a bytes=70000- if-range \"v1\""]
    );
    let last = desk
        .events
        .0
        .lock()
        .unwrap()
        .iter()
        .rev()
        .find_map(|e| match e {
            Event::Bytes { done, total, .. } => Some((*done, *total)),
            _ => None,
        });
    assert_eq!(last, Some((200_000, Some(200_000))));
}

#[test]
fn a_later_run_goes_on_where_an_earlier_one_stopped() {
    let (mut desk, bytes) = (Desk::new(), content(2));
    desk.options.tries = 1;
    let server = breaks_once(bytes.clone(), 70_000, Cut::Close);
    let error = desk
        .fetch(&server.url("/a?sig=one"), desk.pin(&bytes))
        .unwrap_err();
    assert_eq!(error.kind(), Kind::Fetch);
    assert!(desk.stored("blobs").is_empty());
    // A signed URL is another one each time.
    let blob = desk
        .fetch(&server.url("/a?sig=two"), desk.pin(&bytes))
        .unwrap();
    assert_eq!(fs::read(blob.path()).unwrap(), bytes);
    assert_eq!(
        server.log(),
        [
            "GET /a?sig=one",
            "GET /a?sig=two bytes=70000- if-range \"v1\""
        ]
    );
    assert!(desk.stored("partial").is_empty());
}

#[test]
fn a_run_killed_before_the_proof_need_not_transfer_again() {
    let desk = Desk::new();
    let server = Server::of(b"content");
    let url = server.url("/a");
    // As it is between the last byte and the proof.
    let digest = Digest::sha256_of(b"content").to_string();
    let partial = desk.store().lock_partial(&digest, &desk.watch()).unwrap();
    let record = ResumeRecord {
        url: url.clone(),
        etag: Some("\"v1\"".into()),
        last_modified: None,
        total: Some(7),
        encoding: None,
        redirected_to: None,
    };
    partial
        .begin(&record)
        .unwrap()
        .write_all(b"content")
        .unwrap();
    drop(partial);
    let blob = desk.fetch(&url, desk.pin(b"content")).unwrap();
    assert_eq!(fs::read(blob.path()).unwrap(), b"content");
    assert!(server.log().is_empty());
    assert!(desk.stored("partial").is_empty());
}

#[test]
fn a_server_that_falls_silent_is_left_and_asked_again() {
    let (mut desk, bytes) = (Desk::new(), content(3));
    desk.options.patience.stall = Duration::from_secs(5);
    let server = breaks_once(bytes.clone(), 70_000, Cut::Hang);
    let blob = desk.fetch(&server.url("/a"), desk.pin(&bytes)).unwrap();
    assert_eq!(fs::read(blob.path()).unwrap(), bytes);
    assert_eq!(
        server.log(),
        ["GET /a", "GET /a bytes=70000- if-range \"v1\""]
    );
}

#[test]
fn a_server_without_ranges_sends_the_whole_file_anew() {
    let (desk, bytes) = (Desk::new(), content(4));
    let served = bytes.clone();
    let server = Server::start(move |asked| {
        let whole = Answer::new("200 OK", &[("etag", "\"v1\"")], served.clone());
        if asked.number == 0 {
            whole.cut(70_000, Cut::Close)
        } else {
            whole
        }
    });
    let blob = desk.fetch(&server.url("/a"), desk.pin(&bytes)).unwrap();
    assert_eq!(fs::read(blob.path()).unwrap(), bytes);
    assert_eq!(server.log().len(), 2);
}

#[test]
fn a_file_replaced_during_a_break_is_fetched_whole() {
    let (desk, old, new) = (Desk::new(), content(5), content(6));
    let expected = new.clone();
    let server = Server::start(move |asked| match asked.number {
        0 => Answer::file(asked, &old, "\"v1\"").cut(70_000, Cut::Close),
        _ => Answer::file(asked, &new, "\"v2\""),
    });
    let blob = desk.fetch(&server.url("/a"), desk.pin(&expected)).unwrap();
    assert_eq!(fs::read(blob.path()).unwrap(), expected);
    assert_eq!(
        server.log(),
        ["GET /a", "GET /a bytes=70000- if-range \"v1\""]
    );
}

#[test]
fn two_versions_under_one_tag_are_fetched_whole_once_more() {
    let (desk, old, new) = (Desk::new(), content(7), content(8));
    let expected = new.clone();
    let server = Server::start(move |asked| match asked.number {
        0 => Answer::file(asked, &old, "\"v1\"").cut(70_000, Cut::Close),
        _ => Answer::file(asked, &new, "\"v1\""),
    });
    let blob = desk.fetch(&server.url("/a"), desk.pin(&expected)).unwrap();
    assert_eq!(fs::read(blob.path()).unwrap(), expected);
    assert_eq!(
        server.log(),
        ["GET /a", "GET /a bytes=70000- if-range \"v1\"", "GET /a"]
    );
}

#[test]
fn without_a_tag_nothing_is_resumed() {
    let (desk, bytes) = (Desk::new(), content(9));
    let served = bytes.clone();
    let server = Server::start(move |asked| {
        let whole = Answer::new("200 OK", &[("etag", "W/\"weak\"")], served.clone());
        if asked.number == 0 {
            whole.cut(70_000, Cut::Close)
        } else {
            whole
        }
    });
    desk.fetch(&server.url("/a"), desk.pin(&bytes)).unwrap();
    assert_eq!(server.log(), ["GET /a", "GET /a"]);
}

#[test]
fn a_busy_server_is_asked_again() {
    let desk = Desk::new();
    let server = Server::start(|asked| match asked.number {
        0 => Answer::new("503 Service Unavailable", &[("retry-after", "0")], "busy"),
        1 => Answer::new("429 Too Many Requests", &[("retry-after", "0")], "busy"),
        _ => Answer::file(asked, b"content", "\"v1\""),
    });
    desk.fetch(&server.url("/a"), desk.pin(b"content")).unwrap();
    assert_eq!(server.log(), ["GET /a", "GET /a", "GET /a"]);
}

#[test]
fn redirects_are_followed() {
    let desk = Desk::new();
    let server = Server::start(|asked| match asked.path.as_str() {
        "/latest" => Answer::redirect("/v1/file"),
        _ => Answer::file(asked, b"content", "\"v1\""),
    });
    desk.fetch(&server.url("/latest"), desk.pin(b"content"))
        .unwrap();
    assert_eq!(server.log(), ["GET /latest", "GET /v1/file"]);
}

#[test]
fn a_corrupted_blob_is_noticed_set_aside_and_fetched_anew() {
    let desk = Desk::new();
    let server = Server::of(b"content");
    let blob = desk.fetch(&server.url("/a"), desk.pin(b"content")).unwrap();
    let mut permissions = fs::metadata(blob.path()).unwrap().permissions();
    #[allow(clippy::permissions_set_readonly_false)]
    permissions.set_readonly(false);
    fs::set_permissions(blob.path(), permissions).unwrap();
    fs::write(blob.path(), b"CONTENT").unwrap();
    let error = blob.check().unwrap_err();
    assert_eq!(error.kind(), Kind::Unproved);
    assert_eq!(error.fact(), "a file changed after it was verified");

    let blob = desk.fetch(&server.url("/a"), desk.pin(b"content")).unwrap();
    blob.check().unwrap();
    assert_eq!(fs::read(blob.path()).unwrap(), b"content");
    assert_eq!(server.log().len(), 2);
    let bad = Digest::sha256_of(b"CONTENT");
    assert_eq!(desk.stored("quarantine"), [bad.hex()]);
    let aside = desk.store().folder().join("quarantine").join(bad.hex());
    assert_eq!(
        desk.warnings(),
        [format!(
            "the cached file of kubelet is corrupt (expected {}, found {bad}); moved to {}",
            blob.digest(),
            aside.display()
        )]
    );
}

/// Length, time and inode stay, as whoever can write to the cache can arrange.
#[test]
#[cfg(unix)]
fn a_blob_that_was_changed_in_secret_is_noticed() {
    let desk = Desk::new();
    let server = Server::of(b"content");
    let blob = desk.fetch(&server.url("/a"), desk.pin(b"content")).unwrap();
    let modified = fs::metadata(blob.path()).unwrap().modified().unwrap();
    let mut permissions = fs::metadata(blob.path()).unwrap().permissions();
    #[allow(clippy::permissions_set_readonly_false)]
    permissions.set_readonly(false);
    fs::set_permissions(blob.path(), permissions).unwrap();
    let mut file = fs::OpenOptions::new()
        .write(true)
        .open(blob.path())
        .unwrap();
    std::io::Write::write_all(&mut file, b"CONTENT").unwrap();
    file.set_modified(modified).unwrap();
    drop(file);
    assert!(blob.check().is_err());
    let blob = desk.fetch(&server.url("/a"), desk.pin(b"content")).unwrap();
    assert_eq!(fs::read(blob.path()).unwrap(), b"content");
    assert_eq!(server.log().len(), 2);
    assert_eq!(desk.warnings().len(), 1);
}

#[test]
#[cfg(unix)]
fn a_link_in_place_of_a_blob_is_replaced() {
    let desk = Desk::new();
    let server = Server::of(b"content");
    let blob = desk.fetch(&server.url("/a"), desk.pin(b"content")).unwrap();
    let elsewhere = tempfile::tempdir().unwrap();
    let moved = elsewhere.path().join("moved");
    fs::rename(blob.path(), &moved).unwrap();
    std::os::unix::fs::symlink(&moved, blob.path()).unwrap();
    let again = desk.fetch(&server.url("/a"), desk.pin(b"content")).unwrap();
    assert_eq!(server.log().len(), 2);
    assert!(fs::symlink_metadata(again.path()).unwrap().is_file());
    assert_eq!(fs::read(&moved).unwrap(), b"content");
}

#[test]
fn a_blob_with_another_time_is_hashed_and_kept() {
    let desk = Desk::new();
    let server = Server::of(b"content");
    let blob = desk.fetch(&server.url("/a"), desk.pin(b"content")).unwrap();
    let file = fs::File::open(blob.path()).unwrap();
    file.set_modified(std::time::UNIX_EPOCH).unwrap();
    blob.check().unwrap();
    desk.fetch(&server.url("/a"), desk.pin(b"content")).unwrap();
    assert_eq!(server.log().len(), 1);
    assert!(desk.warnings().is_empty());
}

#[test]
fn a_download_kept_for_a_wrong_digest_is_used_once_the_recipe_names_it() {
    let desk = Desk::new();
    let server = Server::of(b"content");
    desk.fetch(&server.url("/a"), desk.pin(b"typo"))
        .unwrap_err();
    let blob = desk.fetch(&server.url("/a"), desk.pin(b"content")).unwrap();
    assert_eq!(fs::read(blob.path()).unwrap(), b"content");
    assert_eq!(server.log(), ["GET /a"]);
    assert!(desk.stored("quarantine").is_empty());
}

#[test]
fn local_files_are_copied_and_checksum_files_may_be_local_too() {
    let desk = Desk::new();
    let path = desk.write("kubelet.exe", b"content");
    let digest = Digest::sha256_of(b"content");
    desk.write("SHA256SUMS", format!("{}  bin/kubelet.exe\n", digest.hex()));
    // Relative to the recipe, which is not in the working directory.
    for url in ["kubelet.exe", &format!("file://{}", path.display())] {
        let blob = desk.fetch(url, desk.checksum("SHA256SUMS")).unwrap();
        assert_eq!(fs::read(blob.path()).unwrap(), b"content");
        assert_ne!(blob.path(), path);
        let sums = desk.folder.path().join("SHA256SUMS");
        let expected = ExpectedBytes::ChecksumFile {
            url: sums.display().to_string(),
            line: format!("{}  bin/kubelet.exe", digest.hex()),
            digest: digest.clone(),
            also: None,
        };
        assert_eq!(*blob.proof(), expected);
    }
    assert_eq!(fs::read(&path).unwrap(), b"content");
    assert!(desk.warnings().is_empty());
}

#[test]
fn a_checksum_file_is_searched_for_the_decoded_name() {
    let desk = Desk::new();
    let server = Server::of(b"content");
    let digest = Digest::sha256_of(b"content").hex();
    let other = "0".repeat(64);
    desk.write("SHA256SUMS", format!("{other}  b.exe\n{digest}  a b.exe\n"));
    // Where digests are, http is no fault: the list beside the recipe names them.
    let blob = desk.fetch(&server.url("/x/a%20b.exe"), desk.checksum("SHA256SUMS"));
    let blob = blob.unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(fs::read(blob.path()).unwrap(), b"content");
    assert_eq!(server.log(), ["GET /x/a%20b.exe"]);
}

#[test]
fn each_digest_of_a_checksum_file_has_to_hold() {
    let desk = Desk::new();
    desk.write("kubelet.exe", b"content");
    let short = Digest::sha256_of(b"content").hex();
    let (long, _) = Digest::of_reader(Algorithm::Sha512, &b"content"[..]).unwrap();
    let other = "0".repeat(128);
    let sums = |long: &str| format!("{short}  kubelet.exe\n{long}  kubelet.exe\n");
    desk.write("BAD", sums(&other));
    desk.write("GOOD", sums(&long.hex()));
    // Also of a file that is in the store.
    for _ in 0..2 {
        let error = desk.fetch("kubelet.exe", desk.checksum("BAD")).unwrap_err();
        assert_eq!(
            error.fact(),
            "kubelet is not the file that the checksum file names"
        );
        desk.fetch("kubelet.exe", desk.checksum("GOOD")).unwrap();
    }
}

#[test]
fn large_local_files_are_used_where_they_stand() {
    let desk = Desk::new();
    let path = desk.write("media.iso", b"");
    let file = fs::File::options().write(true).open(&path).unwrap();
    file.set_len(winimg_supply::store::IN_PLACE_FROM).unwrap();
    // Older than the moments in which a change might not show.
    file.set_modified(std::time::UNIX_EPOCH + Duration::from_secs(1_000_000_000))
        .unwrap();
    let (digest, _) = Digest::of_reader(Algorithm::Sha256, fs::File::open(&path).unwrap()).unwrap();
    let proof = desk.pin_digest(&digest.to_string());
    let checked = |desk: &Desk| {
        let events = desk.events.0.lock().unwrap();
        let checks = events
            .iter()
            .filter(|e| matches!(e, Event::Bytes { what, .. } if what == "checking kubelet"));
        checks.count()
    };
    let blob = desk.fetch("media.iso", proof.clone()).unwrap();
    assert_eq!(blob.path(), fs::canonicalize(&path).unwrap());
    let first = checked(&desk);
    assert!(first > 0);
    desk.fetch("media.iso", proof.clone()).unwrap();
    assert_eq!(
        checked(&desk),
        first,
        "the second run did not read it again"
    );
    assert!(desk.stored("blobs").is_empty());

    (&file).write_all(b"changed").unwrap();
    blob.check().unwrap_err();
    let error = desk.fetch("media.iso", proof).unwrap_err();
    assert_eq!(error.kind(), Kind::Unproved);
    assert!(path.exists());
}

#[test]
fn an_unverified_file_is_warned_about_and_recorded() {
    let desk = Desk::new();
    desk.write("a.msi", b"content");
    let blob = desk
        .fetch("a.msi", desk.unverified("the vendor publishes none"))
        .unwrap();
    assert_eq!(
        desk.warnings(),
        ["kubelet is not verified: the vendor publishes none"]
    );
    let expected = ExpectedBytes::Unverified {
        reason: "the vendor publishes none".into(),
    };
    assert_eq!(*blob.proof(), expected);
}

#[test]
fn two_threads_transfer_a_file_once() {
    let desk = Arc::new(Desk::new());
    let bytes = content(10);
    let served = bytes.clone();
    let server = Server::start(move |asked| Answer::file(asked, &served, "\"v1\""));
    let threads: Vec<_> = (0..4)
        .map(|_| {
            let (desk, url, bytes) = (Arc::clone(&desk), server.url("/a"), bytes.clone());
            std::thread::spawn(move || desk.fetch(&url, desk.pin(&bytes)).unwrap())
        })
        .collect();
    for thread in threads {
        assert_eq!(fs::read(thread.join().unwrap().path()).unwrap(), bytes);
    }
    assert_eq!(server.log(), ["GET /a"]);
}

#[test]
fn one_run_transfers_a_file_once_for_two_components() {
    let desk = Desk::new();
    let server = Server::of(b"content");
    let request =
        |name: &str, path: &str| desk.request(name, &server.url(path), desk.pin(b"content"));
    let blobs = desk
        .fetch_all(vec![
            request("a", "/a"),
            request("b", "/b"),
            request("c", "/a"),
        ])
        .unwrap();
    assert_eq!(blobs.len(), 3);
    assert_eq!(server.log().len(), 1);
}

#[test]
fn a_cancelled_fetch_ends_and_leaves_a_part_to_resume() {
    let (desk, bytes) = (Desk::new(), content(11));
    let server = breaks_once(bytes.clone(), 70_000, Cut::Hang);
    let (cancel, store) = (desk.cancel.clone(), desk.store());
    let presser = std::thread::spawn(move || {
        while part_of(&store) != Some(70_000) {
            std::thread::sleep(Duration::from_millis(10));
        }
        cancel.cancel();
    });
    let error = desk.fetch(&server.url("/a"), desk.pin(&bytes)).unwrap_err();
    presser.join().unwrap();
    assert_eq!(error.kind(), Kind::Cancelled);
    assert!(desk.stored("blobs").is_empty());
    let desk = Desk::with(desk.folder);
    desk.fetch(&server.url("/a"), desk.pin(&bytes)).unwrap();
    assert_eq!(
        server.log(),
        ["GET /a", "GET /a bytes=70000- if-range \"v1\""]
    );
}
