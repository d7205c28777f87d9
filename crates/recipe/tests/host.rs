//! A host's configuration files: what they say together, and every complaint at once.

use std::path::Path;
use support::complaints::facts;

use super::plan::keys::written;
use winimg_base::diag::Diagnostic;
use winimg_recipe::host_config::{HostConfig, HostConfigFile, read};
use winimg_recipe::keys;

fn file(name: &str, text: &str) -> HostConfigFile {
    HostConfigFile {
        name: name.into(),
        text: text.into(),
        folder: Path::new("/etc/winimg").into(),
    }
}

fn settings(host: &HostConfig) -> String {
    let line =
        |s: &winimg_recipe::EffectiveValue| format!("{} = {} ({})\n", s.path, s.value, s.origin);
    host.settings.iter().map(line).collect()
}

#[test]
fn a_later_file_wins_key_by_key() {
    let system = r#"
accel = "kvm"
builder_id = "https://ci.example.com/windows"

[cache]
dir = "/var/cache/winimg"
remote = "oci://registry.example.com/winimg"
keys = ["cache.pub", "RWQf6LRCGA9i53mlYecO4IzT51TGPpvWucNSCh1CBM0QTaLn73Y7GFO3"]

[proxy]
https = "http://proxy.example.com:3128"
except = ["localhost"]

[sign]
keys = ["build.key"]
"#;
    let user = "accel = \"tcg\"\n[cache]\ndir = \"/home/u/cache\"\n[proxy]\nexcept = [\".corp\"]\nnear = [\"s3.corp\"]\n";
    let (host, found) = read(vec![
        file("/etc/winimg/config.toml", system),
        file("user.toml", user),
    ]);
    assert_eq!(found.render(false), "");
    let host = host.expect("settings");
    assert_eq!(host.accel, Some("tcg"));
    assert_eq!(
        host.cache.keys,
        [
            "/etc/winimg/cache.pub",
            "RWQf6LRCGA9i53mlYecO4IzT51TGPpvWucNSCh1CBM0QTaLn73Y7GFO3"
        ]
    );
    assert_eq!(host.sign.keys, [Path::new("/etc/winimg/build.key")]);
    assert_eq!(
        settings(&host),
        "\
accel = \"tcg\" (user.toml:1:9)
builder_id = \"https://ci.example.com/windows\" (/etc/winimg/config.toml:3:14)
cache.dir = \"/home/u/cache\" (user.toml:3:7)
cache.remote = \"oci://registry.example.com/winimg\" (/etc/winimg/config.toml:7:10)
cache.keys = [\"cache.pub\",\"RWQf6LRCGA9i53mlYecO4IzT51TGPpvWucNSCh1CBM0QTaLn73Y7GFO3\"] (/etc/winimg/config.toml:8:8)
proxy.https = \"http://proxy.example.com:3128\" (/etc/winimg/config.toml:11:9)
proxy.except = [\".corp\"] (user.toml:5:10)
proxy.near = [\"s3.corp\"] (user.toml:6:8)
sign.keys = [\"build.key\"] (/etc/winimg/config.toml:15:8)
"
    );
}

#[test]
fn every_mistake_of_all_files_is_shown_at_its_line() {
    let system = r#"accelerator = "kvm"
policy = "signed"
accel = "fast"
[cahce]
dir = "/x"
[cache]
dir = "~/cache"
remote = 5
"#;
    let user = r#"[proxy]
http = "proxy.example.com:3128"
https = "http://ci:hunter2@proxy.example.com"
all = "http://ci:hun/ter2@proxy.example.com"
[sign]
keys = []
command = "sign it"
[machine]
cpus = 8
"#;
    let (host, found) = read(vec![file("system.toml", system), file("user.toml", user)]);
    assert!(host.is_none());
    let text = found.render(false);
    assert!(
        !text.contains("hunter2") && !text.contains("ter2"),
        "{text}"
    );
    insta::assert_snapshot!(facts(&text));
}

#[test]
fn a_file_that_is_no_toml_shows_no_password() {
    let text = "[proxy]\nhttp = \"http://ci:hunter2@proxy\n# https://a:hunter2@b\n";
    let (host, found) = read(vec![file("config.toml", text)]);
    assert!(host.is_none());
    let text = found.render(false);
    assert!(
        text.contains("config.toml:2") && !text.contains("hunter2"),
        "{text}"
    );
}

/// A new row's are here by themselves.
#[test]
fn every_key_has_its_complaints() {
    let mut silent = Vec::new();
    let mut tried = 0;
    let mut ask = |header: &str, line: String, fact: &str, at: &str| {
        let text = format!("{header}{line}\n");
        let (_, found) = read(vec![file("config.toml", &text)]);
        let said = |d: &Diagnostic| {
            let place = d.problem.place.as_ref().expect("a place");
            d.problem.fact.contains(fact) && place.source.text.get(place.span.clone()) == Some(at)
        };
        tried += 1;
        if !found.0.iter().any(said) {
            silent.push(text);
        }
    };
    for spec in keys::list_tables().filter(|spec| spec.is_of_host()) {
        let header = match spec.name.strip_prefix("host.") {
            Some(table) => format!("[{table}]\n"),
            None => String::new(),
        };
        for key in &spec.keys {
            for (value, at) in written(&key.takes) {
                ask(&header, format!("{} = {value}", key.name), "", &at);
            }
        }
        ask(&header, "qqqq = 1".into(), "unknown key `qqqq`", "qqqq");
    }
    assert!(tried > 30, "{tried}");
    assert_eq!(silent, Vec::<String>::new());
}
