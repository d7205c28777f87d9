//! A node with the packs' real programs, built from their publishers' modules: from recipe to clones on the stand-in, which knows these
//! files by their digests and what they said on Wine (`make real-node`). winimg knows nothing of that.

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use support::skip;
use support::tree::{self, root};
use winimg_formats::hive::{Hive, HiveValueData};

use super::program::Build;
use super::publishers::Log;
use super::sabotage_tools::Sabotage;
use super::{stand_ins, trial};

const RECIPE: &str = "tests/end_to_end/real_node.toml";
const LIMIT: Duration = Duration::from_secs(60 * 60);

/// Where a node has each program.
const FILES: [(&str, &str); 13] = [
    ("containerd", "/Program Files/containerd/containerd.exe"),
    ("ctr", "/Program Files/containerd/ctr.exe"),
    (
        "containerd-stress",
        "/Program Files/containerd/containerd-stress.exe",
    ),
    ("crictl", "/Program Files/containerd/crictl.exe"),
    ("kubelet", "/k/kubelet.exe"),
    ("kubeadm", "/k/kubeadm.exe"),
    ("kubectl", "/k/kubectl.exe"),
    ("kube-proxy", "/k/kube-proxy.exe"),
    ("kube-log-runner", "/k/kube-log-runner.exe"),
    ("csi-proxy", "/k/csi-proxy.exe"),
    ("win-bridge", "/opt/cni/bin/win-bridge.exe"),
    ("win-overlay", "/opt/cni/bin/win-overlay.exe"),
    ("host-local", "/opt/cni/bin/host-local.exe"),
];

const SERVICES: [(&str, &str); 3] = [
    (
        "containerd",
        r#""C:\Program Files\containerd\containerd.exe" --run-service"#,
    ),
    (
        "kubelet",
        r"C:\Windows\System32\cmd.exe /d /c C:\k\StartKubelet.cmd",
    ),
    (
        "csiproxy",
        r"C:\k\csi-proxy.exe -windows-service -log_file=C:\var\log\csi-proxy\csi-proxy.log -logtostderr=false -kubelet-path=C:\var\lib\kubelet -require-privacy=true",
    ),
];

/// The bytes of a program as `make real-programs` built it.
fn built(program: &str) -> Vec<u8> {
    let file = root().join(format!("target/real-programs/{program}.exe"));
    std::fs::read(&file).unwrap_or_else(|e| panic!("{}: {e}", file.display()))
}

fn good_by_verify(output: &Path, image: &str) {
    let done = Command::new(tree::winimg())
        .arg("verify")
        .arg(output.join(image))
        .arg("--manifest")
        .arg(output.join("manifest.json"))
        .output()
        .expect("winimg starts");
    let said = String::from_utf8_lossy(&done.stderr);
    assert_eq!(done.status.code(), Some(0), "{image}: {said}");
}

/// Read by ntfs-3g's own tool.
fn programs_are_in_the_disk(disk: &Sabotage) {
    for (program, path) in FILES {
        let (inside, built) = (disk.read(path), built(program));
        let sizes = (inside.len(), built.len());
        assert!(inside == built, "{path} is another file: {sizes:?} bytes");
    }
}

fn services_run_them(disk: &Sabotage) {
    let hive = disk.read("/Windows/System32/config/SYSTEM");
    let hive = Hive::parse(hive).expect("a hive");
    for (name, line) in SERVICES {
        let key = hive.find_key(&format!(r"ControlSet001\Services\{name}"));
        let key = key.expect("a sound hive").expect(name);
        let found = key.find_value("ImagePath").expect("a sound value");
        assert_eq!(found, Some(HiveValueData::ExpandSz(line.into())), "{name}");
    }
}

mod nightly {
    use super::*;

    #[test]
    #[ignore = "boots QEMU, and needs the real programs: make real-node"]
    fn a_node_of_real_programs_is_built_verified_and_tried() {
        let programs = root().join("target/real-programs");
        if !programs.join("medium/standin.iso").exists() {
            skip::skipped(
                "no medium that knows the real programs, which `make real-node` makes where Go is installed",
            );
            return;
        }
        let dir = tempfile::tempdir_in(root().join("target")).expect("a directory");
        let log = Log::start();
        let recipe =
            stand_ins::recipe_with(&root().join(RECIPE), dir.path(), &log, Some(&programs));
        let output = dir.path().join("out");
        let recipe = recipe.to_str().expect("UTF-8");
        let began = Instant::now();
        let timed = |what: &str| println!("{:5} s  {what}", began.elapsed().as_secs());
        let mut build = Build::start(recipe, &output, &dir.path().join("cache"), &[]);
        assert_eq!(build.end(LIMIT).code(), Some(0), "{}", build.error());
        timed("built");
        good_by_verify(&output, "real-node.raw");
        timed("verified");
        let disk = Sabotage::of(&output.join("real-node.raw"), dir.path());
        programs_are_in_the_disk(&disk);
        services_run_them(&disk);
        timed("compared");
        trial::comes_up(&output, "real-node.qcow2", "openstack");
        timed("tried");
    }
}
