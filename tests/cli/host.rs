//! The configuration files of a host: what wins over them, who may write them, and that what they say is used.

use std::fs::{Permissions, create_dir_all, set_permissions};
use std::os::unix::fs::PermissionsExt as _;

use crate::cli::sign::ec_key;
use crate::cli::site::{BUILD, SEAL, Site};
use serde_json::{Value, json};
use support::complaints::facts;
use support::planted::Proxy;
use support::server::Server;

/// The user's file.
const FILE: &str = ".config/winimg/config.toml";

fn configure(site: &Site, text: &str) {
    create_dir_all(site.path(".config/winimg")).expect("a folder");
    site.write(FILE, text);
    set_permissions(site.path(FILE), Permissions::from_mode(0o644)).expect("its mode");
}

#[test]
fn doctor_shows_which_file_says_what() {
    let site = Site::new("");
    configure(&site, "accel = \"tcg\"\n[cache]\ndir = \"elsewhere\"\n");
    let mut doctor = site.command(&["doctor"]);
    doctor.env("PATH", site.path("none"));
    let said = site.outcome(doctor).stdout();
    let beginning = "\
configuration: /site/.config/winimg/config.toml
  accel = \"tcg\"  (/site/.config/winimg/config.toml:1:9)
  cache.dir = \"elsewhere\"  (/site/.config/winimg/config.toml:3:7)
";
    assert!(said.starts_with(beginning), "{said}");
    let mut without = site.command(&["doctor", "--config", "none"]);
    without.env("PATH", site.path("none"));
    let said = site.outcome(without).stdout();
    assert!(!said.contains("configuration"), "{said}");
}

#[test]
fn mistakes_are_shown_at_their_lines_and_nothing_is_done() {
    let site = Site::new("");
    configure(&site, "[cache]\nremotee = \"x\"\n[machine]\ncpus = 4\n");
    let outcome = site.run(&["validate", "recipe.toml"]);
    assert_eq!(outcome.status(), Some(2));
    insta::assert_snapshot!(facts(&outcome.whole()));
    // What does not depend on the host is answered all the same.
    assert_eq!(site.run(&["schema", "config"]).status(), Some(0));
}

#[test]
fn a_file_that_others_can_write_is_refused() {
    let site = Site::new("");
    configure(&site, "");
    set_permissions(site.path(FILE), Permissions::from_mode(0o664)).expect("its mode");
    set_permissions(site.path(".config/winimg"), Permissions::from_mode(0o777)).expect("its mode");
    let outcome = site.run(&["doctor"]);
    assert_eq!(outcome.status(), Some(2));
    insta::assert_snapshot!(outcome.whole());
}

#[test]
fn a_file_that_is_named_and_not_there_is_an_error() {
    let site = Site::new("");
    let mut command = site.command(&["doctor"]);
    command.env("WINIMG_CONFIG", "ci.toml");
    assert_eq!(
        site.outcome(command).error(),
        "error: there is no configuration file ci.toml\n  \
         cure: give another one with --config or WINIMG_CONFIG; `none` reads none\n"
    );
}

