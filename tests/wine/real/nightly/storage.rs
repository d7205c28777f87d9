//! csi-proxy as its pack's service.

use winimg_machine::guest::Exit;

use crate::wine::real::Place;

#[test]
#[ignore = "needs Wine and the real programs: make real-programs"]
fn csi_proxy_serves_its_pipes_as_the_packs_service() {
    let proxy = crate::wine::real::built("csi-proxy");
    let vars = [
        ("csi_proxy_url", proxy.to_str().expect("UTF-8")),
        ("csi_proxy_sha256", &crate::wine::real::digest(&proxy)),
    ];
    let Some(mut place) = Place::with(&["csi-proxy"], &vars) else {
        return;
    };
    // It starts with Windows.
    let pipes = "for %%g in (disk filesystem smb volume) do type \\\\.\\pipe\\csi-proxy-%%g-v1 >nul 2>&1 || exit /b 1\n";
    place.wait_for("its pipes", |place| {
        place.batch(pipes).exit == Exit::Code(0)
    });
    let log = place.read(r"C:\var\log\csi-proxy\csi-proxy.log");
    for line in [
        "Version: v1.3.0",
        r"Working directories: [C:\var\lib\kubelet]",
        "Require privacy: true",
        "Windows Service initialized through SCM",
    ] {
        assert!(log.contains(line), "no {line:?} in\n{log}");
    }
    let said = place.run(r"C:\Windows\System32\sc.exe", &["stop", "csiproxy"]);
    assert_eq!(said.exit, Exit::Code(0), "{}", said.text);
    place.wait_for("its end", |place| place.batch(pipes).exit == Exit::Code(1));
}
