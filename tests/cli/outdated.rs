//! `winimg outdated` against publishers' lists that a local server has.

use std::sync::{Arc, Mutex};

use serde_json::Value;

use crate::cli::site::{SEAL, Site};
use support::server::{Answer, Server};

const FEED: &str = r#"<?xml version="1.0"?>
<feed xmlns="http://www.w3.org/2005/Atom"><title>Release notes</title>
<entry><link rel="alternate" href="https://example.com/tool/releases/tag/v1.2.7"/></entry>
<entry><link rel="alternate" href="https://example.com/tool/releases/tag/v1.3.0"/></entry>
<entry><link rel="alternate" href="https://example.com/tool/releases/tag/v1.4.0-rc.1"/></entry>
</feed>
"#;

type Asked = Arc<Mutex<Vec<String>>>;

/// A site whose components and lists are the server's; what was asked for.
fn site() -> (Site, Server, Asked) {
    let asked = Asked::default();
    let log = Arc::clone(&asked);
    let server = Server::start(move |one| {
        log.lock()
            .expect("the log")
            .push(format!("{} {}", one.method, one.path));
        match (one.method.as_str(), one.path.as_str()) {
            (_, "/releases.atom" | "/mirror/releases.atom") => Answer::new("200 OK", &[], FEED),
            (_, "/stable.txt") => Answer::new("200 OK", &[], "v2.0.1\n"),
            (_, "/page.atom") => Answer::new("200 OK", &[], "<html/>"),
            (_, "/tool.exe" | "/agent.msi.sha256") => Answer::new("200 OK", &[], "MZ"),
            ("HEAD", "/get-alone.exe") => Answer::new("405 Method Not Allowed", &[], ""),
            ("GET", "/get-alone.exe") => Answer::new("200 OK", &[], "MZ"),
            ("HEAD", "/signed.exe") => Answer::new("403 Forbidden", &[], ""),
            ("GET", "/signed.exe") => Answer::new("206 Partial Content", &[], "M"),
            ("HEAD", "/hidden.exe") => Answer::new("404 Not Found", &[], ""),
            ("GET", "/hidden.exe") => Answer::new("200 OK", &[], "MZ"),
            ("HEAD", "/empty.exe") => Answer::new("400 Bad Request", &[], ""),
            ("GET", "/empty.exe") => Answer::new("416 Range Not Satisfiable", &[], ""),
            (_, "/private.exe") => Answer::new("403 Forbidden", &[], ""),
            _ => Answer::new("404 Not Found", &[], ""),
        }
    });
    let site = Site::new(SEAL);
    let recipe = site.read("recipe.toml");
    let tool = format!(
        "url = \"{}\"\nversions = {{ atom = \"{}\" }}",
        server.url("/tool.exe"),
        server.url("/releases.atom")
    );
    let recipe = recipe.replace("url = \"tool.exe\"", &tool);
    site.write("recipe.toml", &recipe);
    (site, server, asked)
}

#[test]
fn later_versions_are_listed_and_the_status_says_so() {
    let (site, server, _) = site();
    let outcome = site.run(&["outdated", "recipe.toml"]);
    assert_eq!(outcome.status(), Some(13), "{}", outcome.whole());
    assert_eq!(
        outcome.stdout(),
        "name  version  same series  newest\n\
         tool  1.2.0    v1.2.7       v1.3.0\n\
         without a version list: agent\n"
    );
    let json = site.run(&["outdated", "recipe.toml", "--json"]).stdout();
    let json: Value = serde_json::from_str(&json).expect("JSON");
    assert_eq!(json["newer"][0]["in_series"], "v1.2.7");
    assert_eq!(json["newer"][0]["list"], server.url("/releases.atom"));

    let recipe = site.read("recipe.toml");
    site.write(
        "recipe.toml",
        &recipe.replace("version = \"1.2.0\"", "version = \"1.3.0\""),
    );
    let newest = site.run(&["outdated", "recipe.toml"]).ended_well().stdout();
    assert!(
        newest.starts_with("no later version is listed\n"),
        "{newest}"
    );
}

