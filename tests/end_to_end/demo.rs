//! The demo: what it leaves, judged by other programs than winimg.

use std::path::Path;
use std::time::Duration;

use serde_json::Value;

use crate::end_to_end::program::{Build, output_of};
use support::tree::root;

const RECIPE: &str = "recipes/demo.toml";

const MINUTES: Duration = Duration::from_secs(60);

fn text(path: &Path) -> &str {
    path.to_str().expect("a UTF-8 path")
}

/// Builds into `output`; the build must end well.
fn built(recipe: &str, output: &Path, cache: &Path) -> Build {
    let mut build = Build::start(recipe, output, cache, &[]);
    let status = build.end(60 * MINUTES);
    assert_eq!(status.code(), Some(0), "{}", build.error());
    build
}

fn manifest(output: &Path) -> Value {
    let text = std::fs::read_to_string(output.join("manifest.json")).expect("a manifest");
    serde_json::from_str(&text).expect("JSON")
}

#[test]
#[ignore = "boots QEMU: make end-to-end"]
fn the_artifacts_hold_what_the_steps_installed() {
    let dir = tempfile::tempdir_in(root().join("target")).expect("a directory");
    let output = dir.path().join("out");
    built(RECIPE, &output, &dir.path().join("cache"));
    judge(&output, dir.path());
    std::thread::scope(|scope| {
        scope.spawn(|| crate::end_to_end::trial::comes_up(&output, "demo.raw", "openstack"));
        crate::end_to_end::verify::each_damage_is_named(&output, dir.path());
    });
}

/// Of a lock every component is proved, also what the demo does not install.
#[test]
#[ignore = "needs the stand-in's components: make end-to-end"]
fn a_lock_of_the_demo_proves_every_component() {
    let dir = tempfile::tempdir_in(root().join("target")).expect("a directory");
    let lock = dir.path().join("demo.lock");
    let cache = format!("WINIMG_CACHE_DIR={}", dir.path().display());
    let winimg = support::tree::winimg();
    let recipe = root().join("recipes/demo.toml");
    let arguments = [
        &cache,
        text(&winimg),
        "lock",
        text(&recipe),
        "--lock",
        text(&lock),
    ];
    output_of("env", &arguments);
    let locked = std::fs::read_to_string(lock).expect("a lock");
    assert!(locked.contains("openssh"), "{locked}");
}

/// The demo's artifacts, whatever hypervisor made them.
pub fn judge(output: &Path, dir: &Path) {
    let raw = output.join("demo.raw");
    let vhd = output.join("demo.vhd");
    output_of(
        "qemu-img",
        &["compare", "-f", "raw", "-F", "vpc", text(&raw), text(&vhd)],
    );
    let vhd_bytes = std::fs::metadata(&vhd).expect("the VHD").len();
    assert_eq!((vhd_bytes - 512) % (1 << 20), 0, "Azure takes whole MiB");

    let unpacked = dir.join("ova");
    std::fs::create_dir(&unpacked).expect("a directory");
    let members = output_of("tar", &["-tf", text(&output.join("demo.ova"))]);
    assert!(members.starts_with("demo.ovf\n"), "{members}");
    output_of(
        "tar",
        &["-xf", text(&output.join("demo.ova")), "-C", text(&unpacked)],
    );
    output_of("xmllint", &["--noout", text(&unpacked.join("demo.ovf"))]);
    let vmdk = members
        .lines()
        .find(|m| m.ends_with(".vmdk"))
        .expect("a VMDK");
    output_of(
        "qemu-img",
        &[
            "compare",
            "-f",
            "raw",
            "-F",
            "vmdk",
            text(&raw),
            text(&unpacked.join(vmdk)),
        ],
    );

    let import = std::fs::read_to_string(output.join("demo.ami/import-image.json"))
        .expect("the import request");
    let import: Value = serde_json::from_str(&import).expect("JSON");
    assert_eq!(import["Platform"], "Windows");
    assert_eq!(import["BootMode"], "uefi");

    files_are_in_the_disk(&raw, dir);
    manifest_says_what_went_in(output);
    no_password_is_left(output);
}

