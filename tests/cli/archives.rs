//! Archives with members that would leave their folder: refused by the command that brings the file
//! here, whatever road it came by, and not hours later by a build.

use std::fs;

use crate::cli::site::{Outcome, SEAL, Site};
use support::archives::{tar_entry, tar_file, tar_of, zip_of, zipped};
use support::server::{Files, Server};
use winimg_base::digest::Digest;

/// The forms, each with what is said of it.
fn hostile() -> [(&'static str, Vec<u8>, &'static str); 4] {
    let zip = |name: &str| zip_of(&[zipped("good.exe", "MZ"), zipped(name, "MZ")]);
    let link = tar_entry(b"tools", b'2', b"", "/etc");
    [
        ("zip", zip("../evil.exe"), "../evil.exe"),
        ("zip", zip("C:/Windows/evil.exe"), "C:/Windows/evil.exe"),
        (
            "tar",
            tar_of(&[tar_file("good.exe", "MZ"), tar_file("../evil.exe", "MZ")]),
            "../evil.exe",
        ),
        (
            "tar",
            tar_of(&[link, tar_file("tools/evil.exe", "MZ")]),
            "tools",
        ),
    ]
}

/// A recipe whose component is at `url`; `unpack`: how it is packed, where the recipe says that.
fn component(site: &Site, url: &str, bytes: &[u8], unpack: Option<&str>) {
    let digest = Digest::sha256_of(bytes);
    let unpack = unpack.map_or_else(String::new, |form| format!("unpack = \"{form}\"\n"));
    let marker = "[components.agent]\n";
    let recipe = site.read("plain.toml");
    let own = format!(
        "[components.packed]\nurl = \"{url}\"\nsha256 = \"{}\"\n{unpack}\n",
        digest.hex()
    );
    site.write(
        "recipe.toml",
        &recipe.replace(marker, &format!("{own}{marker}")),
    );
}

fn site() -> Site {
    let site = Site::new(SEAL);
    fs::copy(site.path("recipe.toml"), site.path("plain.toml")).expect("a copy");
    site
}

fn refused(outcome: &Outcome<'_>, why: &str) {
    let said = outcome.failure();
    assert_eq!(outcome.status(), Some(5), "{}", outcome.whole());
    assert!(said.contains("packed"), "{said}");
    assert!(said.contains(why), "{said}");
}

#[test]
fn they_are_refused_from_a_folder_from_a_server_and_from_the_cache() {
    let site = site();
    let files = Files::default();
    let held = files.clone();
    let (server, certificate) = Server::start_tls(move |asked| held.answer(asked));
    site.write("server.pem", &certificate);
    let run = |arguments: &[&str]| {
        let mut command = site.command(arguments);
        command.env("SSL_CERT_FILE", site.path("server.pem"));
        site.ended(command.output().expect("winimg starts"))
    };
    for (form, bytes, why) in hostile() {
        let name = format!("packed.{form}");
        fs::write(site.path(&name), &bytes).expect("a file");
        let text = bytes.clone();
        files.put(&format!("/{name}"), text);
        for url in [name.clone(), server.url(&format!("/{name}"))] {
            let _ = fs::remove_dir_all(site.path("cache"));
            component(&site, &url, &bytes, Some(form));
            for command in ["fetch", "lock"] {
                refused(&run(&[command, "recipe.toml"]), why);
            }
            assert!(!site.path("recipe.lock").exists());
            // It was taken as a plain file, and lies in the cache.
            component(&site, &url, &bytes, None);
            run(&["fetch", "recipe.toml"]).ended_well();
            component(&site, &url, &bytes, Some(form));
            refused(&run(&["fetch", "recipe.toml", "--offline"]), why);
        }
    }
}
