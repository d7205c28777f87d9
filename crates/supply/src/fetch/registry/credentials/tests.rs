use super::*;

#[test]
#[cfg(unix)]
fn a_file_without_end_is_refused_by_name() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let huge = std::fs::File::create(at("huge")).unwrap();
    huge.set_len(3 << 30).unwrap();
    // Opened as a plain file, a pipe waits for a writer.
    let mut mkfifo = std::process::Command::new("mkfifo");
    assert!(mkfifo.arg(at("pipe")).status().unwrap().success());
    for (path, why) in [
        (at("huge"), "larger than the limit of 4 MiB"),
        (at("pipe"), "not a regular file (a named pipe)"),
        ("/dev/zero".into(), "not a regular file (a device)"),
    ] {
        for source in [LoginSource::File(path.clone()), LoginSource::Default(path)] {
            let refused = source.read().unwrap_err().to_string();
            assert!(refused.contains(why), "{refused}");
        }
    }
    assert_eq!(LoginSource::File(at("none")).read().unwrap(), None);
}

#[test]
fn the_host_of_tokens_is_a_name_alone() {
    for (text, host) in [
        ("GitLab.com", "gitlab.com"),
        ("10.0.0.7", "10.0.0.7"),
        ("[::1]", "[::1]"),
    ] {
        assert_eq!(parse_host(TOKEN_HOST, text).unwrap(), host);
    }
    for text in [
        "https://gitlab.com",
        "gitlab.com:443",
        "gitlab.com/jwt/auth",
        "ci:hunter2@gitlab.com",
        "gitlab.com registry.gitlab.com",
        " ",
    ] {
        assert_eq!(
            parse_host(TOKEN_HOST, text).unwrap_err().to_string(),
            "WINIMG_CACHE_TOKEN_HOST is not a host name\n  \
             expected: only a name, such as gitlab.com: no https://, port or path"
        );
    }
}

fn shown(set: &[(&str, &str)], configured: &RegistryConfig) -> Vec<String> {
    let set = |name: &str| {
        let found = set.iter().find(|(set, _)| *set == name);
        found.map(|(_, value)| (*value).to_owned())
    };
    list_sources(&set, configured)
        .iter()
        .map(LoginSource::describe)
        .collect()
}

#[test]
fn a_file_that_is_named_is_the_only_one() {
    let none = RegistryConfig::default();
    let configured = RegistryConfig {
        file: Some("/etc/winimg/registries.json".into()),
        token_host: None,
    };
    let home = ("HOME", "/home/ci");
    assert_eq!(
        shown(&[home, ("XDG_RUNTIME_DIR", "/run/user/7")], &none),
        [
            "/home/ci/.docker/config.json",
            "/run/user/7/containers/auth.json",
            "/home/ci/.config/containers/auth.json",
            "/home/ci/.dockercfg"
        ]
    );
    assert_eq!(shown(&[home], &configured), ["/etc/winimg/registries.json"]);
    assert_eq!(
        shown(
            &[home, ("DOCKER_CONFIG", "/ci"), ("DOCKER_AUTH_CONFIG", "{}")],
            &configured
        ),
        ["DOCKER_AUTH_CONFIG", "/ci/config.json"]
    );
    assert_eq!(
        shown(
            &[
                home,
                ("DOCKER_CONFIG", "/ci"),
                ("REGISTRY_AUTH_FILE", "/a.json")
            ],
            &none
        ),
        ["/a.json"]
    );
}

#[test]
fn no_cure_leads_back_to_the_same_store() {
    let wanted = LoginQuery {
        registry: "r.example.com",
        repository: "team/node",
        variables: &CACHE_VARIABLES,
    };
    let variables = "set WINIMG_CACHE_USER and WINIMG_CACHE_PASSWORD";
    assert_eq!(
        wanted.describe_cure(&[], false),
        format!("{variables}, or run `docker login r.example.com`")
    );
    let looked = ["c.json names docker-credential-desktop, which is not installed".to_owned()];
    assert_eq!(
        wanted.describe_cure(&looked, true),
        format!(
            "{variables}, or name a file with the login in REGISTRY_AUTH_FILE: \
             c.json names docker-credential-desktop, which is not installed"
        )
    );
}
