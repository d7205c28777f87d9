//! The manifest's data about clones: the targets and the checks. Pure.

use super::manifest::ManifestCloneCheck;
use winimg_recipe::Recipe;
use winimg_recipe::plan::BuildPlan;

/// Returns the names of the targets that the recipe names itself, without those implied by its
/// outputs.
pub fn list_targets(recipe: &Recipe) -> Vec<String> {
    recipe
        .named_targets()
        .map(|target| target.name.clone())
        .collect()
}

/// Returns the enabled checks that refer to no input.
pub fn list_checks(plan: &BuildPlan) -> Vec<ManifestCloneCheck> {
    plan.clone_checks
        .iter()
        .filter(|check| check.skipped.is_none())
        .filter_map(|check| {
            Some(ManifestCloneCheck {
                place: check.place.to_string(),
                why: check.why.clone(),
                targets: check.targets.clone(),
                check: check.check.as_ref()?.without_inputs()?,
            })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use serde_json::json;

    use super::*;
    use winimg_base::io;
    use winimg_recipe::ReadOptions;
    use winimg_recipe::plan;

    /// With a target that it names, and one by its output.
    const RECIPE: &str = r#"
schema = 1
name = "small"
target = ["openstack"]
[media]
image = "datacenter-core"
[media.iso]
url = "https://example.com/x.iso"
unverified = "test"
[outputs]
vhd = {}
[[clone]]
why = "keys come in over SSH"
service = { name = "sshd", start = "auto" }
[[clone]]
why = "not now"
when = "false"
exists = 'C:\x'
[[clone]]
why = "the owner comes in"
targets = ["azure", "openstack"]
firewall = { name = "RDP", ports = [3389] }
[[clone]]
why = "one runtime"
service = { name = "docker", state = "absent" }
[[steps]]
name = "seal"
generalize = {}
"#;

    #[test]
    fn a_manifest_has_what_the_recipe_says_of_its_clones() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("recipe.toml");
        io::write_atomically(&path, RECIPE.as_bytes()).expect("the recipe");
        let shipped = vec![Path::new(env!("CARGO_MANIFEST_DIR")).join("recipes")];
        let options = ReadOptions {
            search: shipped.clone(),
            shipped,
            ..ReadOptions::default()
        };
        let (recipe, found) = plan::read(&path, &options);
        let recipe = recipe.unwrap_or_else(|| panic!("{}", found.render(false)));
        let plan = plan::make(&recipe).expect("a plan");
        assert_eq!(list_targets(&recipe), ["openstack"]);
        let at = |line: u32| format!("{}:{line}:1", path.display());
        assert_eq!(
            json!(list_checks(&plan)),
            json!([
                {
                    "place": at(12), "why": "keys come in over SSH",
                    "check": "service", "name": "sshd", "start": "auto",
                },
                {
                    "place": at(19), "why": "the owner comes in", "targets": ["azure", "openstack"],
                    "check": "firewall", "name": "RDP", "present": true, "inbound": true, "allow": true,
                    "protocol": 6, "ports": ["3389"], "scope": {},
                },
                {
                    "place": at(23), "why": "one runtime", "check": "registry",
                    "key": r"HKLM\SYSTEM\CurrentControlSet\Services\docker", "data": { "type": "absent" },
                },
            ])
        );
    }
}
