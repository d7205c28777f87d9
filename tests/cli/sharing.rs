//! Builds on several machines that share one cache: what one made, the next does not make again.

use regex::Regex;

use crate::cli::resume::{STEPS, rendered};
use crate::cli::site::{SEAL, Site};
use support::docker_registry::Registry;

/// A build of the site's recipe on a machine that never built anything.
fn elsewhere(site: &Site, arguments: &[&str]) -> String {
    for folder in ["cache", "out"] {
        let _ = std::fs::remove_dir_all(site.path(folder));
    }
    let size = Regex::new(r"\(\d+ bytes\)").expect("a pattern");
    size.replace_all(&rendered(site, arguments), "([size])")
        .into_owned()
}

/// A site with keys for a shared cache, that cache, and its address.
fn shared() -> (Site, Registry, String) {
    let site = Site::new(&format!("{STEPS}\n{SEAL}"));
    let keys = minisign::KeyPair::generate_unencrypted_keypair().expect("keys");
    site.write("cache.pub", &keys.pk.to_box().expect("a box").to_string());
    let secret = keys.sk.to_box(None).expect("a box").to_string();
    site.write("cache.key", &secret);
    let registry = Registry::start(None);
    let address = format!("oci+http://127.0.0.1:{}/team/cache", registry.port);
    (site, registry, address)
}

/// Two jobs of a pipeline: one must leave the finished disk in the shared cache, and the other
/// makes its artifacts from that disk or fails.
#[test]
fn a_job_that_publishes_starts_no_machine() {
    let (site, registry, address) = shared();
    let both = ["--cache-remote", &address, "--cache-key", "cache.pub"];
    let push = ["--cache-push=required", "--cache-sign-key", "cache.key"];
    let builds = [&both[..], &push].concat();
    let publishes = [&builds[..], &["--from-cache"]].concat();
    let refused = |name: &str, arguments: &[&str]| {
        let _ = std::fs::remove_file(site.path("asked.txt"));
        let outcome = site.build(arguments);
        assert_eq!(outcome.status(), Some(2), "{}", outcome.whole());
        insta::assert_snapshot!(name, outcome.error());
        assert!(!site.path("asked.txt").exists(), "a machine was started");
    };

    refused("nothing_built", &publishes);
    elsewhere(&site, &builds);
    insta::assert_snapshot!("from_cache", elsewhere(&site, &publishes));
    let recipe = site.read("recipe.toml");
    site.write("recipe.toml", &recipe.replace("\"gold\"", "\"silver\""));
    refused("not_finished", &publishes);

    // The disk that this machine finished is not in the shared cache, and the job says so.
    drop(registry);
    let lost = site.build(&builds);
    assert_eq!(lost.status(), Some(4), "{}", lost.whole());
    let error = lost.error();
    assert!(
        error.contains(
            "the finished disk is required to be in the shared cache, but is not there: "
        ),
        "{error}"
    );
    assert!(!site.path("out/recipe/manifest.json").exists());
}

#[test]
fn a_machine_goes_on_from_the_layers_of_another() {
    let (site, registry, address) = shared();
    let takes = ["--cache-remote", &address, "--cache-key", "cache.pub"];
    let gives = [
        &takes[..],
        &["--cache-push", "--cache-sign-key", "cache.key"],
    ]
    .concat();
    insta::assert_snapshot!("gives", elsewhere(&site, &gives));
    insta::assert_snapshot!("takes_all", elsewhere(&site, &takes));
    insta::assert_snapshot!("believes_nobody", elsewhere(&site, &takes[..2]));

    let recipe = site.read("recipe.toml");
    site.write("recipe.toml", &recipe.replace("\"gold\"", "\"silver\""));
    insta::assert_snapshot!("takes_what_is_unchanged", elsewhere(&site, &takes));
    drop(registry);
    insta::assert_snapshot!("does_without", elsewhere(&site, &takes));
}
