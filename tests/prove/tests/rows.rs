//! What a run builds. Each recipe is one that winimg plans.

use std::fs;
use std::path::Path;
use std::process::Command;

use prove::rows::{SEAL, Wanted, What, all, chosen, recipe, release};
use serde_json::Value;
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

/// Of a shipped recipe, as it stands: its targets, whether it is sealed, and whether cloudbase-init is in the image.
fn shipped(name: &str) -> (Vec<String>, bool, bool) {
    let text = fs::read_to_string(root().join(format!("recipes/{name}.toml"))).expect("a recipe");
    let recipe: toml::Table = text.parse().expect("TOML");
    let targets = recipe["target"].as_array().expect("targets");
    let targets = targets.iter().filter_map(|target| target.as_str());
    let has = |pack: &str| text.contains(&format!("\"packs/{pack}.toml\""));
    (
        targets.map(str::to_owned).collect(),
        text.contains("\ngeneralize"),
        // packs/capi.toml includes it.
        has("cloudbase-init") || has("capi"),
    )
}

/// docs/try.md: an image that is not sealed gives two clones that are one machine, and one without cloudbase-init fails as a target whose
/// agent that is.
#[test]
fn clones_are_started_as_every_target_as_which_they_can_come_up() {
    for row in all("qemu", "20348") {
        let What::Shipped { recipe, .. } = row.what else {
            continue;
        };
        let (targets, is_sealed, has_agent) = shipped(recipe);
        let comes_up = |target: &&String| {
            let file = root().join(format!("recipes/targets/{target}.toml"));
            let target: toml::Table = fs::read_to_string(file)
                .expect("a target")
                .parse()
                .expect("TOML");
            let wants_agent = target["metadata"]["agent"].as_str() == Some("cloudbase-init");
            is_sealed && (has_agent || !wants_agent)
        };
        let expected: Vec<&String> = targets.iter().filter(comes_up).collect();
        assert_eq!(row.tries(), expected, "{recipe}");
        if expected.len() < targets.len() {
            let page = fs::read_to_string(root().join("docs/try.md")).expect("the page");
            assert!(page.contains(&format!("`{recipe}`")), "{recipe}: try.md");
        }
    }
    assert!(
        all("hyperv", "20348")
            .iter()
            .all(|row| row.tries().is_empty())
    );
}

fn said(arguments: &[&str], file: &Path) -> Result<String, String> {
    let zeros = format!("iso_checksum={}", "00".repeat(32));
    let mut command = Command::new(support::tree::winimg());
    command.args(arguments);
    command.args(["--var", "iso_url=x.iso", "--var", &zeros]);
    let done = command.arg(file).output().expect("winimg");
    if done.status.success() {
        Ok(String::from_utf8_lossy(&done.stdout).into_owned())
    } else {
        Err(String::from_utf8_lossy(&done.stderr).into_owned())
    }
}

/// What is wrong with a row, by the plan of its recipe. Proofs may be open, which `pin` closes; a value that only a person has may not.
fn wrong(row: &Wanted, plan: &str) -> Vec<String> {
    let plan: Value = serde_json::from_str(plan).expect("a plan");
    let list = |name: &str| plan[name].as_array().expect("a list").iter();
    let open = list("undecided").filter(|open| open["kind"] != "proof");
    let mut found: Vec<String> = open.map(|open| format!("undecided: {open}")).collect();
    let value = |path: &str| {
        let mut values = list("values");
        let found = values.find(|value| value["path"] == path);
        found.map_or(Value::Null, |found| found["value"].clone())
    };
    let machine = &row.machine;
    for (path, own) in [
        ("machine.firmware", Value::from(&*machine.firmware)),
        ("machine.disk_bus", Value::from(&*machine.disk_bus)),
        ("machine.secure_boot", Value::from(machine.trusted)),
        ("machine.tpm", Value::from(machine.trusted)),
    ] {
        if value(path) != own {
            found.push(format!("{path} is {}, not {own}", value(path)));
        }
    }
    let seals = list("steps").filter(|step| step["verb"] == "generalize");
    let others = seals.filter(|step| step["name"] != SEAL);
    found.extend(others.map(|step| format!("the seal is called {}", step["name"])));
    found
}

#[test]
fn winimg_takes_every_recipe() {
    let folder = tempfile::tempdir_in(root().join("target")).expect("a folder");
    let mut all_wrong = Vec::new();
    for (hypervisor, build) in BUILDS
        .into_iter()
        .flat_map(|b| [("qemu", b), ("hyperv", b)])
    {
        for row in all(hypervisor, build) {
            let text = recipe(&row, build, root(), None).expect("a recipe");
            let file = folder.path().join(format!("{build}-{}.toml", row.name));
            fs::write(&file, text).expect("a file");
            // A plan for Hyper-V is made on Windows alone.
            let found = match hypervisor {
                "qemu" => said(&["plan", "--json", "--hypervisor", "qemu"], &file)
                    .map(|plan| wrong(&row, &plan)),
                _ => said(&["validate"], &file).map(|_| Vec::new()),
            };
            let found = found.unwrap_or_else(|said| vec![said]);
            all_wrong.extend(
                found
                    .iter()
                    .map(|what| format!("{build} {}: {what}", row.name)),
            );
        }
    }
    assert!(all_wrong.is_empty(), "{}", all_wrong.join("\n"));
}
