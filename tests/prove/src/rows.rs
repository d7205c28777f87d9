//! What a run builds: one row for each firmware and disk bus, one with Secure Boot and a TPM, and each shipped recipe that is for the
//! medium's release. Pure: rows and their recipes as text.

use std::path::Path;

use crate::proof::Machine;

/// A build that is wanted.
#[derive(Clone, Debug)]
pub struct Wanted {
    pub name: String,
    pub machine: Machine,
    pub what: What,
}

#[derive(Clone, Debug)]
pub enum What {
    /// A small recipe of its own: the targets that its clones are started as, and what the image is written as.
    Own {
        targets: &'static [&'static str],
        outputs: &'static [&'static str],
    },
    /// `winimg init NAME`, with what only a person decides, and the targets that its clones are started as.
    Shipped {
        recipe: &'static str,
        vars: &'static [(&'static str, &'static str)],
        targets: &'static [&'static str],
    },
}

/// For whom OpenShift's operator would log in; nobody has the other half.
const NOBODYS_KEY: (&str, &str) = (
    "ssh_administrators_keys",
    "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJ0Fvbi1Tj2Ck2dPdmWb9y8z4LXqyrZ7vQqf3mTqXxYq nobody",
);

/// The release that the shipped recipes are made for, by its build.
pub const SHIPPED_FOR: &str = "20348";

/// All shipped recipes but the demo and the starter: name, bus of the disk, values, and the targets of which a clone can come up. All are for
/// UEFI. Not tried is what docs/try.md calls an error: an image that is not sealed, and one without cloudbase-init where that is the target's
/// agent.
type Shipped = (
    &'static str,
    &'static str,
    &'static [(&'static str, &'static str)],
    &'static [&'static str],
);
const SHIPPED: [Shipped; 13] = [
    ("capi-ami", "virtio", &[], &["aws-import"]),
    ("capi-azure", "virtio", &[], &["azure"]),
    ("capi-hyperv", "virtio", &[], &["hyperv-gen2"]),
    ("capi-openstack", "virtio", &[], &["openstack"]),
    ("capi-ova", "nvme", &[], &["vsphere"]),
    ("capi-proxmox", "virtio", &[], &["proxmox"]),
    ("hyperv-vagrant", "virtio", &[], &[]),
    ("kubeadm-wins", "nvme", &[], &["vsphere", "hyperv-gen2"]),
    (
        "wmco-aws",
        "virtio",
        &[NOBODYS_KEY],
        &["aws-import", "wmco-machineset"],
    ),
    ("wmco-byoh", "virtio", &[NOBODYS_KEY], &["wmco-byoh"]),
    ("wmco-gcp", "nvme", &[], &[]),
    (
        "wmco-nutanix",
        "virtio",
        &[NOBODYS_KEY],
        &["wmco-machineset"],
    ),
    ("wmco-vsphere", "nvme", &[NOBODYS_KEY], &["wmco-machineset"]),
];

/// What the step that generalizes is called in each row's recipe.
pub const SEAL: &str = "seal";

/// Those whose images hold kubeadm, kubelet and cloudbase-init, which runs user data: what Cluster API makes nodes of.
const NODES: [&str; 6] = [
    "capi-ami",
    "capi-azure",
    "capi-hyperv",
    "capi-openstack",
    "capi-ova",
    "capi-proxmox",
];

impl Wanted {
    /// Whether a clone of the image can become a node by its user data.
    pub fn is_node(&self) -> bool {
        NODES.contains(&self.name.as_str())
    }

    /// As what its clones are started. Hyper-V's images are not tried: clones run on QEMU alone.
    pub fn tries(&self) -> &'static [&'static str] {
        match &self.what {
            _ if self.machine.hypervisor != "qemu" => &[],
            What::Own { targets, .. } | What::Shipped { targets, .. } => targets,
        }
    }
}

fn own(
    (firmware, bus, trusted): (&str, &str, bool),
    hypervisor: &str,
    targets: &'static [&'static str],
    outputs: &'static [&'static str],
) -> Wanted {
    let trust = if trusted { "-trusted" } else { "" };
    Wanted {
        name: match hypervisor {
            "qemu" => format!("{firmware}-{bus}{trust}"),
            other => format!("{other}-{firmware}{trust}"),
        },
        machine: machine(hypervisor, firmware, bus, trusted),
        what: What::Own { targets, outputs },
    }
}

fn machine(hypervisor: &str, firmware: &str, disk_bus: &str, trusted: bool) -> Machine {
    Machine {
        hypervisor: hypervisor.into(),
        firmware: firmware.into(),
        disk_bus: disk_bus.into(),
        trusted,
    }
}

