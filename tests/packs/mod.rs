//! Reads each of winimg's packs and recipes without a complaint, and compares each recipe's plan
//! with a snapshot, complete or as its difference from another plan, so that a review shows every
//! command that it would run.

mod accounts;
mod baseline;
mod cluster;
mod golden;
mod proofs;
mod registries;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use support::tree;

use serde_json::Value;
use winimg_recipe::plan;
use winimg_recipe::{ReadOptions, Recipe, read};

/// What a user has to give. The environment is the one place whose other names are passed over.
const SAID: [(&str, &str); 20] = [
    ("acr_provider_sha256", DIGEST),
    ("csi_proxy_sha256", DIGEST),
    ("csi_proxy_url", "https://example.com/csi-proxy.exe"),
    ("ec2_ena_sha256", DIGEST),
    ("ec2_nvme_sha256", DIGEST),
    ("ec2launch_sha256", DIGEST),
    ("ecr_provider_sha256", DIGEST),
    (
        "ecr_provider_url",
        "https://example.com/ecr-credential-provider.exe",
    ),
    ("ecr_provider_version", "1.36.0"),
    ("flannel_sha256", DIGEST),
    ("gmsa_keyvault_sha256", DIGEST),
    ("iso_url", "https://example.com/windows.iso"),
    ("ovs_sha256", DIGEST),
    ("ovs_url", "https://example.com/openvswitch.msi"),
    ("sdn_sha256", DIGEST),
    ("sig_windows_tools_sha256", DIGEST),
    (
        "ssh_administrators_keys",
        "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIExample operator",
    ),
    ("vmware_drivers_sha256", DIGEST),
    (
        "vmware_drivers_url",
        "https://example.com/vmware-drivers.zip",
    ),
    ("windows_update_sha256", DIGEST),
];
const DIGEST: &str = "5aa03f96c77536579166fba147929626cc3a97960e994057a9d80271a736d10f";

/// Packs that name variables of another, and say so in their first lines.
const AFTER: [(&str, &[&str]); 8] = [
    ("ecr.toml", &["kubernetes.toml"]),
    ("kb5012637.toml", &["windows-server-2022.toml"]),
    ("kubernetes-signed.toml", &["kubernetes.toml"]),
    ("node-services.toml", &["kubernetes.toml"]),
    ("nssm.toml", &["kubernetes.toml"]),
    ("release-file.toml", &["kubernetes.toml"]),
    ("capi-checks.toml", &["containerd.toml", "kubernetes.toml"]),
    ("wmco.toml", &["windows-server-2022.toml"]),
];

fn options() -> ReadOptions {
    options_for("wmco")
}

/// Only OpenShift's operator needs a key in the image, and not where its user data brings the key.
pub fn options_for(recipe: &str) -> ReadOptions {
    let has_key = recipe.starts_with("wmco") && !recipe.starts_with("wmco-gcp");
    let env = SAID
        .iter()
        .filter(|(name, _)| *name != "ssh_administrators_keys" || has_key)
        .map(|(name, value)| (format!("WINIMG_VAR_{name}"), value.to_string()));
    ReadOptions {
        env: env.collect(),
        // Where targets are found from a folder of one's own.
        search: vec![tree::root().join("recipes")],
        ..ReadOptions::default()
    }
}

fn toml_files(folder: &str) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).expect("the folder is there");
    let mut files: Vec<PathBuf> = entries
        .map(|e| e.expect("an entry").path())
        .filter(|p| p.extension().is_some_and(|e| e == "toml"))
        .collect();
    files.sort();
    files
}

pub fn name(path: &Path) -> String {
    let name = path.file_name().expect("a name");
    name.to_string_lossy().into_owned()
}

/// The recipe, if it was read without a word.
pub fn silent(path: &Path, options: &ReadOptions) -> Recipe {
    let (recipe, said) = read(path, options);
    assert_eq!(said.render(false), "", "{}", path.display());
    recipe.expect("a recipe")
}

