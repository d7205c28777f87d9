//! The Kubernetes pipeline of six variants, pod by pod, on two hosts that share a registry. One of them is lost in the middle.

use std::thread;
use std::time::{Duration, Instant};

use crate::cli::matrix::NODES;
use crate::pipelines::hosts::{Cluster, LONGEST};

/// Beside the six variants.
const PIPELINE: &str = r#"
[pipeline]
image = "registry.example.com/winimg:1"
arguments = ["--hypervisor", "fake:machine.toml", "--no-verify"]
secrets = ["WINIMG_CACHE_SIGN_KEY"]

[pipeline.cache]
remote = "oci+http://REGISTRY/team/cache"
keys = ["cache.pub"]

[pipeline.publish]
to = "oci+http://REGISTRY/team/nodes:{{variant}}"

[pipeline.kubernetes]
workdir = "/srv/recipes"
"#;

/// An installation that takes as long as one that is worth sharing does, compared with the rest.
const INSTALLS: &str = "[install]\nrestarts = 2\ndelay_ms = 4000\n";

/// A step at which the first variants of both installations stand until their machine is lost.
const HANGS: &str = "[[run]]\ncommand = '* gold *'\noutcome = \"hangs\"\n";

const STAGES: [&str; 2] = ["nodes-1-installations.yaml", "nodes-2-variants.yaml"];

#[test]
#[ignore = "network namespaces need root; half a minute of waiting: make pipelines"]
fn two_hosts_build_six_variants_over_two_installations() {
    let matrix = format!("{NODES}{PIPELINE}");
    let two = Cluster::start(2, 1, &matrix, INSTALLS);
    let dying = &two.hosts[1];
    let healthy = two.site.read("machine.toml");
    two.site.machine(INSTALLS, HANGS);
    std::fs::copy(
        two.site.path("machine.toml"),
        dying.checkout.join("machine.toml"),
    )
    .expect("a copy");
    let asked = || std::fs::read_to_string(dying.checkout.join("asked.txt")).unwrap_or_default();
    let start = Instant::now();
    let first = thread::scope(|scope| {
        let lost = scope.spawn(|| {
            while !asked().contains(" gold ") {
                assert!(
                    start.elapsed() < LONGEST,
                    "it does not stand where it should"
                );
                thread::sleep(Duration::from_millis(20));
            }
            // Another machine in its place, with nothing on it.
            std::fs::write(dying.checkout.join("machine.toml"), &healthy).expect("a file");
            two.lose(1);
        });
        let first = two.stage(STAGES[0]);
        lost.join().expect("it was lost");
        first
    });
    assert_eq!(first.len(), 2);
    let resumed = first
        .iter()
        .filter(|(_, said)| said.contains("resuming from the layer after step `restart`"));
    assert_eq!(resumed.count(), 1, "{first:#?}");
    assert_eq!(two.pods.lock().expect("no panic").len(), 3, "one was lost");
    let others = two.stage(STAGES[1]);
    let of_two = start.elapsed();
    assert_eq!(others.len(), 4);
    for (name, said) in &others {
        assert!(
            said.contains("came from the shared cache"),
            "{name}:\n{said}"
        );
    }
    assert_eq!(two.installations(), 2);

    // What was approved is what was built.
    let published = two.stage("nodes-3-publish.yaml");
    assert_eq!(published.len(), 6);
    for (name, said) in &published {
        let whole = "resuming from the layer after step `seal`: 5 of 5 parts are done";
        assert!(said.contains(whole), "{name}:\n{said}");
        assert!(said.contains("published to oci+http://"), "{name}:\n{said}");
    }
    assert_eq!(two.installations(), 2);
    let tags = two
        .registry
        .folder
        .path()
        .join("data/docker/registry/v2/repositories/team/nodes/_manifests/tags");
    let tags = std::fs::read_dir(tags).expect("tags").flatten();
    let tags = tags.filter(|tag| tag.file_name().to_string_lossy().starts_with("recipe-"));
    assert_eq!(tags.count(), 6);

    // The next run of the same pipeline: it makes nothing anew, and puts its records in the place of those that are there.
    for stage in STAGES.iter().chain(&["nodes-3-publish.yaml"]) {
        two.stage(stage);
    }
    assert_eq!(two.installations(), 2);
    drop(two);

    let one = Cluster::start(1, 2, &matrix, INSTALLS);
    let start = Instant::now();
    let built: usize = STAGES.iter().map(|stage| one.stage(stage).len()).sum();
    let of_one = start.elapsed();
    assert_eq!((built, one.installations()), (6, 2));
    println!(
        "six variants over two installations: {:.1} s on two hosts of which one was lost, {:.1} s on one",
        of_two.as_secs_f64(),
        of_one.as_secs_f64()
    );
}