#[test]
fn addresses_that_are_gone_have_a_status_of_their_own_and_nothing_is_downloaded() {
    let (site, server, asked) = site();
    let recipe = site
        .read("recipe.toml")
        .replace("version = \"1.2.0\"", "version = \"1.3.0\"");
    let alone = recipe.replace(
        "url = \"agent.msi\"",
        &format!("url = \"{}\"", server.url("/get-alone.exe")),
    );
    site.write("recipe.toml", &alone);
    let whole = site
        .run(&["outdated", "recipe.toml", "--urls"])
        .ended_well()
        .stdout();
    assert!(whole.ends_with("2 URLs checked, 0 gone\n"), "{whole}");
    let log = asked.lock().expect("the log").join("\n");
    assert!(
        log.contains("HEAD /tool.exe") && !log.contains("GET /tool.exe"),
        "{log}"
    );

    let gone = recipe.replace(
        "url = \"agent.msi\"",
        &format!("url = \"{}\"", server.url("/agent.msi")),
    );
    site.write("recipe.toml", &gone);
    let outcome = site.run(&["outdated", "recipe.toml", "--urls"]);
    assert_eq!(outcome.status(), Some(14), "{}", outcome.whole());
    let line = format!(
        "agent: {} is gone: 404 Not Found\n",
        server.url("/agent.msi")
    );
    assert!(outcome.stdout().contains(&line), "{}", outcome.stdout());
}

#[test]
fn an_address_is_gone_only_when_get_says_so() {
    let (site, server, asked) = site();
    let recipe = site.read("recipe.toml");
    let recipe = recipe.replace("version = \"1.2.0\"", "version = \"1.3.0\"");
    for (path, status) in [
        ("/signed.exe", 0),
        ("/hidden.exe", 0),
        ("/empty.exe", 0),
        ("/private.exe", 4),
        ("/nothing.exe", 14),
    ] {
        let agent = format!("url = \"{}\"", server.url(path));
        site.write(
            "recipe.toml",
            &recipe.replace("url = \"agent.msi\"", &agent),
        );
        let outcome = site.run(&["outdated", "recipe.toml", "--urls"]);
        assert_eq!(
            outcome.status(),
            Some(status),
            "{path}: {}",
            outcome.whole()
        );
        let log = asked.lock().expect("the log").join("\n");
        assert!(log.contains(&format!("GET {path}")), "{log}");
    }
}

#[test]
fn a_rebuild_of_the_same_version_is_a_successor() {
    let feed = FEED
        .replace("v1.2.7", "v1.36.4%2Brke2r2")
        .replace("v1.3.0", "v1.36.4%2Brke2r1");
    let server = Server::start(move |_| Answer::new("200 OK", &[], feed.as_str()));
    let site = Site::new(SEAL);
    let versions = format!("versions = {{ atom = \"{}\" }}", server.url("/feed.atom"));
    let recipe = site
        .read("recipe.toml")
        .replace(
            "url = \"tool.exe\"",
            &format!("url = \"tool.exe\"\n{versions}"),
        )
        .replace("version = \"1.2.0\"", "version = \"1.36.4+rke2r1\"");
    site.write("recipe.toml", &recipe);
    let outcome = site.run(&["outdated", "recipe.toml"]);
    assert_eq!(outcome.status(), Some(13), "{}", outcome.whole());
    let row = "tool  1.36.4+rke2r1  v1.36.4+rke2r2  v1.36.4+rke2r2\n";
    assert!(outcome.stdout().contains(row), "{}", outcome.stdout());
}

#[test]
fn a_mirror_is_asked_instead_and_a_list_that_is_none_is_an_error() {
    let (site, server, asked) = site();
    let recipe = site.read("recipe.toml");
    let far = recipe.replace(
        &server.url("/releases.atom"),
        "https://github.com/a/tool/releases.atom",
    );
    let rule = format!(
        "\n[mirrors]\n\"https://github.com/a/tool/\" = \"{}\"\n",
        server.url("/mirror/")
    );
    site.write("recipe.toml", &format!("{far}{rule}"));
    let outcome = site.run(&["outdated", "recipe.toml"]);
    assert_eq!(outcome.status(), Some(13), "{}", outcome.whole());
    assert_eq!(
        asked.lock().expect("the log").as_slice(),
        ["GET /mirror/releases.atom"]
    );

    site.write(
        "recipe.toml",
        &recipe.replace("/releases.atom", "/page.atom"),
    );
    let page = site.run(&["outdated", "recipe.toml"]);
    assert_eq!(page.status(), Some(4), "{}", page.whole());
    assert!(
        page.failure()
            .contains("tool: the version list is not an Atom feed"),
        "{}",
        page.failure()
    );
    site.write(
        "recipe.toml",
        &recipe.replace("/releases.atom", "/nothing.atom"),
    );
    let nothing = site.run(&["outdated", "recipe.toml"]);
    assert!(
        nothing.failure().contains("tool: the list does not exist"),
        "{}",
        nothing.failure()
    );
}
