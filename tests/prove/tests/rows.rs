//! What a run builds. Each recipe is one that winimg plans.

use std::fs;
use std::process::Command;

use prove::rows::{all, chosen, recipe, release};
use support::tree::root;

const BUILDS: [&str; 3] = ["17763", "20348", "26100"];

#[test]
fn rows_cover_each_firmware_bus_and_recipe() {
    let names = |hypervisor, build| -> String {
        let rows = all(hypervisor, build).into_iter();
        rows.map(|row| row.name).collect::<Vec<_>>().join(" ")
    };
    insta::assert_snapshot!(names("qemu", "26100"), @"uefi-virtio uefi-nvme uefi-ahci bios-virtio bios-nvme bios-ahci uefi-virtio-trusted");
    insta::assert_snapshot!(names("hyperv", "20348"), @"hyperv-uefi hyperv-bios hyperv-uefi-trusted");
    // Every recipe that winimg ships for the release, but the demo and the one to start from.
    let shipped = names("qemu", "20348");
    for entry in fs::read_dir(root().join("recipes")).expect("the recipes") {
        let path = entry.expect("an entry").path();
        let name = path
            .file_stem()
            .expect("a name")
            .to_string_lossy()
            .into_owned();
        let is_recipe = path.extension().is_some_and(|ending| ending == "toml");
        if is_recipe && !["demo", "starter"].contains(&name.as_str()) {
            assert!(shipped.split(' ').any(|row| row == name), "no row {name}");
        }
    }
}

/// What makes a node of a clone: kubeadm and kubelet, and an agent that runs user data.
#[test]
fn rows_of_nodes_are_those_of_cluster_apis_recipes() {
    for row in all("qemu", "20348") {
        let file = root().join(format!("recipes/{}.toml", row.name));
        let text = fs::read_to_string(file).unwrap_or_default();
        let is_node = text.contains("\"packs/capi.toml\"");
        assert_eq!(row.is_node(), is_node, "{}", row.name);
    }
}

#[test]
fn words_choose_rows() {
    let names = |words: &[&str]| -> Vec<String> {
        let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
        let rows = chosen(all("qemu", "26100"), &words);
        rows.into_iter().map(|row| row.name).collect()
    };
    assert_eq!(
        names(&["bios-a", "trusted"]),
        ["bios-ahci", "uefi-virtio-trusted"]
    );
    assert_eq!(names(&["uefi-virtio"]), ["uefi-virtio"]);
    assert_eq!(names(&["uefi-v"]), ["uefi-virtio", "uefi-virtio-trusted"]);
    assert_eq!(names(&[]).len(), 7);
    assert!(names(&["none"]).is_empty());
}

#[test]
fn a_release_without_a_pack_is_refused() {
    assert_eq!(release("14393"), None);
    let row = &all("qemu", "14393")[0];
    let said = recipe(row, "14393", root(), None).expect_err("no pack");
    assert_eq!(said, "no pack of winimg is for Windows 14393");
}

#[test]
fn winimg_takes_every_recipe() {
    let folder = tempfile::tempdir_in(root().join("target")).expect("a folder");
    let mut wrong = Vec::new();
    for (hypervisor, build) in BUILDS
        .into_iter()
        .flat_map(|b| [("qemu", b), ("hyperv", b)])
    {
        for row in all(hypervisor, build) {
            let text = recipe(&row, build, root(), None).expect("a recipe");
            let file = folder.path().join(format!("{build}-{}.toml", row.name));
            fs::write(&file, text).expect("a file");
            let zeros = "00".repeat(32);
            let mut command = Command::new(support::tree::winimg());
            command.args(["validate", "--var", "iso_url=x.iso", "--var"]);
            command.arg(format!("iso_checksum={zeros}")).arg(&file);
            let done = command.output().expect("winimg");
            let said = String::from_utf8_lossy(&done.stderr).into_owned();
            // What only a person or `pin` decides is missing in shipped ones.
            if !done.status.success() && row_is_own(&row.name) {
                wrong.push(format!("{build} {}: {said}", row.name));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

fn row_is_own(name: &str) -> bool {
    ["uefi-", "bios-", "hyperv-uefi", "hyperv-bios"]
        .iter()
        .any(|start| name.starts_with(start))
}
