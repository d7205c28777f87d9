//! csi-proxy as its pack's service.

use winimg_machine::guest::GuestExit;

use crate::wine::real::Place;

const LOG: &str = r"C:\var\log\csi-proxy\csi-proxy.log";
const LINES: [&str; 4] = [
    "Version: v1.3.0",
    r"Working directories: [C:\var\lib\kubelet]",
    "Require privacy: true",
    "Windows Service initialized through SCM",
];

#[test]
#[ignore = "needs Wine and the real programs: make real-programs"]
fn csi_proxy_runs_as_the_packs_service() {
    let proxy = crate::wine::real::built("csi-proxy");
    let vars = [
        ("csi_proxy_url", proxy.to_str().expect("UTF-8")),
        ("csi_proxy_sha256", &crate::wine::real::digest(&proxy)),
    ];
    let Some(mut place) = Place::with(&["csi-proxy"], &vars) else {
        return;
    };
    // It starts with Windows.
    place.run(r"C:\Windows\System32\sc.exe", &["query", "csiproxy"]);
    place.wait_for("its log", |place| place.read(LOG).contains(LINES[3]));
    let log = place.read(LOG);
    for line in LINES {
        assert!(log.contains(line), "no {line:?} in\n{log}");
    }
    let said = place.run(r"C:\Windows\System32\sc.exe", &["stop", "csiproxy"]);
    assert_eq!(said.exit, GuestExit::Code(0), "{}", said.text);
}