/// The proxy's password reaches the proxy of the file alone, and no output.
#[test]
fn downloads_go_through_the_proxy_of_the_file_into_its_cache() {
    let proxy = Proxy::start("200 OK", b"MZ the tool\n".to_vec());
    let other = Proxy::start("200 OK", b"MZ the tool\n".to_vec());
    let site = Site::new("");
    let recipe = site.read("recipe.toml");
    let url = "url = \"http://files.example/tool.exe\"";
    site.write("recipe.toml", &recipe.replace("url = \"tool.exe\"", url));
    site.write("tool.exe", "MZ the tool\n");
    let port = proxy.port;
    configure(
        &site,
        &format!(
            "[cache]\ndir = \"../../configured\"\n[proxy]\nhttp = \"http://127.0.0.1:{port}\"\ncredentials = \"proxy\"\n"
        ),
    );
    let secret = ".config/winimg/proxy";
    site.write(secret, "ci:hunter2\n");
    set_permissions(site.path(secret), Permissions::from_mode(0o604)).expect("its mode");
    let fetch = ["-vv", "fetch", "recipe.toml"];
    assert_eq!(
        site.run(&fetch).error(),
        "error: the proxy credentials file is readable by everyone\n  \
         at: /site/.config/winimg/proxy\n  \
         cure: `chmod o= /site/.config/winimg/proxy`\n"
    );
    set_permissions(site.path(secret), Permissions::from_mode(0o600)).expect("its mode");

    let mut command = site.command(&fetch);
    command.env_remove("WINIMG_CACHE_DIR");
    let outcome = site.outcome(command);
    assert_eq!(outcome.status(), Some(0), "{}", outcome.whole());
    assert!(!outcome.whole().contains("hunter2"), "{}", outcome.whole());
    let asked = proxy.asked.lock().expect("the log").concat();
    assert!(
        asked.starts_with("GET http://files.example/tool.exe "),
        "{asked}"
    );
    // ci:hunter2
    assert!(asked.contains("Y2k6aHVudGVyMg=="), "{asked}");
    assert!(!site.files("configured/blobs").is_empty());
    assert!(!site.path("cache").exists());

    // The environment wins, and its proxy is not given what the file has for its own.
    let mut command = site.command(&fetch);
    command.env("http_proxy", format!("http://127.0.0.1:{}", other.port));
    let outcome = site.outcome(command);
    assert_eq!(outcome.status(), Some(0), "{}", outcome.whole());
    let asked = other.asked.lock().expect("the log").concat();
    assert!(
        asked.starts_with("GET http://files.example/tool.exe "),
        "{asked}"
    );
    assert!(!asked.contains("Y2k6aHVudGVyMg=="), "{asked}");
    assert!(site.path("cache").exists());
}

#[test]
fn a_build_is_signed_with_the_key_of_the_file() {
    let site = Site::new(SEAL);
    ec_key(&site);
    configure(
        &site,
        "builder_id = \"https://ci.example.com/images\"\n[sign]\nkeys = [\"../../ec.key\"]\n",
    );
    site.run(&BUILD).ended_well();
    assert!(
        site.path("out/manifest.json.sig").exists(),
        "{:?}",
        site.files("out")
    );
    let statement = site.read("out/provenance.intoto.json");
    assert!(
        statement.contains("\"id\": \"https://ci.example.com/images\""),
        "{statement}"
    );
}

const TOOL: &str = r#"
[[steps]]
name = "the tool"
copy = { component = "tool", to = 'C:\k\tool.exe' }
"#;

/// The lock keeps the recipe's address, so that it holds on hosts without the mirror; all else names both.
#[test]
fn a_mirror_brings_the_file_and_is_shown_and_recorded() {
    let site = Site::new(&format!("{TOOL}\n{SEAL}"));
    let server = Server::of(b"MZ the tool\n");
    site.write("tool.exe", "MZ the tool\n");
    let recipe = site.read("recipe.toml");
    let own = "https://files.example/v1/tool.exe";
    site.write(
        "recipe.toml",
        &recipe.replace("url = \"tool.exe\"", &format!("url = \"{own}\"")),
    );
    let mirror = server.url("/corp/");
    configure(
        &site,
        &format!("[mirrors]\n\"https://files.example/v1/\" = \"{mirror}\"\n"),
    );

    let plan = site.run(&["plan", "recipe.toml"]).stdout();
    let both = format!("from {mirror}tool.exe instead of {own}\n");
    assert!(plan.contains(&both), "{plan}");
    site.run(&["lock", "recipe.toml"]).ended_well();
    let lock = site.read("recipe.lock");
    assert!(!lock.contains(&mirror), "{lock}");
    let fetched = site.run(&["fetch", "recipe.toml"]).stdout();
    assert!(
        fetched.contains(&format!(
            "tool was downloaded from {mirror}tool.exe instead of {own}\n"
        )),
        "{fetched}"
    );
    assert_eq!(server.log(), ["GET /corp/tool.exe"]);
    site.run(&BUILD).ended_well();
    let manifest: Value = serde_json::from_str(&site.read("out/manifest.json")).expect("JSON");
    let inputs = manifest["inputs"].as_array().expect("inputs");
    let tool = inputs
        .iter()
        .find(|input| input["name"] == "tool")
        .expect("the tool");
    assert_eq!(
        (&tool["url"], &tool["mirror"]),
        (&json!(own), &json!(format!("{mirror}tool.exe")))
    );
    let provenance = site.read("out/provenance.intoto.json");
    assert!(
        provenance.contains(&format!("\"mirror\": \"{mirror}tool.exe\"")),
        "{provenance}"
    );
    // The same lock, on a host without a mirror.
    site.run(&["--config", "none", "lock", "--check", "recipe.toml"])
        .ended_well();
}