/// The plan, with what it warns about at its end.
fn plan_of(recipe: &Recipe) -> String {
    match plan::make(recipe) {
        Ok(plan) => format!(
            "{}\nwarnings\n{}",
            plan::render_text(recipe, &plan),
            plan.warnings.render(false)
        ),
        Err(complaints) => panic!("no plan:\n{}", complaints.render(false)),
    }
}

/// winimg's recipes, without the demo (its files are made by `make standin`) and the text of `winimg init`.
pub fn recipes() -> Vec<PathBuf> {
    let own = ["demo.toml", "starter.toml"];
    let mut found = toml_files("recipes");
    found.retain(|path| !own.contains(&name(path).as_str()));
    found
}

#[test]
fn every_pack_can_be_included_alone() {
    let folder = tempfile::tempdir().expect("a folder");
    let here = std::env::current_dir().expect("a working directory");
    for pack in toml_files("recipes/packs") {
        let file = name(&pack);
        let mut include: Vec<String> = Vec::new();
        let others = AFTER.iter().find(|(pack, _)| *pack == file);
        for one in others.map_or(&[][..], |(_, others)| others) {
            include.push(here.join("recipes/packs").join(one).display().to_string());
        }
        include.push(here.join(&pack).display().to_string());
        let media = if file.starts_with("windows-server-") {
            ""
        } else {
            "[media]\nimage = \"standard-core\"\n[media.iso]\nurl = \"https://example.com/x.iso\"\nunverified = \"test\"\n"
        };
        let text = format!(
            "schema = 1\nname = \"one\"\ninclude = {include:?}\n{media}[outputs]\nraw = {{}}\n"
        );
        let path = folder.path().join(&file);
        fs::write(&path, text).expect("a recipe");
        let recipe = silent(&path, &options());
        if let Err(complaints) = plan::make(&recipe) {
            panic!("{file}:\n{}", complaints.render(false));
        }
    }
}

#[test]
fn nothing_in_a_pack_is_unproved() {
    for pack in toml_files("recipes/packs") {
        let text = fs::read_to_string(&pack).expect("a pack");
        let unproved = text.lines().find(|line| {
            let line = line.trim_start();
            line.starts_with("unverified")
                || (line.contains("unverified =") && !line.starts_with('#'))
        });
        assert_eq!(unproved, None, "{}", pack.display());
    }
}

/// Returns the recipe with the most similar plan; `None` for the recipe whose plan is complete.
fn nearest(recipe: &str) -> Option<&'static str> {
    match recipe {
        "capi-openstack" => None,
        "hyperv-vagrant" => Some("kubeadm-wins"),
        "wmco-byoh" => Some("capi-openstack"),
        other if other.starts_with("wmco") => Some("wmco-byoh"),
        _ => Some("capi-openstack"),
    }
}

#[test]
fn the_plan_of_every_recipe() {
    let mut plans = BTreeMap::new();
    for path in recipes() {
        let recipe = silent(&path, &options_for(&name(&path)));
        let shut_out = plan::shut_out(&recipe).render(false);
        assert_eq!(
            shut_out,
            "",
            "{} cannot be built on Hyper-V",
            path.display()
        );
        plans.insert(name(&path).replace(".toml", ""), plan_of(&recipe));
    }
    for (name, plan) in &plans {
        let shown = match nearest(name) {
            Some(base) => format!(
                "Differs from {base}\n\n{}",
                golden::difference(&plans[base], plan)
            ),
            None => plan.clone(),
        };
        insta::assert_snapshot!(name.as_str(), shown);
    }
}