/// The NTFS volume, read by ntfs-3g's own tools.
fn files_are_in_the_disk(raw: &Path, dir: &Path) {
    let table = output_of("sgdisk", &["--print", text(raw)]);
    let windows = table.lines().last().expect("a partition");
    let first: u64 = windows
        .split_whitespace()
        .nth(1)
        .and_then(|s| s.parse().ok())
        .expect("its first sector");
    let volume = dir.join("c.ntfs");
    let bytes = first * 512;
    output_of(
        "dd",
        &[
            &format!("if={}", text(raw)),
            &format!("of={}", text(&volume)),
            &format!("skip={bytes}"),
            "iflag=skip_bytes",
            "bs=1M",
            "conv=sparse",
            "status=none",
        ],
    );
    let kubelet = components().join("kubernetes/kubelet.exe");
    let inside = dir.join("kubelet.exe");
    std::fs::write(&inside, ntfs_file(&volume, "/k/kubelet.exe")).expect("a copy");
    assert!(
        std::fs::read(&inside).expect("the copy") == std::fs::read(kubelet).expect("the component"),
        "C:\\k\\kubelet.exe is not the component, byte for byte"
    );
    // Authenticode outlives the way through store, disc and NTFS.
    let root_certificate = components().join("ca/root.pem");
    let authority = text(&root_certificate);
    let said = output_of(
        "osslsigncode",
        &["verify", "-CAfile", authority, "-in", text(&inside)],
    );
    assert!(said.contains("Signature verification: ok"), "{said}");
    for file in [
        "/Program Files/containerd/containerd.exe",
        "/Program Files/containerd/ctr.exe",
        "/Program Files/containerd/crictl.exe",
        "/Program Files/containerd/config.toml",
        "/Program Files/containerd/conf.d/site.toml",
        "/opt/cni/bin/win-bridge.exe",
        "/k/kubeadm.exe",
        "/k/kube-log-runner.exe",
        "/k/StartKubelet.cmd",
        "/k/LogKubelet.cmd",
        "/k/wins.exe",
        "/k/csi-proxy.exe",
        "/ProgramData/ssh/sshd_config",
        "/Program Files/Cloudbase Solutions/Cloudbase-Init/Python/Scripts/cloudbase-init.exe",
        "/Program Files/Cloudbase Solutions/Cloudbase-Init/conf/cloudbase-init-unattend.conf",
        "/Windows/Setup/Scripts/SetupComplete.cmd",
        "/Windows/System32/Tasks/Example/disk",
        "/Windows/System32/Sysprep/Sysprep_succeeded.tag",
    ] {
        ntfs_file(&volume, file);
    }
    let conf = "/Program Files/Cloudbase Solutions/Cloudbase-Init/conf/cloudbase-init.conf";
    let conf = String::from_utf8(ntfs_file(&volume, conf)).expect("text");
    assert!(conf.contains("username=capi"), "{conf}");
    let left = output_of("ntfsls", &["-f", "-p", "/", text(&volume)]);
    let data = output_of("ntfsls", &["-f", "-p", "/ProgramData", text(&volume)]);
    let tasks = output_of(
        "ntfsls",
        &["-f", "-p", "/Windows/System32/Tasks", text(&volume)],
    );
    for left in [left, data, tasks] {
        assert!(
            !left.contains("winimg"),
            "winimg's own files are left in the image:\n{left}"
        );
    }
    services_are_registered(&volume, dir);
    only_administrators_write(&volume);
}

fn components() -> std::path::PathBuf {
    root().join("target/standin/components")
}

fn ntfs_file(volume: &Path, file: &str) -> Vec<u8> {
    let found = std::process::Command::new("ntfscat")
        .args(["-f", text(volume), file])
        .output()
        .expect("ntfscat");
    assert!(found.status.success(), "{file} is not in the volume");
    found.stdout
}

/// The SYSTEM hive, read by libhivex's own tool.
fn services_are_registered(volume: &Path, dir: &Path) {
    let hive = dir.join("SYSTEM");
    std::fs::write(&hive, ntfs_file(volume, "/Windows/System32/config/SYSTEM")).expect("a copy");
    let value = |service: &str, name: &str| {
        let key = format!(r"\ControlSet001\Services\{service}");
        output_of("hivexget", &[text(&hive), &key, name])
    };
    let containerd = value("containerd", "ImagePath");
    assert_eq!(
        containerd.trim_end(),
        r#""C:\Program Files\containerd\containerd.exe" --run-service --log-file C:\var\log\containerd\containerd.log"#
    );
    // 2 is automatic, 3 waits: cloudbase-init is started by the clone.
    for (service, start) in [
        ("containerd", "dword:00000002"),
        ("kubelet", "dword:00000002"),
        ("rancher-wins", "dword:00000002"),
        ("csiproxy", "dword:00000002"),
        ("sshd", "dword:00000002"),
        ("cloudbase-init", "dword:00000003"),
    ] {
        let found = value(service, "Start");
        let number = |text: &str| {
            u32::from_str_radix(
                text.trim()
                    .trim_start_matches("dword:")
                    .trim_start_matches("0x"),
                16,
            )
            .ok()
        };
        assert_eq!(number(&found), number(start), "{service}: {found}");
    }
    let key = r"\ControlSet001\Services\SharedAccess\Parameters\FirewallPolicy\FirewallRules";
    let rules = output_of("hivexget", &[text(&hive), key]);
    for rule in [
        "LPort=10250|",
        "LPort=22|",
        "LPort2_10=30000-32767|RA4=10.0.0.0/255.0.0.0|",
    ] {
        assert!(rules.contains(rule), "{rule} is not among\n{rules}");
    }
}

