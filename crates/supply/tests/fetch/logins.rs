//! Logins as docker, podman and oras leave them, and what is sent to a registry with each.

use std::env;
use std::fs;
use std::path::Path;
use std::process::Stdio;
use std::sync::{Arc, Mutex};
use support::tree::this_program_as;

use winimg_base::digest::Digest;
use winimg_base::event::Sink;
use winimg_supply::fetch::shared_cache::{
    CacheAddress, DEFAULT_TIMEOUTS, RegistryConfig, SharedCacheClient, SharedCacheSettings,
    find_credentials,
};
use winimg_supply::store::ProgressWatch;

use crate::fetch::desk::Desk;
use crate::fetch::processes::said;
use support::server::{Answer, Asked, Server};

const CONTENT: &[u8] = b"content";

/// Not a test of its own: the others start this binary again for it. Asks a registry with the login
/// that the environment has.
#[test]
#[ignore = "started by the other tests"]
fn child() {
    let desk = Desk::new();
    let address = CacheAddress::parse(&env::var("TEST_CACHE").unwrap()).unwrap();
    let login = find_credentials(
        &address.registry,
        &address.repository,
        &RegistryConfig::default(),
    );
    let spec = SharedCacheSettings {
        proxies: Default::default(),
        address,
        login: login.unwrap(),
        keys: Vec::new(),
        push: None,
        patience: DEFAULT_TIMEOUTS,
    };
    let sink = Arc::clone(&desk.events) as Arc<dyn Sink>;
    let remote = SharedCacheClient::open(spec, &sink, &desk.cancel).unwrap();
    let file = fs::File::create(desk.folder.path().join("came")).unwrap();
    let watch = ProgressWatch::new("kubelet", sink, desk.cancel.clone());
    let digest = Digest::sha256_of(CONTENT);
    let came = remote.pull_blob(&digest, 1 << 10, file, &desk.store(), &watch);
    let rendered = if came.unwrap() {
        "it came".into()
    } else {
        desk.warnings().join("\n")
    };
    println!("CHILD\n{rendered}\nEND");
}

/// What a request says of who asks.
fn shown(asked: &Asked) -> Option<String> {
    let path = asked.path.split('?').next().unwrap_or_default();
    let path = path.rsplit_once('/').map_or(path, |(_, last)| last);
    let path = if path.starts_with("sha256:") {
        "blob"
    } else {
        path
    };
    let body = String::from_utf8_lossy(&asked.body);
    match (asked.header("authorization"), body.is_empty()) {
        (Some(word), _) => Some(format!("{path}: {word}")),
        (None, false) => Some(format!("{path}: {body}")),
        (None, true) => None,
    }
}

/// A registry that asks in this way, and whatever came to it of a login.
fn registry(challenge: &'static str) -> (Server, Arc<Mutex<Vec<String>>>) {
    let learnt: Arc<Mutex<Vec<String>>> = Arc::default();
    let noted = Arc::clone(&learnt);
    let server = Server::start(move |asked| {
        noted.lock().unwrap().extend(shown(asked));
        let host = asked.header("host").unwrap_or_default();
        match (asked.path.split('?').next(), asked.header("authorization")) {
            (Some("/token"), _) => Answer::new("200 OK", &[], r#"{"access_token": "t0ken"}"#),
            (_, Some("Bearer t0ken" | "Basic dXNlcjpwYXNz")) => Answer::new("200 OK", &[], CONTENT),
            _ => {
                let asks = challenge.replace("HOST", host);
                Answer::new("401 Unauthorized", &[("www-authenticate", &asks)], "")
            }
        }
    });
    (server, learnt)
}

const BASIC: &str = "Basic realm=\"r\"";
const BEARER: &str = "Bearer realm=\"http://HOST/token\",service=\"r\"";

/// What a child said, with a home that holds these files.
fn asked(server: &Server, files: &[(&str, &str)], set: &[(&str, &str)]) -> String {
    let home = tempfile::tempdir().unwrap();
    for (name, text) in files {
        let path = home.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text.replace("HOST", &server.host())).unwrap();
        if name.starts_with("bin/") {
            runnable(&path);
        }
    }
    let cache = format!("oci+http://{}/team/cache", server.host());
    let path = env::var("PATH").unwrap_or_default();
    let path = format!("{}:{path}", home.path().join("bin").display());
    let mut child = this_program_as(module_path!(), "child");
    for name in [
        "REGISTRY_AUTH_FILE",
        "DOCKER_CONFIG",
        "XDG_RUNTIME_DIR",
        "XDG_CONFIG_HOME",
    ] {
        child.env_remove(name);
    }
    let child = child
        .env("HOME", home.path())
        .env("PATH", path)
        .env("TEST_CACHE", cache)
        .envs(set.iter().copied())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let text = said(child).replace(&server.host(), "HOST");
    text.replace(&home.path().display().to_string(), "HOME")
}

#[cfg(unix)]
fn runnable(path: &Path) {
    use std::os::unix::fs::PermissionsExt as _;
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
}

#[cfg(not(unix))]
fn runnable(_: &Path) {}

const USER: &str = r#"{"auths": {"HOST": {"auth": "dXNlcjpwYXNz"}}}"#;