/// With the media's paths alone every recipe is planned; what a person must decide before a build is listed.
#[test]
fn every_recipe_plans_with_nothing_but_its_media() {
    let folder = tempfile::tempdir().expect("a folder");
    for medium in ["windows.iso", "virtio-win.iso"] {
        fs::write(folder.path().join(medium), "").expect("a medium");
    }
    let here = std::env::current_dir().expect("a working directory");
    let mut found = String::new();
    for path in recipes() {
        let plan = Command::new(tree::winimg())
            .arg("plan")
            .arg(here.join(&path))
            .args(["--json", "--hypervisor", "qemu"])
            .args(["--var", "iso_url=windows.iso"])
            .args(["--var", "virtio_url=virtio-win.iso"])
            .current_dir(folder.path())
            .env("WINIMG_CACHE_DIR", folder.path().join("cache"))
            .output()
            .expect("winimg runs");
        let said = String::from_utf8_lossy(&plan.stderr);
        assert!(plan.status.success(), "{}: {said}", path.display());
        let plan: Value = serde_json::from_slice(&plan.stdout).expect("JSON");
        found.push_str(&format!("{}\n", name(&path)));
        for open in plan["undecided"].as_array().expect("a list") {
            let needs = match open["kind"].as_str() {
                Some("proof") => open["input"].to_string(),
                _ => open["steps"].to_string(),
            };
            found.push_str(&format!("  {}  {needs}\n", open["variable"]));
        }
    }
    insta::assert_snapshot!("undecided", &found);
}

/// The lines of the plan of an OVA that other values change, in each direction.
#[test]
fn what_variables_change() {
    let plain = plan_of(&silent(
        Path::new("recipes/capi-ova.toml"),
        &options_for("capi-ova"),
    ));
    let mut found = String::new();
    for (what, set) in [
        ("containerd 1.7", vec![("containerd_version", "1.7.33")]),
        (
            "containerd with a log",
            vec![(
                "containerd_log_file",
                r"C:\var\log\containerd\containerd.log",
            )],
        ),
        ("no hypervisor", vec![("disable_hypervisor", "true")]),
        ("kube-proxy", vec![("kubernetes_kube_proxy", "true")]),
        ("Kubernetes 1.33", vec![("kubernetes_semver", "v1.33.8")]),
        ("OpenSSH from Windows", vec![("openssh_source", "windows")]),
        (
            "OpenSSH from cabinets",
            vec![
                ("openssh_source", "cabinets"),
                ("openssh_cabs", "tests/packs/cabs"),
            ],
        ),
        (
            "administrators' keys",
            vec![
                ("ssh_administrators_keys_in", "machine"),
                ("ssh_administrators_keys", "ssh-ed25519 AAAA one"),
            ],
        ),
        ("volume media", vec![("product_key", "kms")]),
        (
            "updates",
            vec![
                ("updates_folder", "tests/packs/updates"),
                ("updates_date", "2024-01-09"),
                ("windows_at_least", "20348.2227"),
            ],
        ),
    ] {
        let mut options = options_for("capi-ova");
        let set = set.into_iter().map(|(n, v)| (n.to_string(), v.to_string()));
        options.vars = set.collect();
        let other = plan_of(&silent(Path::new("recipes/capi-ova.toml"), &options));
        found.push_str(&format!("== {what}\n"));
        let (a, b) = (lines(&plain), lines(&other));
        for (sign, one, two) in [('-', &a, &b), ('+', &b, &a)] {
            let seen: BTreeSet<&String> = two.iter().collect();
            for line in one.iter().filter(|line| !seen.contains(line)) {
                found.push_str(&format!("{sign}{line}\n"));
            }
        }
    }
    insta::assert_snapshot!("variants", &found);
}

