//! containerd and crictl: the configuration as containerd understands it, the service as it would register itself, the endpoint.

use winimg_machine::guest::GuestExit;

use crate::wine::real::Place;
use crate::wine::registry::Registry;

const CONTAINERD: &str = r"C:\Program Files\containerd\containerd.exe";
const CONFIG: &str = r"C:\Program Files\containerd\config.toml";
const SERVICES: &str = r"HKLM\SYSTEM\CurrentControlSet\Services";

/// What it makes of the file: all settings, and what it has to say of it.
fn dumped(place: &mut Place) -> (toml::Table, String) {
    let said = place.batch(&format!(
        "\"{CONTAINERD}\" --config \"{CONFIG}\" config dump >C:\\dump.toml 2>C:\\said.txt\n"
    ));
    assert_eq!(
        said.exit,
        GuestExit::Code(0),
        "{}",
        place.read(r"C:\said.txt")
    );
    let text = place.read(r"C:\dump.toml");
    (text.parse().expect("TOML"), place.read(r"C:\said.txt"))
}

#[test]
#[ignore = "needs Wine and the real programs: make real-programs"]
fn containerd_takes_the_packs_configuration_key_by_key() {
    let Some(mut place) = Place::with(&["containerd"], &[]) else {
        return;
    };
    let (all, said) = dumped(&mut place);
    // An unknown key or one that will go would be said. From 2.3 on its own version is 4, and it reads 3.
    assert_eq!(said.lines().count(), 1, "{said}");
    assert!(
        said.contains("Configuration migrated from version 3"),
        "{said}"
    );
    assert_eq!(
        all["root"].as_str(),
        Some(r"C:\ProgramData\containerd\root")
    );
    assert_eq!(
        all["state"].as_str(),
        Some(r"C:\ProgramData\containerd\state")
    );
    let plugins = &all["plugins"];
    let address = &plugins["io.containerd.server.v1.grpc"]["address"];
    assert_eq!(address.as_str(), Some(r"\\.\pipe\containerd-containerd"));
    let images = &plugins["io.containerd.cri.v1.images"];
    let pause = &images["pinned_images"]["sandbox"];
    assert_eq!(pause.as_str(), Some("registry.k8s.io/pause:3.10.2"));
    assert_eq!(images["image_pull_progress_timeout"].as_str(), Some("5m"));
    let cni = &plugins["io.containerd.cri.v1.runtime"]["cni"];
    assert_eq!(cni["bin_dirs"].to_string(), r#"["C:/opt/cni/bin"]"#);
    assert_eq!(cni["conf_dir"].as_str(), Some("C:/etc/cni/net.d"));

    // A file of conf.d is read too, and its wrong key is said.
    place.write(
        r"C:\Program Files\containerd\conf.d\own.toml",
        "version = 3\n[plugins.'io.containerd.cri.v1.images']\nmax_concurrent_downloads = 7\nmax_concurrent = 7\n",
    );
    let (all, said) = dumped(&mut place);
    let images = &all["plugins"]["io.containerd.cri.v1.images"];
    assert_eq!(images["max_concurrent_downloads"].as_integer(), Some(7));
    assert!(said.contains("Ignoring unknown key in TOML"), "{said}");
}

/// The pack's is gone, and what it had started.
fn without_service(place: &mut Place) {
    let said = place.run(r"C:\Windows\System32\sc.exe", &["delete", "containerd"]);
    assert_eq!(said.exit, GuestExit::Code(0), "{}", said.text);
    place.node.prefix.stop();
}

/// The values of one service.
fn service(registry: &Registry, name: &str) -> Vec<(String, Option<String>)> {
    let key = format!(r"{SERVICES}\{name}");
    let values = [
        "ImagePath",
        "DisplayName",
        "Description",
        "Start",
        "Type",
        "ErrorControl",
        "ObjectName",
        "DependOnService",
    ];
    let value = |of: &str| registry.value(&key, of).map(str::to_owned);
    let both = values.iter().map(|of| ((*of).to_owned(), value(of)));
    both.collect()
}

#[test]
#[ignore = "needs Wine and the real programs: make real-programs"]
fn containerd_would_register_the_service_that_the_pack_makes() {
    let Some(mut place) = Place::with(&["containerd"], &[]) else {
        return;
    };
    let ours = service(&place.look().registry, "containerd");
    assert!(ours[0].1.is_some(), "{ours:?}");
    without_service(&mut place);
    let said = place.run(CONTAINERD, &["--register-service"]);
    assert_eq!(said.exit, GuestExit::Code(0), "{}", said.text);
    let own = service(&place.look().registry, "containerd");
    assert_eq!(ours, own);
}

#[test]
#[ignore = "needs Wine and the real programs: make real-programs"]
fn crictl_asks_at_the_packs_endpoint() {
    let Some(mut place) = Place::with(&["crictl"], &[]) else {
        return;
    };
    let crictl = r"C:\Program Files\containerd\crictl.exe";
    for (command, api) in [("info", "runtime"), ("images", "image")] {
        let said = place.run(crictl, &[command]);
        assert_eq!(said.exit, GuestExit::Code(1), "{}", said.text);
        let wanted = format!(
            "validate CRI v1 {api} API for endpoint \\\"npipe:////./pipe/containerd-containerd\\\""
        );
        assert!(said.text.contains(&wanted), "{}", said.text);
    }
}
