//! CNI plugins with the configurations that packs lay down, as containerd calls them: configuration on standard input, the rest in
//! variables. They come as far as the call into Windows' container networks. flanneld with the flags of its DaemonSet and service.

use winimg_machine::guest::GuestExit;

use crate::wine::real::{Place, Said, built, digest};

/// Of a cluster that is not there.
pub const KUBECONFIG: &str = "apiVersion: v1
kind: Config
clusters:
  - { name: cluster, cluster: { server: \"https://127.0.0.1:1\" } }
users:
  - { name: node, user: { tokenFile: C:/k/token } }
contexts:
  - { name: node, context: { cluster: cluster, user: node } }
current-context: node
";

/// What flannel makes of `node-services`' configuration for the plugin that it delegates to: the delegate, with a name, a version and
/// this node's addresses (flannel-io/cni-plugin: flannel_windows.go).
fn delegate(packs_own: &str) -> String {
    let mut all: serde_json::Value = serde_json::from_str(packs_own).expect("JSON");
    let (name, version) = (all["name"].take(), all["cniVersion"].take());
    let mut delegate = all["delegate"].take();
    delegate["name"] = name;
    delegate["cniVersion"] = version;
    delegate["ipam"] = serde_json::json!({"type": "host-local", "subnet": "10.244.1.0/24"});
    delegate.to_string()
}

fn called(place: &mut Place, plugin: &str, command: &str, configuration: &str) -> Said {
    place.write(r"C:\network.json", configuration);
    place.batch(&format!(
        "set CNI_COMMAND={command}\n\
         set CNI_CONTAINERID=one\n\
         set CNI_NETNS=0b6cf0a6-5d5c-4c36-8b0c-3a1b1ad4b7a1\n\
         set CNI_IFNAME=eth0\n\
         set CNI_PATH=C:\\opt\\cni\\bin\n\
         C:\\opt\\cni\\bin\\{plugin}.exe <C:\\network.json\n"
    ))
}

/// The one of `packs/node-services.toml`, as it would be written.
fn of_node_services() -> String {
    let pack = include_str!("../../../../recipes/packs/node-services.toml");
    let from = pack.split(r"C:\etc\cni\net.d\10-flannel.conf").nth(1);
    let text = from
        .and_then(|rest| rest.split("'''").nth(1))
        .expect("a file");
    let values = [
        ("{{cluster_dns}}", "10.96.0.10"),
        ("{{service_subnet}}", "10.96.0.0/12"),
        ("{{pod_subnet}}", "10.244.0.0/16"),
    ];
    values.iter().fold(text.to_owned(), |text, (name, value)| {
        text.replace(name, value)
    })
}

#[test]
#[ignore = "needs Wine and the real programs: make real-programs"]
fn the_plugins_say_what_they_know() {
    let Some(mut place) = Place::with(&["cni"], &[]) else {
        return;
    };
    for plugin in ["win-bridge", "win-overlay", "host-local"] {
        let said = called(&mut place, plugin, "VERSION", "{\"cniVersion\": \"1.0.0\"}");
        assert_eq!(said.exit, GuestExit::Code(0), "{plugin}: {}", said.text);
        for version in ["\"0.2.0\"", "\"0.3.0\""] {
            assert!(said.text.contains(version), "{plugin}: {}", said.text);
        }
    }
}

#[test]
#[ignore = "needs Wine and the real programs: make real-programs"]
fn a_bridge_is_configured_up_to_the_call_into_windows() {
    let Some(mut place) = Place::with(&["cni"], &[]) else {
        return;
    };
    let good = delegate(&of_node_services());
    let said = called(&mut place, "win-bridge", "ADD", &good);
    assert_eq!(said.exit, GuestExit::Code(1), "{}", said.text);
    let wanted =
        "error while getting network cbr0: hcnEnumerateNetworks failed in Win32: Module not found.";
    assert!(said.text.contains(wanted), "{}", said.text);

    // What it would refuse before.
    let without = good.replace("\"name\":\"cbr0\"", "\"name\":\"\"");
    let said = called(&mut place, "win-bridge", "ADD", &without);
    assert!(!said.text.contains("hcnEnumerateNetworks"), "{}", said.text);
    let other = good.replace("[\"10.96.0.10\"]", "\"10.96.0.10\"");
    assert_ne!(other, good);
    let said = called(&mut place, "win-bridge", "ADD", &other);
    assert!(
        said.text.contains("failed to load netconf"),
        "{}",
        said.text
    );
}

#[test]
#[ignore = "needs Wine and the real programs: make real-programs"]
fn addresses_come_from_the_nodes_subnet() {
    let Some(mut place) = Place::with(&["cni"], &[]) else {
        return;
    };
    let said = called(
        &mut place,
        "host-local",
        "ADD",
        &delegate(&of_node_services()),
    );
    assert_eq!(said.exit, GuestExit::Code(0), "{}", said.text);
    assert!(said.text.contains("10.244.1.2/24"), "{}", said.text);
}

#[test]
#[ignore = "needs Wine and the real programs: make real-programs"]
fn flanneld_takes_the_flags_of_its_daemon_set_and_of_its_service() {
    let flanneld = built("flanneld");
    let Some(mut place) = Place::with(&["flannel"], &[("flannel_sha256", &digest(&flanneld))])
    else {
        return;
    };
    let manifest = include_str!("../../../../recipes/kubeadm-wins/flannel.yaml");
    let of_daemon_set = manifest.split("$arguments = '").nth(1);
    let of_daemon_set = of_daemon_set.and_then(|rest| rest.split("' + $env:HOST_IP").next());
    let of_daemon_set = format!("{}10.0.0.1", of_daemon_set.expect("its flags"));
    let pack = include_str!("../../../../recipes/packs/node-services.toml");
    let of_service = pack.split("name = \"AppParameters\"").nth(1);
    let of_service = of_service
        .and_then(|rest| rest.split('\'').nth(1))
        .expect("its flags");
    for (flags, kubeconfig, taken) in [
        (
            of_daemon_set.as_str(),
            r"C:\k\flannel\kubeconfig.yaml",
            "kubeSubnetMgr:true kubeApiUrl: kubeAnnotationPrefix:flannel.alpha.coreos.com \
             kubeConfigFile:C:/k/flannel/kubeconfig.yaml iface:[10.0.0.1] ",
        ),
        (
            of_service,
            r"C:\k\config",
            "kubeSubnetMgr:true kubeApiUrl: kubeAnnotationPrefix:flannel.alpha.coreos.com \
             kubeConfigFile:C:/k/config iface:[] ifaceRegex:[] ipMasq:true ",
        ),
    ] {
        place.write(kubeconfig, KUBECONFIG);
        let said = place.batch(&format!(
            "set NODE_NAME=node-7\nC:\\k\\flanneld.exe {flags}\n"
        ));
        assert!(said.text.contains(taken), "{}", said.text);
        // No pod has given it a token.
        let end =
            "Failed to create SubnetManager: fail to create kubernetes config: open C:/k/token";
        assert!(said.text.contains(end), "{}", said.text);
    }
    let said = place.run(r"C:\k\flanneld.exe", &["--kube-subnet-manager"]);
    assert!(
        said.text.contains("flag provided but not defined"),
        "{}",
        said.text
    );
}
