//! kubeadm, kubelet, kube-log-runner and kube-proxy, as the packs' files start them.

use winimg_machine::guest::GuestExit;

use crate::wine::real::Place;
use crate::wine::real::nightly::networks::KUBECONFIG;

const KUBEADM: &str = r"C:\k\kubeadm.exe";
const LOG: &str = r"C:\var\log\kubelet\kubelet.log";
const FLAGS: &str = r"C:\var\lib\kubelet\kubeadm-flags.env";

/// Token and certificate authority of the cluster that kubeadm makes up in a dry run (kubernetes: cmd/kubeadm/app/util/apiclient/dryrun.go).
const TOKEN: &str = "abcdef.abcdef0123456789";
const AUTHORITY: &str = "sha256:3b793efefe27a19f93b0fbe6e637e9c41d0dde8a377d6ab1c0f656bf1136dd8a";

/// The file that `Join-Node.ps1` writes.
fn join_configuration() -> String {
    let script = include_str!("../../../../recipes/packs/kubeadm-wins/Join-Node.ps1");
    let from = script
        .split("@\"\n")
        .nth(1)
        .and_then(|text| text.split("\"@").next());
    let values = [
        ("$ControlPlane", "192.168.0.101:6443"),
        ("$Token", TOKEN),
        ("$CaCertHash", AUTHORITY),
        ("$($env:COMPUTERNAME.ToLowerInvariant())", "node-7"),
    ];
    let text = from.expect("a document").to_owned();
    values.iter().fold(text, |text, (name, value)| {
        assert!(text.contains(name), "{name}");
        text.replace(name, value)
    })
}

/// kubeadm's own files for a Windows node, where kubelet looks for them. A dry run writes them into one folder.
fn join(place: &mut Place, configuration: &str) {
    place.write(r"C:\join.yaml", configuration);
    let said = place.batch(&format!(
        "set KUBEADM_JOIN_DRYRUN_DIR=C:\\dry\nmkdir C:\\dry\n{KUBEADM} join --dry-run --config C:\\join.yaml --ignore-preflight-errors=all\n"
    ));
    assert_eq!(said.exit, GuestExit::Code(0), "{}", said.text);
    for (from, to) in [
        ("kubeadm-flags.env", FLAGS),
        ("config.yaml", r"C:\var\lib\kubelet\config.yaml"),
        (
            "bootstrap-kubelet.conf",
            r"C:\etc\kubernetes\bootstrap-kubelet.conf",
        ),
        ("ca.crt", r"C:\etc\kubernetes\pki\ca.crt"),
    ] {
        place.write(to, &place.read(&format!(r"C:\dry\{from}")));
    }
}

#[test]
#[ignore = "needs Wine and the real programs: make real-programs"]
fn kubeadm_takes_the_joins_configuration() {
    let Some(mut place) = Place::with(&["kubernetes"], &[]) else {
        return;
    };
    let said = place.run(KUBEADM, &["version", "-o", "short"]);
    assert_eq!(
        (said.exit, said.text.as_str()),
        (GuestExit::Code(0), "v1.36.4\n")
    );
    place.write(r"C:\join.yaml", &join_configuration());
    let validate = ["config", "validate", "--config", r"C:\join.yaml"];
    let said = place.run(KUBEADM, &validate);
    assert_eq!(
        (said.exit, said.text.as_str()),
        (GuestExit::Code(0), "ok\n")
    );
    place.write(
        r"C:\join.yaml",
        &join_configuration().replace("criSocket", "criSockets"),
    );
    let said = place.run(KUBEADM, &validate);
    assert!(
        said.text
            .contains("unknown field \"nodeRegistration.criSockets\""),
        "{}",
        said.text
    );
}

/// Flags that a value can make hard: a comparison, a percent sign, a backslash at the end. kubeadm writes them as a Go string
/// (kubernetes: cmd/kubeadm/app/phases/kubelet/flags.go, WriteKubeletArgsToFile).
const HARD: &str = "KUBELET_KUBEADM_ARGS=\"--eviction-hard=memory.available<5% --hostname-override=node-7 \
    --node-labels=a=b,c=d --root-dir=C:\\\\var\\\\lib\\\\kubelet\\\\\"\n";

const CONFIGURATION: &str = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\nrotateCertificates: true\n";

