//! What proves each component of the packs, beside docs/packs.md: no proof changes without its line there.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use winimg_recipe::{ProofSpec, Recipe, read};

use super::{name, options_for, plan_of, recipes, silent, toml_files};

/// Those that a policy of signatures is promised for.
const PROMISED: [&str; 5] = [
    "capi-azure.toml",
    "capi-openstack.toml",
    "capi-ova.toml",
    "kubeadm-wins.toml",
    "wmco-byoh.toml",
];

/// The cells of the rows below the line that begins so, up to the first line that is no row.
pub fn table(header: &str) -> Vec<Vec<String>> {
    let docs = fs::read_to_string("docs/packs.md").expect("docs/packs.md");
    let lines = docs.lines().skip_while(|line| !line.starts_with(header));
    let rows = lines.skip(2).take_while(|line| line.starts_with("| "));
    let cells = |row: &str| {
        let inner = row.trim_matches('|').split(" | ");
        inner.map(|cell| cell.trim().replace('`', "")).collect()
    };
    rows.map(cells).collect()
}

/// What a component's table of a pack asks, in the words of the documentation.
fn proof(table: &toml::Table) -> String {
    let mut asked = Vec::new();
    let mut kinds = BTreeSet::new();
    let mut members = false;
    let mut judge = |signature: &toml::Value| {
        kinds.insert(signature["kind"].as_str().expect("a kind").to_owned());
        members |= signature.get("members").is_some();
    };
    let signatures = table.get("signature").into_iter();
    for signature in signatures.flat_map(|value| match value {
        toml::Value::Array(list) => list.clone(),
        one => vec![one.clone()],
    }) {
        match signature.get("any").and_then(|any| any.as_array()) {
            Some(any) => any.iter().for_each(&mut judge),
            None => judge(&signature),
        }
    }
    let of = if members { " of members" } else { "" };
    asked.extend(kinds.into_iter().map(|kind| format!("{kind}{of}")));
    if table.contains_key("checksum_url") {
        asked.push("checksum file".into());
    }
    if table.contains_key("sha256") {
        asked.push("digest".into());
    }
    asked.join(" + ")
}

#[test]
fn each_component_has_the_proof_that_the_documentation_lists() {
    let mut found = BTreeMap::new();
    let mut packs = toml_files("recipes/packs");
    packs.extend(toml_files("recipes/packs/openssh"));
    for pack in packs {
        let text = fs::read_to_string(&pack).expect("a pack");
        let pack: toml::Table = text.parse().expect("TOML");
        for (prefix, key) in [("", "components"), ("media.", "media")] {
            let tables = pack.get(key).and_then(|tables| tables.as_table());
            let tables = tables.into_iter().flatten();
            let downloads = tables.filter_map(|(name, table)| Some((name, table.as_table()?)));
            for (name, table) in downloads {
                found.insert(format!("{prefix}{name}"), proof(table));
            }
        }
    }
    let listed = table("| component | proof |").into_iter();
    let listed = listed.map(|row| (row[0].clone(), row[1].clone()));
    assert_eq!(found, listed.collect::<BTreeMap<_, _>>());
    assert!(found.len() > 25, "{}", found.len());
}

/// The components, and the medium of drivers, that have a signature, and the others.
fn sorted(recipe: &Recipe) -> (BTreeSet<&str>, BTreeSet<&str>) {
    let components = recipe.components.iter().map(|component| {
        let origin = &component.origin;
        assert!(
            !matches!(origin.proof, ProofSpec::Unverified { .. }),
            "{}",
            component.name.value
        );
        (component.name.value.as_str(), !origin.signatures.is_empty())
    });
    let virtio = recipe.media.virtio.iter();
    let virtio = virtio.map(|origin| ("media.virtio", !origin.signatures.is_empty()));
    let all = components.chain(virtio);
    let (signed, others): (Vec<_>, Vec<_>) = all.partition(|(_, signed)| *signed);
    let names = [signed, others].map(|list| list.into_iter().map(|(name, _)| name).collect());
    names.into()
}

