//! Next steps for an artifact: the platform's own commands with names filled in, from a table
//! (`templates`).
//!
//! Pure. Accounts, buckets and hosts are placeholders in capitals, which the reader replaces.

use handlebars::Handlebars;
use serde_json::json;

use super::templates::{CommandTemplate, TEMPLATES};
use crate::record::BuildManifest;
use winimg_recipe::Firmware;

/// Rendered commands for one platform.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NextStep {
    pub title: &'static str,
    pub commands: String,
}

/// Renders the commands for the artifacts of a build: for the targets that the recipe names, or for
/// all platforms if there are none for those.
pub fn list_next_steps(manifest: &BuildManifest) -> Vec<NextStep> {
    let named: Vec<NextStep> = TEMPLATES
        .iter()
        .filter(|template| manifest.targets.iter().any(|name| name == template.target))
        .filter_map(|template| fill_template(template, manifest))
        .collect();
    if named.is_empty() {
        TEMPLATES
            .iter()
            .filter_map(|template| fill_template(template, manifest))
            .collect()
    } else {
        named
    }
}

fn fill_template(template: &CommandTemplate, manifest: &BuildManifest) -> Option<NextStep> {
    let artifact = manifest
        .artifacts
        .iter()
        .find(|a| a.kind == template.kind)?;
    let machine = manifest.machine.as_ref();
    let firmware = machine.map_or(Firmware::Uefi, |machine| machine.firmware);
    let generation = match firmware {
        Firmware::Uefi => "V2",
        Firmware::Bios => "V1",
    };
    let values = json!({
        "name": manifest.recipe.name,
        "file": artifact.file,
        // The size of the virtual disk: it differs from a compressed file's size.
        "size": "SIZE",
        "generation": generation,
        "firmware": firmware.as_str(),
    });
    Some(NextStep {
        title: template.title,
        commands: render(template.commands, &values),
    })
}

fn render(template: &str, values: &serde_json::Value) -> String {
    let mut handlebars = Handlebars::new();
    handlebars.set_strict_mode(true);
    handlebars.register_escape_fn(handlebars::no_escape);
    handlebars
        .render_template(template, values)
        .expect("a test renders each template")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The page of each target, and the recipe that it builds.
    const PAGES: [(&str, &str, &str); 8] = [
        (
            "azure",
            "my-capi-azure",
            include_str!("../../docs/platforms/azure.md"),
        ),
        (
            "vsphere",
            "my-capi-ova",
            include_str!("../../docs/platforms/vsphere.md"),
        ),
        (
            "aws-import",
            "my-capi-ami",
            include_str!("../../docs/platforms/aws.md"),
        ),
        (
            "hyperv-gen2",
            "my-capi-hyperv",
            include_str!("../../docs/platforms/hyperv.md"),
        ),
        (
            "openstack",
            "my-capi-openstack",
            include_str!("../../docs/platforms/openstack.md"),
        ),
        (
            "proxmox",
            "my-capi-proxmox",
            include_str!("../../docs/platforms/proxmox.md"),
        ),
        (
            "kubevirt",
            "kubevirt-node",
            include_str!("../../docs/platforms/kubevirt.md"),
        ),
        (
            "vagrant",
            "hyperv-vagrant",
            include_str!("../../docs/platforms/vagrant.md"),
        ),
    ];

    #[test]
    fn the_documentation_has_the_same_commands() {
        for template in TEMPLATES {
            let page = PAGES.iter().find(|(target, ..)| *target == template.target);
            let (_, name, page) = page.expect(template.target);
            let ending = match template.kind {
                "ami" => ".ami/import-image.json",
                "box_hyperv" => "-hyperv.box",
                "box_libvirt" => "-libvirt.box",
                "container_disk" => ".oci.tar",
                kind => &format!(".{kind}"),
            };
            let values = json!({
                "name": name, "file": format!("{name}{ending}"), "size": "80Gi",
                "generation": "V2", "firmware": "uefi",
            });
            for line in render(template.commands, &values).lines() {
                let is_it = |l: &str| l.trim_start_matches("$ ").trim() == line.trim();
                assert!(page.lines().any(is_it), "{}: {line}", template.target);
            }
        }
    }
}
