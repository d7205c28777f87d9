//! `[mirrors]` in a recipe and on a host: which rule wins, what is kept from the mirror, and each
//! mistake.

use std::path::Path;
use support::complaints::facts;

use winimg_recipe::host_config::{HostConfigFile, read};
use winimg_recipe::{ImageReference, Mirrors};

fn file(text: &str) -> HostConfigFile {
    HostConfigFile {
        name: "config.toml".into(),
        text: format!("[mirrors]\n{text}"),
        folder: Path::new("/etc/winimg").into(),
    }
}

fn mirrors(text: &str) -> Mirrors {
    let (host, found) = read(vec![file(text)]);
    assert_eq!(found.render(false), "");
    host.expect("settings").mirrors
}

fn url(mirrors: &Mirrors, text: &str) -> String {
    let there = mirrors.resolve_url(&text.parse().expect("a URL"));
    there.map_or("-".into(), |url| url.to_string())
}

#[test]
fn the_longest_prefix_wins_and_the_query_stays_at_home() {
    let all = mirrors(
        r#"
"https://dl.k8s.io/" = "https://mirror.corp/k8s/"
"https://dl.k8s.io/release/v1.36.1/" = "https://fast.corp/"
"https://HOST.example:443/a/" = "https://host.example/b/"
"http://plain.example/" = "http://127.0.0.1:8080/"
"https://here.example/" = "http://localhost:1/"
"#,
    );
    for (from, to) in [
        (
            "https://dl.k8s.io/release/v1/kubelet.exe",
            "https://mirror.corp/k8s/release/v1/kubelet.exe",
        ),
        ("https://dl.k8s.io/release/v1.36.1/x", "https://fast.corp/x"),
        (
            "https://dl.k8s.io/a/../release/v1.36.1/x",
            "https://fast.corp/x",
        ),
        ("https://dl.k8s.io.evil.example/x", "-"),
        ("http://dl.k8s.io/x", "-"),
        // Signed addresses: another host learns nothing, their own all.
        (
            "https://dl.k8s.io/x?sig=secret",
            "https://mirror.corp/k8s/x",
        ),
        (
            "https://host.example/a/x?sig=secret",
            "https://host.example/b/x?sig=secret",
        ),
        ("http://plain.example/x", "http://127.0.0.1:8080/x"),
        ("https://here.example/x", "http://localhost:1/x"),
    ] {
        assert_eq!(url(&all, from), to, "{from}");
    }
}

#[test]
fn a_hosts_rule_stands_over_the_recipes() {
    let host = mirrors("\"https://a.example/\" = \"https://host.corp/\"\n");
    let recipe = mirrors(
        "\"https://a.example/\" = \"https://recipe.corp/\"\n\"https://a.example/b/\" = \"https://deep.corp/\"\n",
    );
    let both = host.merge(&recipe);
    assert_eq!(url(&both, "https://a.example/x"), "https://host.corp/x");
    assert_eq!(url(&both, "https://a.example/b/x"), "https://deep.corp/x");
}

#[test]
fn images_are_mirrored_by_registry_and_repository() {
    let all = mirrors(
        r#"
"oci://registry.k8s.io/" = "oci://mirror.corp:5000/k8s/"
"oci://docker.io/" = "oci://mirror.corp:5000/hub/"
"oci+http://127.0.0.1:1/" = "oci+http://127.0.0.1:2/"
"#,
    );
    let digest = "0".repeat(64);
    for (from, to) in [
        (
            "registry.k8s.io/pause:3.10",
            "mirror.corp:5000/k8s/pause:3.10".to_owned(),
        ),
        (
            "busybox",
            "mirror.corp:5000/hub/library/busybox:latest".into(),
        ),
        (
            "http://127.0.0.1:1/a/b:c",
            "http://127.0.0.1:2/a/b:c".into(),
        ),
        ("127.0.0.1:1/a/b:c", "-".into()),
        ("mcr.microsoft.com/x:1", "-".into()),
        (
            &format!("registry.k8s.io/pause@sha256:{digest}"),
            format!("mirror.corp:5000/k8s/pause@sha256:{digest}"),
        ),
    ] {
        let image = ImageReference::parse(from).expect("a reference");
        let there = all
            .resolve_image(&image)
            .map_or("-".into(), |image| image.to_string());
        assert_eq!(there, to, "{from}");
    }
}

#[test]
fn mistakes_are_shown_at_their_lines() {
    let (host, found) = read(vec![file(
        r#""https://a.example" = "https://b.example/"
"https://c.example/" = "http://mirror.corp/"
"oci://d.example/" = "https://mirror.corp/"
"oci://e.example/" = "oci+http://mirror.corp/"
"ftp://f.example/" = 5
"https://ci:hunter2@g.example/" = "https://h.example/?sig=hunter2/"
"#,
    )]);
    assert!(host.is_none());
    let text = found.render(false);
    assert!(!text.contains("hunter2"), "{text}");
    insta::assert_snapshot!(facts(&text));
}