/// Returns the plan's lines without the numbers of payload entries, which shift, the recipe's
/// digest, and the values of components, which the list of components also has.
fn lines(plan: &str) -> Vec<String> {
    let entry = regex::Regex::new(r"\bp\\\d{4}\\").expect("a pattern");
    let values =
        regex::Regex::new(r"  components\.[^\n]*\n( +recipes/[^\n]*\)\n)?").expect("a pattern");
    values
        .replace_all(plan, "")
        .lines()
        .filter(|line| !line.contains("digest"))
        .map(|line| entry.replace_all(line, r"p\N\").into_owned())
        .collect()
}

/// image-builder's variables for a Windows OVA, by their names there (kubernetes-sigs/image-builder:
/// images/capi/packer/config/windows, images/capi/packer/ova/packer-windows.json).
#[test]
fn image_builders_variables() {
    let mut options = options_for("capi-ova");
    options.env.retain(|(name, _)| name != "WINIMG_VAR_iso_url");
    options.image_builder_vars = vec!["tests/packs/image-builder.json".into()];
    let (recipe, said) = read(Path::new("recipes/capi-ova.toml"), &options);
    let recipe = recipe.expect("a recipe");
    let mut found = String::from("taken\n");
    for var in &recipe.vars {
        if var.origin.contains("image-builder.json") {
            found.push_str(&format!("{} = {}\n", var.name, var.value));
        }
    }
    insta::assert_snapshot!(
        "image-builder",
        &format!("{found}\nsaid\n{}", said.render(false)),
    );
}

/// A team's own recipe on top of one of winimg's: its steps come before the seal, its own seal in the other's stead.
#[test]
fn a_recipe_of_ones_own() {
    let folder = tempfile::tempdir().expect("a folder");
    let base = std::env::current_dir()
        .expect("a working directory")
        .join("recipes/capi-ova.toml");
    let step = "[[steps]]\nname = \"site\"\nreboot = {}\n";
    let seal = "[[steps]]\nname = \"my seal\"\ngeneralize = {}\n";
    let mut last = Vec::new();
    for more in [step.to_string(), format!("{step}{seal}")] {
        let path = folder.path().join("mine.toml");
        let head = format!(
            "schema = 1\nname = \"mine\"\ninclude = [{:?}]\n",
            base.display().to_string()
        );
        fs::write(&path, head + &more).expect("a recipe");
        let recipe = silent(&path, &options());
        let names: Vec<String> = recipe.steps.iter().map(|s| s.name.clone()).collect();
        last.push(names[names.len() - 5..].join(", "));
    }
    let last_of_packs = "Windows at rest, kubelet starts with Windows, no SSH host keys";
    let wanted = [
        format!("site, {last_of_packs}, seal"),
        format!("site, {last_of_packs}, my seal"),
    ];
    assert_eq!(last, wanted);
}

/// Nobody sets a variable that nothing reads: no recipe (the demo and the starter too), and no pack.
#[test]
fn every_variable_that_is_set_is_read() {
    for path in toml_files("recipes") {
        let (_, said) = read(&path, &options_for(&name(&path)));
        let unread = said.0.iter().map(|d| d.problem.fact.as_str());
        let unread: Vec<&str> = unread.filter(|m| m.ends_with("is not used")).collect();
        assert_eq!(unread, Vec::<&str>::new(), "{}", path.display());
    }
    let mut packs = toml_files("recipes/packs");
    packs.extend(toml_files("recipes/packs/openssh"));
    let texts: Vec<String> = packs
        .iter()
        .map(|pack| fs::read_to_string(pack).expect("a pack"))
        .collect();
    let mut declared = BTreeSet::new();
    for text in &texts {
        let table: toml::Table = text.parse().expect("TOML");
        let vars = table.get("vars").and_then(|v| v.as_table());
        declared.extend(vars.into_iter().flat_map(|t| t.keys().cloned()));
    }
    assert!(declared.len() > 90, "{}", declared.len());
    declared.retain(|var| !texts.iter().any(|t| t.contains(&format!("{{{{{var}}}}}"))));
    assert_eq!(declared, BTreeSet::new());
}

/// docs/packs.md names every pack and every variable.
#[test]
fn the_documentation_has_every_variable() {
    let docs = fs::read_to_string("docs/packs.md").expect("docs/packs.md");
    let mut files = toml_files("recipes/packs");
    files.extend(toml_files("recipes/packs/openssh"));
    let mut missing = Vec::new();
    for pack in files {
        let text = fs::read_to_string(&pack).expect("a pack");
        let table: toml::Table = text.parse().expect("TOML");
        let file = name(&pack);
        let at_top = pack.parent().is_some_and(|p| p.ends_with("packs"));
        if at_top && !docs.contains(&format!("`{file}`")) {
            missing.push(file);
        }
        let vars = table.get("vars").and_then(|v| v.as_table());
        for var in vars.into_iter().flat_map(|t| t.keys()) {
            if !docs.contains(&format!("`{var}`")) {
                missing.push(var.clone());
            }
        }
    }
    assert_eq!(missing, Vec::<String>::new());
}

/// A recipe of some packs, read without a word.
fn of_packs(packs: &[&str]) -> Recipe {
    let folder = tempfile::tempdir().expect("a folder");
    let here = std::env::current_dir().expect("a working directory");
    let include: Vec<String> = packs
        .iter()
        .map(|pack| here.join("recipes/packs").join(pack).display().to_string())
        .collect();
    let text =
        format!("schema = 1\nname = \"one\"\ninclude = {include:?}\n[outputs]\nraw = {{}}\n");
    let path = folder.path().join("recipe.toml");
    fs::write(&path, text).expect("a recipe");
    silent(&path, &options())
}

/// The names of the steps that run.
fn running(recipe: &Recipe) -> Vec<&str> {
    let run = recipe.steps.iter().filter(|step| step.skipped.is_none());
    run.map(|step| step.name.as_str()).collect()
}

/// While it started with the build machine it was started anew each minute and wrote its log while `tidy` emptied the folder.
#[test]
fn kubelet_starts_with_windows_from_the_seal_on() {
    let mut with_kubelet = 0;
    for path in recipes() {
        let recipe = silent(&path, &options_for(&name(&path)));
        let plan = plan::make(&recipe).expect("a plan");
        let about: Vec<(&str, String)> = plan
            .steps
            .iter()
            .flat_map(|step| step.ops.iter().map(|op| (step.name.as_str(), op)))
            .filter_map(|(step, op)| match op {
                plan::PlannedOp::Run(run) => Some((step, run.arguments.join(" "))),
                _ => None,
            })
            .filter(|(_, line)| line.contains(" kubelet ") && line.contains("start= "))
            .collect();
        let Some(((step, last), before)) = about.split_last() else {
            continue;
        };
        with_kubelet += 1;
        assert_eq!(last, "config kubelet start= auto", "{}", path.display());
        for (step, line) in before {
            assert!(line.contains("start= demand"), "{step}: {line}");
        }
        // Behind it is the seal, or what winimg does where nothing is sealed, and before that at most what other packs do
        // last: nothing that restarts Windows.
        let at = plan.steps.iter().position(|s| s.name == *step);
        let behind = &plan.steps[at.expect("a step") + 1..];
        let (_, between) = behind.split_last().expect("the seal");
        let known = ["page file on the temporary disk", "no SSH host keys"];
        let others: Vec<&str> = between.iter().map(|s| s.name.as_str()).collect();
        let others: Vec<&&str> = others.iter().filter(|n| !known.contains(n)).collect();
        assert_eq!(others, Vec::<&&str>::new(), "{}", path.display());
        let starts: Vec<plan::PlannedCheck> = plan
            .steps
            .iter()
            .flat_map(|step| step.expects.clone())
            .filter(|expectation| {
                matches!(expectation, plan::PlannedCheck::Service(service) if service.name == "kubelet" && service.start.is_some())
            })
            .collect();
        assert!(
            matches!(
                starts.as_slice(),
                [plan::PlannedCheck::Service(plan::check::ServiceCheck {
                    start: Some(plan::check::ServiceStartMode::Auto),
                    ..
                })]
            ),
            "{starts:?}"
        );
    }
    assert_eq!(with_kubelet, 8);
}

/// `kubeadm reset` empties kubelet's folder; the one for volumes gets the list that the image has.
#[test]
fn volumes_have_one_access_list_in_the_image_and_after_a_reset() {
    let entry = regex::Regex::new(r"\*S-1-[0-9-]+:[()A-Z]+").expect("a pattern");
    let entries = |text: &str| -> Vec<String> {
        entry
            .find_iter(text)
            .map(|found| found.as_str().to_owned())
            .collect()
    };
    let read = |file: &str| fs::read_to_string(Path::new("recipes/packs").join(file)).expect(file);
    let wanted = entries(&read("kubernetes.toml"));
    assert_eq!(wanted.len(), 6, "{wanted:?}");
    for file in [
        "containerd.toml",
        "kubeadm-wins/Reset-Node.ps1",
        "node-services/Reset-Node.ps1",
    ] {
        assert_eq!(entries(&read(file)), wanted, "{file}");
    }
    for script in ["kubeadm-wins", "node-services"] {
        let text = read(&format!("{script}/Reset-Node.ps1"));
        let reset = text.find("kubeadm.exe' reset").expect("the reset");
        let pods = text.find(r"C:\var\lib\kubelet\pods").expect("the folder");
        assert!(reset < pods, "{script}");
    }
}

#[test]
fn the_update_for_2022_is_for_no_other_release() {
    for (release, runs) in [("2019", false), ("2022", true), ("2025", false)] {
        let windows = format!("windows-server-{release}.toml");
        let recipe = of_packs(&["kb5012637.toml", &windows]);
        let found = running(&recipe).contains(&"cumulative update");
        assert_eq!(found, runs, "{release}");
    }
}

/// By download where Windows does not bring it, and never twice.
#[test]
fn where_the_openssh_server_comes_from() {
    for (release, wanted) in [
        ("2019", "OpenSSH"),
        ("2022", "OpenSSH"),
        ("2025", "OpenSSH server"),
    ] {
        let windows = format!("windows-server-{release}.toml");
        let recipe = of_packs(&["openssh.toml", &windows]);
        let sources = ["OpenSSH", "OpenSSH server", "OpenSSH server from cabinets"];
        let mut found = running(&recipe);
        found.retain(|step| sources.contains(step));
        assert_eq!(found, [wanted], "{release}");
    }
}

/// Those that a clone runs are copied, and nobody reads them before.
#[test]
fn every_script_of_the_packs_is_powershell() {
    let folder = tempfile::tempdir().expect("a folder");
    let here = std::env::current_dir().expect("a working directory");
    let mut text = String::from(
        "schema = 1\nname = \"one\"\n[media]\nimage = \"standard-core\"\n[media.iso]\n\
         url = \"https://example.com/x.iso\"\nunverified = \"test\"\n[outputs]\nraw = {}\n",
    );
    let mut scripts = 0;
    for entry in fs::read_dir("recipes/packs").expect("the packs") {
        let beside = entry.expect("an entry").path();
        if !beside.is_dir() {
            continue;
        }
        for script in fs::read_dir(&beside).expect("a folder") {
            let script = script.expect("an entry").path();
            if script.extension().is_some_and(|e| e == "ps1") {
                scripts += 1;
                let file = here.join(&script).display().to_string();
                text +=
                    &format!("[[steps]]\nname = {file:?}\npowershell = {{ file = {file:?} }}\n");
            }
        }
    }
    let path = folder.path().join("recipe.toml");
    fs::write(&path, text).expect("a recipe");
    let recipe = silent(&path, &ReadOptions::default());
    assert_eq!(recipe.steps.len(), scripts);
    assert!(scripts >= 10, "{scripts}");
}
