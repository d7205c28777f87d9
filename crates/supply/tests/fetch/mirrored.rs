//! `[mirrors]`: every road leads to the mirror, what proves the bytes stays, and the store
//! remembers which address gave them.

use std::path::Path;
use std::sync::Arc;

use winimg_base::digest::Digest;
use winimg_base::event::Sink;
use winimg_recipe::Mirrors;
use winimg_recipe::host_config::{HostConfigFile, read};
use winimg_supply::fetch::image::fetch_images;

use crate::fetch::desk::Desk;
use support::registry::{answer, pause};
use support::server::{Answer, Server};

fn mirrors(from: &str, to: &str) -> Mirrors {
    let (host, found) = read(vec![HostConfigFile {
        name: "config.toml".into(),
        text: format!("[mirrors]\n\"{from}\" = \"{to}\"\n"),
        folder: Path::new("/").into(),
    }]);
    assert_eq!(found.render(false), "");
    host.expect("settings").mirrors
}

const FILE: &[u8] = b"MZ the tool\n";

/// A desk whose mirror has the file and its checksum, and the mirror.
fn desk() -> (Desk, Server) {
    let sums = format!("{}  a.exe\n", Digest::sha256_of(FILE).hex());
    let server = Server::start(move |asked| match asked.path.as_str() {
        "/m/a.exe" => Answer::file(asked, FILE, "\"v1\""),
        "/m/a.sha256" => Answer::new("200 OK", &[], sums.clone()),
        _ => Answer::new("404 Not Found", &[], ""),
    });
    let mut desk = Desk::new();
    desk.options.mirrors = mirrors("https://publisher.example/", &server.url("/m/"));
    (desk, server)
}

#[test]
fn files_and_their_checksums_come_from_the_mirror_without_the_query() {
    let (desk, server) = desk();
    let url = "https://publisher.example/a.exe?sig=secret";
    let sums = "https://publisher.example/a.sha256?sig=secret";
    let blob = desk.fetch(url, desk.checksum(sums)).expect("the file");
    assert_eq!(server.log(), ["GET /m/a.sha256", "GET /m/a.exe"]);
    assert_eq!(blob.digest(), &Digest::sha256_of(FILE));
    // The evidence is the recipe's own address: a lock holds with and without the mirror.
    let evidence: Vec<&String> = blob.evidence().keys().collect();
    assert_eq!(evidence, ["https://publisher.example/a.sha256?…"]);
    let used = desk.store().mirror_of(url, blob.digest());
    assert_eq!(used, Some(server.url("/m/a.exe")));
    let other = Digest::sha256_of(b"other");
    assert_eq!(desk.store().mirror_of(url, &other), None);
}

#[test]
fn what_a_mirror_lacks_or_spoils_is_refused_with_both_addresses() {
    let (desk, server) = desk();
    let host = server.host();
    let missing = desk.fetch("https://publisher.example/b.exe", desk.pin(FILE));
    assert_eq!(
        desk.text(&missing.expect_err("it is not there"))
            .replace(&host, "mirror"),
        "kubelet: the server answered 404 Not Found\n  \
         at: http://mirror/m/b.exe\n  \
         recipe: DESK/recipe.toml:3:1\n  \
         | a rule under [mirrors] replaces https://publisher.example/b.exe with it\n  \
         cure: check the version and the spelling of the address"
    );
    let spoiled = desk.fetch("https://publisher.example/a.exe", desk.pin(b"another file"));
    let text = desk.text(&spoiled.expect_err("it is another file"));
    let line = "a rule under [mirrors] replaces https://publisher.example/a.exe with it";
    assert!(
        text.contains(line) && text.contains("expected: sha256:"),
        "{text}"
    );
    assert!(desk.stored("blobs").is_empty());
}

#[test]
fn images_come_from_the_mirror_and_keep_their_names() {
    let (held, digest) = pause();
    let mirror = Server::start(move |asked| answer(&held, asked));
    let own = Server::of(b"nobody asks here");
    let mut desk = Desk::new();
    let from = format!("oci+http://{}/", own.host());
    desk.options.mirrors = mirrors(&from, &format!("oci+http://{}/", mirror.host()));
    let reference = format!("http://{}/pause:3.10.2", own.host());
    let spec = desk.container(&reference, desk.pin_image(&digest));
    let sink = Arc::clone(&desk.events) as Arc<dyn Sink>;
    let fetched = fetch_images(
        &[spec],
        "10.0.20348",
        &desk.store(),
        &sink,
        &desk.cancel,
        &desk.options,
    );
    let image = fetched
        .map_err(|e| desk.text(&e))
        .expect("an image")
        .remove(0);
    assert_eq!(own.log(), [""; 0]);
    assert_eq!(image.reference, format!("{}/pause:3.10.2", own.host()));
    let used = desk
        .store()
        .mirror_of(&image.reference, image.manifest.blob.digest());
    assert_eq!(used, Some(format!("{}/pause:3.10.2", mirror.host())));
}