/// Recipe, what is signed, what is not: the rows of the documentation.
fn rows() -> Vec<(String, [BTreeSet<String>; 2])> {
    let names = |cell: &String| cell.split(", ").map(str::to_owned).collect();
    let rows = table("| recipe | signed |").into_iter();
    rows.map(|row| (row[0].clone(), [names(&row[1]), names(&row[2])]))
        .collect()
}

#[test]
fn what_of_each_recipe_is_signed_stands_in_the_documentation() {
    let mut found = Vec::new();
    for path in recipes() {
        let recipe = silent(&path, &options_for(&name(&path)));
        let (signed, others) = sorted(&recipe);
        let owned = |names: BTreeSet<&str>| names.into_iter().map(str::to_owned).collect();
        found.push((name(&path), [owned(signed), owned(others)]));
    }
    assert_eq!(found, rows());
}

/// What is said of a recipe on top of a shipped one.
fn on_top(shipped: &str, more: &str) -> (Option<Recipe>, String) {
    let folder = tempfile::tempdir().expect("a folder");
    let base = std::env::current_dir().expect("a working directory");
    let base = base.join("recipes").join(shipped).display().to_string();
    let path = folder.path().join("mine.toml");
    let head = format!("schema = 1\nname = \"mine\"\ninclude = [{base:?}]\n");
    fs::write(&path, head + more).expect("a recipe");
    let (recipe, said) = read(&path, &options_for(shipped));
    (recipe, said.render(false))
}

/// The names of the inputs that lines of complaints speak of.
fn named(said: &str, fact: &str) -> BTreeSet<String> {
    let lines = said.lines().filter(|line| line.contains(fact));
    let names = lines.filter_map(|line| {
        let medium = line
            .split_once('[')
            .and_then(|(_, rest)| rest.split_once(']'));
        let component = line.split('`').nth(1);
        component.or(medium.map(|(name, _)| name))
    });
    names.map(str::to_owned).collect()
}

#[test]
fn a_policy_of_signatures_holds_but_for_what_the_documentation_names() {
    for (recipe, [_, others]) in rows() {
        let (read, said) = on_top(&recipe, "policy = \"signed\"\n");
        assert!(read.is_none(), "{recipe}");
        assert_eq!(named(&said, "has no signature"), others, "{said}");
        let lines = others.iter().map(|name| format!("{name} = \"so\"\n"));
        let allowed = format!(
            "policy = \"signed\"\n[unsigned]\n{}",
            lines.collect::<String>()
        );
        let (read, said) = on_top(&recipe, &allowed);
        assert_eq!(named(&said, "without a signature"), others, "{said}");
        plan_of(&read.expect("a recipe"));
    }
    let listed: BTreeSet<String> = rows().into_iter().map(|(recipe, _)| recipe).collect();
    assert!(PROMISED.iter().all(|recipe| listed.contains(*recipe)));
}

/// For a mirror without signature files: one variable, and a warning for each program.
#[test]
fn a_mirror_without_signatures_is_named_by_one_variable() {
    let all = [
        "kube-log-runner",
        "kube-proxy",
        "kubeadm",
        "kubectl",
        "kubelet",
    ];
    for (variable, components) in [
        ("kubernetes_signatures", &all[..]),
        ("containerd_signatures", &["containerd"]),
        ("openssh_signatures", &["openssh"]),
        ("vmware_tools_signatures", &["vmware-tools"]),
        ("virtio_signatures", &["media.virtio"]),
    ] {
        let mut options = options_for("capi-ova");
        options.vars = vec![(variable.into(), "off".into())];
        let (recipe, said) = read(Path::new("recipes/capi-ova.toml"), &options);
        let said = said.render(false);
        let wanted = components.iter().map(|name| (*name).to_owned()).collect();
        assert_eq!(named(&said, "is not required"), wanted, "{said}");
        let recipe = recipe.expect("a recipe");
        let (_, others) = sorted(&recipe);
        assert!(components.iter().all(|name| others.contains(name)));
    }
}
