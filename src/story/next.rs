//! What to do with an artifact next: the platform's own commands with the names filled in, from a table (`templates`).
//!
//! Pure. Knows no account, no bucket and no host: what only the reader knows stands in capitals.

use handlebars::Handlebars;
use serde_json::json;

use super::templates::{TEMPLATES, Template};
use crate::record::Manifest;
use crate::record::manifest::Artifact;
use winimg_recipe::recipe::Firmware;

/// One platform's commands, filled in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Road {
    pub title: &'static str,
    pub commands: String,
}

/// The roads for the artifacts of a build, filled in. A recipe that names targets has theirs alone, as far as there are any.
pub fn roads(manifest: &Manifest) -> Vec<Road> {
    let is_named = |road: &&Template| manifest.targets.iter().any(|name| name == road.target);
    let fill = |road: &Template| filled(road, manifest);
    let named: Vec<Road> = TEMPLATES.iter().filter(is_named).filter_map(fill).collect();
    match named.is_empty() {
        true => TEMPLATES.iter().filter_map(fill).collect(),
        false => named,
    }
}

fn filled(road: &Template, manifest: &Manifest) -> Option<Road> {
    let is_it = |a: &&Artifact| a.kind == road.kind;
    let artifact = manifest.artifacts.iter().find(is_it)?;
    let machine = manifest.machine.as_ref();
    let firmware = machine.map_or(Firmware::Uefi, |machine| machine.firmware);
    let generation = match firmware {
        Firmware::Uefi => "V2",
        Firmware::Bios => "V1",
    };
    let values = json!({
        "name": manifest.recipe.name,
        "file": artifact.file,
        // That of the virtual disk, which a compressed file does not have.
        "size": "SIZE",
        "generation": generation,
        "firmware": firmware.word(),
    });
    Some(Road {
        title: road.title,
        commands: render(road.commands, &values),
    })
}

fn render(template: &str, values: &serde_json::Value) -> String {
    let mut handlebars = Handlebars::new();
    handlebars.set_strict_mode(true);
    handlebars.register_escape_fn(handlebars::no_escape);
    let text = handlebars.render_template(template, values);
    text.expect("each template is filled in by a test")
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
        for road in TEMPLATES {
            let page = PAGES.iter().find(|(target, ..)| *target == road.target);
            let (_, name, page) = page.expect(road.target);
            let ending = match road.kind {
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
            for line in render(road.commands, &values).lines() {
                let is_it = |l: &str| l.trim_start_matches("$ ").trim() == line.trim();
                assert!(page.lines().any(is_it), "{}: {line}", road.target);
            }
        }
    }
}