/// cmd.exe, the script and kube-log-runner between the service manager and kubelet.
#[test]
#[ignore = "needs Wine and the real programs: make real-programs"]
fn kubelet_runs_as_the_packs_service_with_kubeadms_flags() {
    let extra = [("kubelet_extra_args", "--v=1")];
    let Some(mut place) = Place::with(&["containerd", "kubernetes"], &extra) else {
        return;
    };
    place.write(FLAGS, HARD);
    place.write(r"C:\var\lib\kubelet\config.yaml", CONFIGURATION);
    place.write(r"C:\etc\kubernetes\bootstrap-kubelet.conf", KUBECONFIG);
    let log = started(&mut place);
    for flag in [
        r#"--bootstrap-kubeconfig="C:/etc/kubernetes/bootstrap-kubelet.conf""#,
        r#"--cert-dir="C:/var/lib/kubelet/pki""#,
        r#"--cgroups-per-qos="false""#,
        r#"--config="C:/var/lib/kubelet/config.yaml""#,
        r#"--container-runtime-endpoint="npipe:////./pipe/containerd-containerd""#,
        r#"--enforce-node-allocatable="[]""#,
        r#"--eviction-hard="memory.available<5%""#,
        r#"--hostname-override="node-7""#,
        r#"--kubeconfig="C:/etc/kubernetes/kubelet.conf""#,
        r#"--node-labels="a=b,c=d""#,
        r#"--resolv-conf="""#,
        r#"--root-dir="C:\\var\\lib\\kubelet\\""#,
        r#"--windows-service="true""#,
    ] {
        assert!(log.contains(&format!("FLAG: {flag}\n")), "{flag}\n{log}");
    }
    // All that it would rather read in its configuration; of these the last is kubeadm's.
    let passing: Vec<&str> = log
        .lines()
        .filter_map(|line| {
            line.strip_prefix("Flag --")?
                .split_once(" has been deprecated")
        })
        .map(|(flag, _)| flag)
        .collect();
    assert_eq!(
        passing,
        [
            "enable-debugging-handlers",
            "cgroups-per-qos",
            "enforce-node-allocatable",
            "container-runtime-endpoint",
            "resolv-conf",
            "eviction-hard"
        ]
    );
    assert!(
        log.contains("Running kubelet as a Windows service!"),
        "{log}"
    );
    // There is no cluster to join.
    assert!(
        log.contains("unable to load bootstrap kubeconfig: open C:/k/token"),
        "{log}"
    );
}

#[test]
#[ignore = "needs Wine and the real programs: make real-programs"]
fn kubelet_starts_with_all_that_kubeadm_wrote() {
    let Some(mut place) = Place::with(&["kubernetes"], &[]) else {
        return;
    };
    join(&mut place, &join_configuration());
    // This node's name is another one than its host's.
    let flags = "KUBELET_KUBEADM_ARGS=\"--hostname-override=node-7\"\n";
    assert_eq!(place.read(FLAGS), flags);
    let log = started(&mut place);
    assert!(
        log.contains("Running kubelet as a Windows service!"),
        "{log}"
    );
    // It looks for its runtime, which is not there.
    let end =
        r#"validate CRI v1 runtime API for endpoint \"npipe:////./pipe/containerd-containerd\""#;
    assert!(log.contains(end), "{log}");
}

/// Nothing is left to say as a flag where the node has its own name and no taints.
#[test]
#[ignore = "needs Wine and the real programs: make real-programs"]
fn kubelet_starts_without_flags_of_kubeadms() {
    let Some(mut place) = Place::with(&["containerd", "kubernetes"], &[]) else {
        return;
    };
    place.write(FLAGS, "KUBELET_KUBEADM_ARGS=\"\"\n");
    place.write(r"C:\var\lib\kubelet\config.yaml", CONFIGURATION);
    place.write(r"C:\etc\kubernetes\bootstrap-kubelet.conf", KUBECONFIG);
    let log = started(&mut place);
    assert!(
        log.contains("unable to load bootstrap kubeconfig: open C:/k/token"),
        "{log}"
    );
}