/// The rows of a run on this hypervisor, from a medium of this build (`20348`).
pub fn all(hypervisor: &str, build: &str) -> Vec<Wanted> {
    // Hyper-V's machines have its own bus, and clones run on QEMU alone.
    if hypervisor == "hyperv" {
        let gen2 = |trusted| {
            own(
                ("uefi", "nvme", trusted),
                hypervisor,
                &["hyperv-gen2"],
                &["vhdx"],
            )
        };
        let gen1 = own(
            ("bios", "ahci", false),
            hypervisor,
            &["hyperv-gen1"],
            &["vhd"],
        );
        return vec![gen2(false), gen1, gen2(true)];
    }
    let row =
        |firmware, bus, targets, outputs| own((firmware, bus, false), hypervisor, targets, outputs);
    let mut rows = vec![
        // The drive first: cloudbase-init waits minutes for a service that is not there, and a clone seems to have settled.
        row("uefi", "virtio", &["kubevirt", "openstack"], &["qcow2"]),
        row("uefi", "nvme", &["vsphere"], &["ova"]),
        row("uefi", "ahci", &["hyperv-gen2"], &["vhdx"]),
        row("bios", "virtio", &["openstack"], &["qcow2"]),
        row("bios", "nvme", &["aws-import"], &["raw"]),
        row("bios", "ahci", &["hyperv-gen1"], &["vhd"]),
        own(
            ("uefi", "virtio", true),
            hypervisor,
            &["openstack"],
            &["qcow2"],
        ),
    ];
    if build == SHIPPED_FOR {
        rows.extend(SHIPPED.map(|(recipe, bus, vars, targets)| Wanted {
            name: recipe.into(),
            machine: machine(hypervisor, "uefi", bus, false),
            what: What::Shipped {
                recipe,
                vars,
                targets,
            },
        }));
    }
    rows
}

/// The rows that these words name, or all where there is none: a whole name is that row, another word all whose name holds it.
pub fn chosen(all: Vec<Wanted>, words: &[String]) -> Vec<Wanted> {
    let is_name = |word: &str| all.iter().any(|row| row.name == word);
    let (names, parts): (Vec<&String>, Vec<&String>) = words.iter().partition(|word| is_name(word));
    let is_wanted = |row: &Wanted| {
        names.contains(&&row.name) || parts.iter().any(|part| row.name.contains(part.as_str()))
    };
    let wanted = all.iter().filter(|row| words.is_empty() || is_wanted(row));
    wanted.cloned().collect()
}

/// The pack of the release, by its build.
pub fn release(build: &str) -> Option<&'static str> {
    Some(match build {
        "17763" => "packs/windows-server-2019.toml",
        "20348" => "packs/windows-server-2022.toml",
        "26100" => "packs/windows-server-2025.toml",
        _ => return None,
    })
}

/// Where cloudbase-init looks for what a clone of this target is given.
fn services(target: &str) -> &'static str {
    match target {
        "vsphere" => "ovfservice.OvfService",
        "aws-import" => "ec2service.EC2Service",
        "openstack" => "httpservice.HttpService",
        _ => "configdrive.ConfigDriveService",
    }
}

/// A row's recipe, for a medium of this build, from the source tree; `with` is a recipe of the site's own, which has the last word on inputs.
///
/// # Errors
/// No pack of winimg is for the release.
pub fn recipe(
    row: &Wanted,
    build: &str,
    tree: &Path,
    with: Option<&Path>,
) -> Result<String, String> {
    let probes = tree.join("tests/prove/probes/probes.toml");
    let seal = tree.join("recipes/packs/cloudbase-init/seal.xml");
    let own = [Some(probes.as_path()), with];
    let own = own
        .into_iter()
        .flatten()
        .map(|path| path.display().to_string());
    Ok(match &row.what {
        What::Shipped { recipe, vars, .. } => {
            let include: Vec<String> = [format!("{recipe}.toml")].into_iter().chain(own).collect();
            let mut text =
                format!("schema = 1\nname = {recipe:?}\ninclude = {include:?}\n\n[vars]\n");
            for (name, value) in *vars {
                text += &format!("{name} = {value:?}\n");
            }
            text
        }
        What::Own { targets, outputs } => {
            let release =
                release(build).ok_or(format!("no pack of winimg is for Windows {build}"))?;
            let mut include: Vec<String> =
                ["packs/virtio.toml", "packs/cloudbase-init.toml", release]
                    .map(String::from)
                    .into();
            if row.machine.hypervisor == "hyperv" {
                include.retain(|file| file != "packs/virtio.toml");
            }
            include.extend(own);
            let mut found: Vec<String> = Vec::new();
            for target in *targets {
                let service = format!("cloudbaseinit.metadata.services.{}", services(target));
                if !found.contains(&service) {
                    found.push(service);
                }
            }
            let Machine {
                firmware,
                disk_bus,
                trusted,
                ..
            } = &row.machine;
            let outputs: String = outputs
                .iter()
                .map(|output| format!("{output} = {{}}\n"))
                .collect();
            format!(
                "schema = 1\nname = {:?}\ntarget = {targets:?}\ninclude = {include:?}\n\n\
                 [vars]\ncloudbase_metadata_services = {:?}\n\n\
                 [machine]\nfirmware = {firmware:?}\ndisk_bus = {disk_bus:?}\nsecure_boot = {trusted}\ntpm = {trusted}\n\
                 disk_size = \"40 GiB\"\ncpus = 2\n\n\
                 [[steps]]\nname = {SEAL:?}\ngeneralize = {{ answer_file = {:?} }}\n\n\
                 [outputs]\n{outputs}",
                row.name,
                found.join(", "),
                seal.display().to_string(),
            )
        }
    })
}
