//! Vagrant boxes and KubeVirt's containerDisk, taken by the programs that they are for.

use std::fs;
use std::path::Path;
use std::process::Command;

use winimg::export::export;
use winimg_base::event::Cancel;
use winimg_recipe::{BoxOptions, DiskBus, Firmware, OutputFormat, OutputOptions, Outputs};

use crate::export::fixture::{Heard, disk, files, guest, job, kinds, openssl, path, run, sh};
use crate::export::formats::same_content;
use support::difference::lines_that_differ;
use support::docker_registry::Registry;

fn boxes() -> Outputs {
    let mut outputs = Outputs::from([OutputFormat::BoxHyperv, OutputFormat::BoxVirtualbox]);
    let options = BoxOptions {
        communicator: "winrm".into(),
    };
    outputs.insert(OutputFormat::BoxLibvirt, OutputOptions::Box(options));
    outputs
}

fn container_disk() -> Outputs {
    Outputs::from([OutputFormat::ContainerDisk])
}

/// Vagrant with a home of its own, below `folder`.
fn vagrant(folder: &Path, arguments: &[&str]) -> String {
    let made = Command::new("vagrant")
        .args(arguments)
        .current_dir(folder)
        .env("VAGRANT_HOME", folder.join("home"))
        .env("VAGRANT_CHECKPOINT_DISABLE", "1")
        .env("VAGRANT_NO_COLOR", "1")
        .output()
        .expect("Debian's package vagrant: tests/install-packages.sh");
    let said = String::from_utf8_lossy(&made.stdout).into_owned();
    let complained = String::from_utf8_lossy(&made.stderr);
    assert!(made.status.success(), "{said}{complained}");
    said
}

#[test]
fn vagrant_takes_each_box_and_finds_the_disk_in_it() {
    let dir = tempfile::tempdir().unwrap();
    let source = disk(dir.path(), 67);
    let out = tempfile::tempdir().unwrap();
    let artifacts = run(&source, out.path(), &boxes());
    // The disks that the boxes hold lie beside them.
    assert_eq!(
        kinds(&artifacts),
        [
            "vhdx",
            "vmdk",
            "qcow2",
            "box_hyperv",
            "box_libvirt",
            "box_virtualbox"
        ]
    );
    for (provider, inner, beside, form) in [
        (
            "hyperv",
            "Virtual Hard Disks/demo.vhdx",
            "demo.vhdx",
            "vhdx",
        ),
        ("libvirt", "box.img", "demo.qcow2", "qcow2"),
        ("virtualbox", "box-disk001.vmdk", "demo.vmdk", "vmdk"),
    ] {
        let file = out.path().join(format!("demo-{provider}.box"));
        let artifact = artifacts
            .iter()
            .find(|a| a.file == format!("demo-{provider}.box"));
        let artifact = artifact.expect(provider);
        assert_eq!(artifact.sha256.hex(), openssl(&file));
        assert_eq!(artifact.disk.as_deref(), Some(beside));
        let name = format!("demo-{provider}");
        vagrant(
            dir.path(),
            &[
                "box",
                "add",
                "--name",
                &name,
                "--provider",
                provider,
                path(&file),
            ],
        );
        let taken = dir.path().join(format!("home/boxes/{name}/0/{provider}"));
        assert_eq!(
            fs::read(taken.join(inner)).unwrap(),
            fs::read(out.path().join(beside)).unwrap()
        );
        same_content(&source, &taken.join(inner), form);
    }
    let listed = vagrant(dir.path(), &["box", "list"]);
    insta::assert_snapshot!(listed);
}

/// Ruby reads what the boxes' Vagrantfiles say; the other documents are whole texts.
#[test]
fn what_a_box_says_of_its_machine() {
    let [uefi, bios] = [
        (Firmware::Uefi, DiskBus::Ahci, true),
        (Firmware::Bios, DiskBus::Virtio, false),
    ]
    .map(|(firmware, bus, secure)| {
        let mut said = String::new();
        let dir = tempfile::tempdir().unwrap();
        // More than one GiB and no whole number of them.
        let source = disk(dir.path(), 1100);
        let out = tempfile::tempdir().unwrap();
        let (guest, outputs) = (guest(), boxes());
        let mut job = job(&source, out.path(), &outputs, &guest);
        job.firmware = firmware;
        job.disk_bus = bus;
        job.secure_boot = secure;
        let heard = Heard::default();
        export(&job, &heard, &Cancel::default()).unwrap();
        for warning in heard.warnings() {
            said += &format!("warning: {warning}\n");
        }
        for provider in ["hyperv", "libvirt", "virtualbox"] {
            let file = out.path().join(format!("demo-{provider}.box"));
            let unpacked = dir.path().join(provider);
            fs::create_dir(&unpacked).unwrap();
            sh("tar", &["-xf", path(&file), "-C", path(&unpacked)]);
            sh("ruby", &["-wc", path(&unpacked.join("Vagrantfile"))]);
            for name in files(&unpacked) {
                let bytes = fs::read(unpacked.join(&name)).unwrap();
                match String::from_utf8(bytes) {
                    // VMware's form, with the sizes of the disk, which the tests of the OVA show.
                    Ok(_) if name.ends_with(".ovf") => {
                        said += &format!("---- {provider}: {name}\n")
                    }
                    Ok(text) => said += &format!("---- {provider}: {name}\n{text}"),
                    Err(_) => said += &format!("---- {provider}: {name}\n"),
                }
            }
        }
        said
    });
    let differs = lines_that_differ(&uefi, &bios);
    insta::assert_snapshot!(format!("==== UEFI\n{uefi}==== BIOS differs\n{differs}"));
}