#[test]
fn a_login_is_found_in_each_clients_file() {
    for (file, text) in [
        (".docker/config.json", USER),
        (".config/containers/auth.json", USER),
        (
            ".docker/config.json",
            r#"{"auths": {"http://HOST/v2/": {"username": "user", "password": "pass"}}}"#,
        ),
        (
            ".config/containers/auth.json",
            r#"{"auths": {"HOST/team": {"auth": "dXNlcjpwYXNz"}}}"#,
        ),
        (".dockercfg", r#"{"HOST": {"auth": "dXNlcjpwYXNz"}}"#),
    ] {
        let (server, learnt) = registry(BASIC);
        assert_eq!(
            asked(&server, &[(file, text)], &[]),
            "it came",
            "{file}: {text}"
        );
        assert_eq!(
            learnt.lock().unwrap().as_slice(),
            ["blob: Basic dXNlcjpwYXNz"]
        );
    }
    let (server, _) = registry(BEARER);
    let text = USER.replace("HOST", &server.host());
    let set = [("DOCKER_AUTH_CONFIG", text.as_str())];
    assert_eq!(asked(&server, &[], &set), "it came");
}

#[test]
fn tokens_are_sent_where_they_are_meant_for() {
    let identity = r#"{"auths": {"HOST": {"auth": "MDAwMDAwMDA6", "identitytoken": "IDT"}}}"#;
    let (server, learnt) = registry(BEARER);
    assert_eq!(
        asked(&server, &[(".docker/config.json", identity)], &[]),
        "it came"
    );
    assert_eq!(
        learnt.lock().unwrap().as_slice(),
        [
            "token: grant_type=refresh_token&refresh_token=IDT&client_id=winimg&service=r&\
             scope=repository%3Ateam%2Fcache%3Apull",
            "blob: Bearer t0ken"
        ]
    );
    let token = r#"{"auths": {"HOST": {"registrytoken": "t0ken"}}}"#;
    let (server, learnt) = registry(BEARER);
    assert_eq!(
        asked(&server, &[(".docker/config.json", token)], &[]),
        "it came"
    );
    assert_eq!(learnt.lock().unwrap().as_slice(), ["blob: Bearer t0ken"]);
}

#[cfg(unix)]
#[test]
fn a_helper_is_asked_for_the_login() {
    let helper = "#!/bin/sh\n[ \"$1\" = get ] || exit 2\nread -r server\n\
                  [ \"$server\" = HOST ] && echo '{\"ServerURL\": \"HOST\", \"Username\": \"user\", \"Secret\": \"pass\"}'\n";
    for config in [
        r#"{"auths": {"HOST": {}}, "credsStore": "testing"}"#,
        r#"{"credsStore": "none", "credHelpers": {"HOST": "testing"}}"#,
    ] {
        let (server, learnt) = registry(BASIC);
        let files = [
            (".docker/config.json", config),
            ("bin/docker-credential-testing", helper),
        ];
        assert_eq!(asked(&server, &files, &[]), "it came", "{config}");
        assert_eq!(
            learnt.lock().unwrap().as_slice(),
            ["blob: Basic dXNlcjpwYXNz"]
        );
    }
}

#[test]
fn a_refusal_says_where_a_login_was_looked_for() {
    let refused = |files: &[(&str, &str)]| {
        let (server, _) = registry(BASIC);
        let text = asked(&server, files, &[]);
        let cure = text.lines().find(|line| line.trim().starts_with("cure: "));
        cure.unwrap_or(&text).trim().to_owned()
    };
    let config = ".docker/config.json";
    assert_eq!(
        [
            refused(&[]),
            refused(&[(
                config,
                r#"{"auths": {"other.example": {"auth": "dXNlcjpwYXNz"}}}"#
            )]),
            refused(&[(
                config,
                r#"{"auths": {"HOST": {}}, "credsStore": "winimg-has-none"}"#
            )]),
            refused(&[(config, r#"{"auths": {"HOST": {"auth": "hunter2"}}}"#)]),
            refused(&[(config, "hunter2")]),
            // user:word, which the registry does not take.
            refused(&[(config, r#"{"auths": {"HOST": {"auth": "dXNlcjp3b3Jk"}}}"#)]),
        ],
        [
            "cure: set WINIMG_CACHE_USER and WINIMG_CACHE_PASSWORD, or run `docker login HOST`",
            "cure: set WINIMG_CACHE_USER and WINIMG_CACHE_PASSWORD, or run `docker login HOST`: \
             HOME/.docker/config.json has no login for this registry",
            "cure: set WINIMG_CACHE_USER and WINIMG_CACHE_PASSWORD, or name a file with the login in REGISTRY_AUTH_FILE: \
             HOME/.docker/config.json names docker-credential-winimg-has-none, which is not installed",
            "cure: set WINIMG_CACHE_USER and WINIMG_CACHE_PASSWORD, or run `docker login HOST`: \
             HOME/.docker/config.json has no user and password under `HOST`",
            "cure: set WINIMG_CACHE_USER and WINIMG_CACHE_PASSWORD, or run `docker login HOST`: \
             HOME/.docker/config.json cannot be read: a file of registry credentials is not JSON",
            "cure: the login under `HOST` in HOME/.docker/config.json was used: check its permissions, \
             or set WINIMG_CACHE_USER and WINIMG_CACHE_PASSWORD",
        ]
    );
}
