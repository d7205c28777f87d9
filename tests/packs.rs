//! winimg's packs and recipes: each is read without a complaint, and each recipe's whole plan is compared with
//! `tests/packs/*.txt` (written anew with `WINIMG_GOLDEN=write`), so every command that it would run is on paper.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use winimg::plan;
use winimg::recipe::{Options, Recipe, read};

/// What whoever builds has to say. The environment is the one place whose other names are passed over.
const SAID: [(&str, &str); 26] = [
    ("acr_provider_sha256", DIGEST),
    ("acr_provider_version", "1.33.0"),
    ("cloudbase_init_sha256", DIGEST),
    ("csi_proxy_sha256", DIGEST),
    ("csi_proxy_url", "https://example.com/csi-proxy.exe"),
    ("ec2_ena_sha256", DIGEST),
    ("ec2_nvme_sha256", DIGEST),
    ("ec2launch_sha256", DIGEST),
    ("flannel_cni_sha256", DIGEST),
    ("flannel_sha256", DIGEST),
    ("gmsa_keyvault_sha256", DIGEST),
    ("iso_url", "https://example.com/windows.iso"),
    ("nssm_sha256", DIGEST),
    ("openssh_cabs", "tests/packs/cabs"),
    ("ovs_sha256", DIGEST),
    ("ovs_url", "https://example.com/openvswitch.msi"),
    ("sdn_commit", "b1e7cb3a0a29dbb1b3cf9c5f5e2f4d0f0b3d5c11"),
    ("sdn_sha256", DIGEST),
    (
        "sig_windows_tools_commit",
        "401ee6f0a29dbb1b3cf9c5f5e2f4d0f0b3d5c112",
    ),
    ("sig_windows_tools_sha256", DIGEST),
    (
        "ssh_administrators_keys",
        "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIExample operator",
    ),
    ("ssh_source_sha256", DIGEST),
    ("updates_folder", "tests/packs/updates"),
    ("vmware_drivers_sha256", DIGEST),
    (
        "vmware_drivers_url",
        "https://example.com/vmware-drivers.zip",
    ),
    ("windows_update_sha256", DIGEST),
];
const DIGEST: &str = "5aa03f96c77536579166fba147929626cc3a97960e994057a9d80271a736d10f";

/// Packs that name variables of another, and say so in their first lines.
const AFTER: [(&str, &[&str]); 5] = [
    ("node-services.toml", &["kubernetes.toml"]),
    ("nssm.toml", &["kubernetes.toml"]),
    ("release-file.toml", &["kubernetes.toml"]),
    ("capi-checks.toml", &["containerd.toml", "kubernetes.toml"]),
    ("wmco.toml", &["windows-server-2022.toml"]),
];

fn options() -> Options {
    options_for("wmco")
}

/// Only OpenShift's operator needs a key in the image.
fn options_for(recipe: &str) -> Options {
    let env = SAID
        .iter()
        .filter(|(name, _)| *name != "ssh_administrators_keys" || recipe.starts_with("wmco"))
        .map(|(name, value)| (format!("WINIMG_VAR_{name}"), value.to_string()));
    Options {
        env: env.collect(),
        ..Options::default()
    }
}

fn golden(name: &str, found: &str) {
    let path = Path::new("tests/packs").join(name);
    if std::env::var_os("WINIMG_GOLDEN").is_some_and(|v| v == "write") {
        fs::write(&path, found).expect("the golden file is written");
    }
    let kept = fs::read_to_string(&path).unwrap_or_default();
    let differs = kept
        .lines()
        .zip(found.lines())
        .enumerate()
        .find(|(_, (a, b))| a != b);
    assert!(
        kept == found,
        "{name} differs, first at {differs:?}; {} against {} lines",
        kept.lines().count(),
        found.lines().count()
    );
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

fn name(path: &Path) -> String {
    let name = path.file_name().expect("a name");
    name.to_string_lossy().into_owned()
}

/// The recipe, if it was read without a word.
fn silent(path: &Path, options: &Options) -> Recipe {
    let (recipe, said) = read(path, options);
    assert_eq!(said.render(false), "", "{}", path.display());
    recipe.expect("a recipe")
}

/// The plan, with what it warns about at its end.
fn plan_of(recipe: &Recipe) -> String {
    match plan::make(recipe) {
        Ok(plan) => format!(
            "{}\nwarnings\n{}",
            plan::text(recipe, &plan),
            plan.warnings.render(false)
        ),
        Err(complaints) => panic!("no plan:\n{}", complaints.render(false)),
    }
}

/// winimg's recipes, without the demo (its files are made by `make standin`) and the text of `winimg init`.
fn recipes() -> Vec<PathBuf> {
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
        let media = match file.starts_with("windows-server-") {
            true => "",
            false => {
                "[media]\nimage = \"standard-core\"\n[media.iso]\nurl = \"https://example.com/x.iso\"\nunverified = \"test\"\n"
            }
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

#[test]
fn the_plan_of_every_recipe() {
    for path in recipes() {
        let recipe = silent(&path, &options_for(&name(&path)));
        let shut_out = plan::shut_out(&recipe).render(false);
        assert_eq!(
            shut_out,
            "",
            "{} cannot be built on Hyper-V",
            path.display()
        );
        golden(&name(&path).replace(".toml", ".txt"), &plan_of(&recipe));
    }
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
        (
            "another service manager",
            vec![("windows_service_manager", "nssm")],
        ),
        ("kube-proxy", vec![("kubernetes_kube_proxy", "true")]),
        ("OpenSSH from Windows", vec![("openssh_cabs", ".")]),
        (
            "administrators' keys",
            vec![
                ("ssh_administrators_keys_in", "machine"),
                ("ssh_administrators_keys", "ssh-ed25519 AAAA one"),
            ],
        ),
        ("volume media", vec![("product_key", "kms")]),
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
    golden("variants.txt", &found);
}

/// The plan's lines without the numbers of payload entries, which shift, and without the recipe's digest.
fn lines(plan: &str) -> Vec<String> {
    let entry = regex::Regex::new(r"\bp\\\d{4}\\").expect("a pattern");
    plan.lines()
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
    golden(
        "image-builder.txt",
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
    let mut last_two = Vec::new();
    for more in [step.to_string(), format!("{step}{seal}")] {
        let path = folder.path().join("mine.toml");
        let head = format!(
            "schema = 1\nname = \"mine\"\ninclude = [{:?}]\n",
            base.display().to_string()
        );
        fs::write(&path, head + &more).expect("a recipe");
        let recipe = silent(&path, &options());
        let names: Vec<String> = recipe.steps.iter().map(|s| s.name.clone()).collect();
        last_two.push(names[names.len() - 2..].join(", "));
    }
    assert_eq!(last_two, ["site, seal", "site, my seal"]);
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