/// What Vagrant's PowerShell asks of a Hyper-V box' XML (hashicorp/vagrant: VagrantVM.psm1, New-VagrantVMXML). An element has a
/// `#text` there only if it has an attribute or a child.
#[test]
fn the_machine_of_hyper_v_answers_what_vagrant_asks() {
    let dir = tempfile::tempdir().unwrap();
    let source = disk(dir.path(), 40);
    run(&source, dir.path(), &boxes());
    let file = dir.path().join("demo-hyperv.box");
    sh("tar", &["-xf", path(&file), "-C", path(dir.path())]);
    let text = fs::read_to_string(dir.path().join("Virtual Machines/demo.xml")).unwrap();
    let xml = roxmltree::Document::parse(&text).unwrap();
    let under = |node: roxmltree::Node<'_, '_>, names: &[&str]| -> String {
        let mut node = node;
        for name in names {
            let child = node.children().find(|n| n.has_tag_name(*name));
            node = child.unwrap_or_else(|| panic!("{names:?}"));
        }
        assert!(node.attributes().count() > 0, "{names:?}");
        node.text().unwrap_or_default().to_owned()
    };
    let any = |name: &str| {
        let found = xml.descendants().find(|n| n.has_tag_name(name));
        found.unwrap_or_else(|| panic!("{name}"))
    };
    let root = xml.root_element();
    assert_eq!(under(root, &["properties", "subtype"]), "1");
    assert_eq!(under(root, &["properties", "name"]), "demo");
    assert_eq!(under(any("boot"), &["device0"]), "HardDrive");
    assert_eq!(any("secure_boot_enabled").text(), Some("False"));
    assert_eq!(under(root, &["settings", "processors", "count"]), "2");
    for size in ["size", "limit", "reservation"] {
        assert_eq!(under(any("memory"), &["bank", size]), "4096");
    }
    assert_eq!(
        under(any("memory"), &["bank", "dynamic_memory_enabled"]),
        "False"
    );
    let is_controller = |n: &roxmltree::Node<'_, '_>| n.tag_name().name().starts_with("controller");
    let controllers: Vec<_> = xml.descendants().filter(is_controller).collect();
    let [controller] = controllers[..] else {
        panic!("{}", controllers.len())
    };
    // Of generation 2, whose disks are on a SCSI controller.
    let beside = controller.parent().unwrap();
    assert_ne!(under(beside, &["ChannelInstanceGuid"]), "");
    let drive = controller.first_element_child().unwrap();
    assert_eq!(under(drive, &["type"]), "VHD");
    assert_eq!(under(drive, &["pathname"]), "demo.vhdx");
}

#[test]
fn a_registry_takes_the_container_disk_and_gives_the_disk_back() {
    let dir = tempfile::tempdir().unwrap();
    let source = disk(dir.path(), 67);
    let out = tempfile::tempdir().unwrap();
    let artifacts = run(&source, out.path(), &container_disk());
    assert_eq!(kinds(&artifacts), ["qcow2", "container_disk"]);
    let file = out.path().join("demo.oci.tar");
    assert_eq!(artifacts[1].sha256.hex(), openssl(&file));

    let registry = Registry::start(None);
    let from = format!("oci-archive:{}", path(&file));
    let place = format!("docker://127.0.0.1:{}/windows/demo:1", registry.port);
    let policy = ["--insecure-policy", "copy"];
    let push = [&policy[..], &["--dest-tls-verify=false", &from, &place]].concat();
    sh("skopeo", &push);
    let inspect = ["inspect", "--tls-verify=false", "--raw", &place];
    let manifest: serde_json::Value = serde_json::from_str(&sh("skopeo", &inspect)).unwrap();
    assert_eq!(manifest["layers"].as_array().unwrap().len(), 1);
    let config = ["inspect", "--tls-verify=false", "--config", &place];
    let config: serde_json::Value = serde_json::from_str(&sh("skopeo", &config)).unwrap();
    assert_eq!(
        (&config["os"], &config["architecture"]),
        (&"linux".into(), &"amd64".into())
    );

    let back = format!("dir:{}", path(&dir.path().join("back")));
    let pull = [&policy[..], &["--src-tls-verify=false", &place, &back]].concat();
    sh("skopeo", &pull);
    let digest = manifest["layers"][0]["digest"].as_str().unwrap();
    let layer = dir
        .path()
        .join("back")
        .join(digest.trim_start_matches("sha256:"));
    let listed = sh("tar", &["--numeric-owner", "-tvf", path(&layer)]);
    let words: Vec<&str> = listed.split_whitespace().collect();
    // QEMU's user reads it.
    assert_eq!((words[0], words[1]), ("-r--r-----", "107/107"));
    assert_eq!(words.last(), Some(&"disk/demo.qcow2"));
    sh("tar", &["-xf", path(&layer), "-C", path(dir.path())]);
    same_content(&source, &dir.path().join("disk/demo.qcow2"), "qcow2");
}