/// The security descriptors in NTFS, read by ntfs-3g's own tool.
fn only_administrators_write(volume: &Path) {
    for (path, users) in [
        ("/k", false),
        ("/etc/kubernetes", false),
        ("/opt/cni/bin", true),
    ] {
        let said = output_of("ntfssecaudit", &["-vv", text(volume), path]);
        assert!(said.contains("S-1-5-32-544"), "{path}: {said}");
        assert_eq!(said.contains("S-1-5-32-545"), users, "{path}: {said}");
    }
}

fn manifest_says_what_went_in(output: &Path) {
    let manifest = manifest(output);
    let inputs: Vec<&str> = manifest["inputs"]
        .as_array()
        .expect("inputs")
        .iter()
        .filter_map(|input| input["name"].as_str())
        .collect();
    for component in [
        "kubelet",
        "kubeadm",
        "containerd",
        "crictl",
        "cni",
        "wins",
        "csi-proxy",
        "cloudbase-init",
    ] {
        assert!(
            inputs.contains(&component),
            "{component} is not among {inputs:?}"
        );
    }
    for artifact in manifest["artifacts"].as_array().expect("artifacts") {
        let file = output.join(artifact["file"].as_str().expect("a file"));
        let said = artifact["sha256"]
            .as_str()
            .expect("a digest")
            .trim_start_matches("sha256:");
        // Not sha256sum: Debian 12's takes minutes for the holes of a disk.
        let found = output_of("openssl", &["dgst", "-sha256", "-r", text(&file)]);
        assert!(
            found.starts_with(said),
            "{}: the manifest says {said}",
            file.display()
        );
    }
    let steps = manifest["steps"].as_array().expect("steps");
    let names: Vec<&str> = steps
        .iter()
        .filter_map(|step| step["name"].as_str())
        .collect();
    for name in [
        "container features",
        "kubelet service",
        "kubelet's version",
        "seal",
    ] {
        assert!(names.contains(&name), "{name} is not among {names:?}");
    }
    // After the restart that completes the features, the one that Windows then makes by itself.
    let events = std::fs::read_to_string(output.join("events.jsonl")).expect("the events");
    let again = "Windows is restarting on its own; waiting for it";
    assert_eq!(events.matches(again).count(), 1);
    let packer =
        std::fs::read_to_string(output.join("packer-manifest.json")).expect("Packer's manifest");
    let packer: Value = serde_json::from_str(&packer).expect("JSON");
    assert_eq!(packer["builds"][0]["name"], "demo");
}

/// The answer file's encoded password must be nowhere in what the build leaves.
fn no_password_is_left(output: &Path) {
    let suffix = "QQBkAG0AaQBuAGkAcwB0AHIAYQB0AG8AcgBQAGEAcwBzAHcAbwByAGQA";
    for name in ["manifest.json", "packer-manifest.json", "events.jsonl"] {
        let text =
            std::fs::read_to_string(output.join(name)).unwrap_or_else(|e| panic!("{name}: {e}"));
        assert!(!text.contains(suffix), "{name} holds an encoded password");
    }
}

#[test]
#[ignore = "boots QEMU: make end-to-end"]
fn two_builds_at_once_both_end_well() {
    let dir = tempfile::tempdir_in(root().join("target")).expect("a directory");
    let cache = dir.path().join("cache");
    let (one, two) = (dir.path().join("one"), dir.path().join("two"));
    std::thread::scope(|scope| {
        let first = scope.spawn(|| built(super::SMALL, &one, &cache));
        let second = scope.spawn(|| built(super::SMALL, &two, &cache));
        first.join().expect("the first build");
        second.join().expect("the second build");
    });
    assert_eq!(
        manifest(&one)["recipe"]["digest"],
        manifest(&two)["recipe"]["digest"]
    );
}