/// The service's log up to kubelet's end. It starts with Windows; a start before the join is forgotten.
fn started(place: &mut Place) -> String {
    place.node.prefix.stop();
    let _ = std::fs::remove_file(place.node.prefix.host(LOG));
    place.wait_for("kubelet's end", |place| {
        place.batch(&format!("if not exist {LOG} sc.exe start kubelet >nul\n"));
        place.read(LOG).contains("command failed")
    });
    place.read(LOG)
}

/// Wine, like Windows, keeps a file's name while a program without FILE_SHARE_DELETE has it open.
#[test]
#[ignore = "needs Wine and the real programs: make real-programs"]
fn the_log_is_turned_over_by_the_packs_flags() {
    let vars = [("kubelet_log_size", "1Ki")];
    let Some(mut place) = Place::with(&["kubernetes"], &vars) else {
        return;
    };
    // kubelet itself starts with Windows and logs there, in more than one file by now.
    place.run(r"C:\Windows\System32\sc.exe", &["delete", "kubelet"]);
    place.node.prefix.stop();
    let folder = place.node.prefix.host(r"C:\var\log\kubelet");
    std::fs::remove_dir_all(&folder).expect("removed");
    std::fs::create_dir(&folder).expect("a folder");
    place.write(
        r"C:\many.cmd",
        "@for /l %%i in (1,1,40) do @echo line %%i of a long text that fills the log\r\n",
    );
    let said = place.batch(
        "call C:\\k\\LogKubelet.cmd\nC:\\k\\kube-log-runner.exe %LOG% C:\\windows\\system32\\cmd.exe /d /c C:\\many.cmd\n",
    );
    assert_eq!(said.exit, GuestExit::Code(0), "{}", said.text);
    let logs = std::fs::read_dir(folder).expect("a folder");
    let mut logs: Vec<(String, String)> = logs
        .map(|file| file.expect("a file").path())
        .map(|path| {
            let text = std::fs::read_to_string(&path).expect("a log");
            let name = path
                .file_name()
                .expect("a name")
                .to_string_lossy()
                .into_owned();
            (name, text)
        })
        .collect();
    logs.sort();
    // One turn: the name has the second, so that a second one within it would take the first one's place.
    assert_eq!(logs.len(), 2, "{logs:?}");
    // The one in use is the last by name.
    assert_eq!(logs.last().expect("a log").0, "kubelet.log");
    let whole: String = logs
        .iter()
        .map(|(_, text)| text.replace('\r', ""))
        .collect();
    let lines: Vec<String> = (1..=40)
        .map(|n| format!("line {n} of a long text that fills the log"))
        .collect();
    assert_eq!(whole.lines().collect::<Vec<_>>(), lines);
}

#[test]
#[ignore = "needs Wine and the real programs: make real-programs"]
fn kube_proxy_takes_the_flags_of_its_daemon_set() {
    let vars = [("kubernetes_kube_proxy", "true")];
    let Some(mut place) = Place::with(&["kubernetes"], &vars) else {
        return;
    };
    let manifest = include_str!("../../../../recipes/kubeadm-wins/kube-proxy.yaml");
    let flags = manifest.split("$arguments = \"").nth(1);
    let flags = flags
        .and_then(|rest| rest.split('"').next())
        .expect("its flags");
    let flags = flags
        .replace("$env:NODE_NAME", "node-7")
        .replace("$network", "flannel.4096")
        .replace("$source", "10.244.1.0");
    place.write(r"C:\k\kube-proxy\kubeconfig.yaml", KUBECONFIG);
    place.write(r"C:\k\token", "a token");
    let flags: Vec<&str> = flags.split(' ').collect();
    let log = place.start(r"C:\k\kube-proxy.exe", &flags);
    let log = || std::fs::read_to_string(&log).unwrap_or_default();
    // There is no cluster; it would go on for ever.
    place.wait_for("kube-proxy", |_| {
        log().contains("connectex: Connection refused")
    });
    for flag in [
        r#"--hostname-override="node-7""#,
        r#"--kubeconfig="C:/k/kube-proxy/kubeconfig.yaml""#,
        r#"--network-name="flannel.4096""#,
        r#"--proxy-mode="kernelspace""#,
        r#"--source-vip="10.244.1.0""#,
    ] {
        assert!(
            log().contains(&format!("FLAG: {flag}\n")),
            "{flag}\n{}",
            log()
        );
    }
    assert!(!log().contains("has been deprecated"), "{}", log());
}
