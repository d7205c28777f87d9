//! Commands for an artifact on each platform, as a table. The pages of `docs/platforms/` have the
//! same lines.
//!
//! Variables: `{{name}}`, `{{file}}`, `{{generation}}` (V1 or V2), `{{firmware}}`, `{{size}}`.

pub struct CommandTemplate {
    /// The artifact's kind.
    pub kind: &'static str,
    /// The target's name.
    pub target: &'static str,
    pub title: &'static str,
    pub commands: &'static str,
}

pub const TEMPLATES: &[CommandTemplate] = &[
    CommandTemplate {
        kind: "vhd",
        target: "azure",
        title: "Azure: a managed disk, then an image",
        commands: r#"size=$(stat -c %s {{file}})
az disk create -g GROUP -n {{name}} --os-type Windows --hyper-v-generation {{generation}} \
  --upload-type Upload --upload-size-bytes "$size"
sas=$(az disk grant-access -g GROUP -n {{name}} --access-level Write \
  --duration-in-seconds 86400 --query accessSas -o tsv)
azcopy copy {{file}} "$sas" --blob-type PageBlob
az disk revoke-access -g GROUP -n {{name}}
az image create -g GROUP -n {{name}} --os-type Windows --hyper-v-generation {{generation}} \
  --source {{name}}"#,
    },
    CommandTemplate {
        kind: "ova",
        target: "vsphere",
        title: "vSphere: a template",
        commands: r#"winimg publish . --to vsphere://VCENTER/LIBRARY/{{name}}-ova \
  --template {{name}} --cluster CLUSTER --datastore DATASTORE"#,
    },
    CommandTemplate {
        kind: "ami",
        target: "aws-import",
        title: "AWS: an AMI",
        commands: r#"export AWS_REGION=eu-west-1
winimg publish . --to ami://BUCKET/winimg"#,
    },
    CommandTemplate {
        kind: "vhdx",
        target: "hyperv-gen2",
        title: "Hyper-V: a machine of generation 2",
        commands: r#"Copy-Item {{file}} node-1.vhdx
New-VM -Name node-1 -Generation 2 -MemoryStartupBytes 4GB `
  -VHDPath "$PWD\node-1.vhdx" -SwitchName 'Default Switch'
Set-VM -Name node-1 -ProcessorCount 2 -StaticMemory -AutomaticCheckpointsEnabled $false
Set-VMNetworkAdapter -VMName node-1 -MacAddressSpoofing On"#,
    },
    CommandTemplate {
        kind: "qcow2",
        target: "openstack",
        title: "OpenStack: an image in Glance",
        commands: r#"openstack image create {{name}} --disk-format qcow2 --container-format bare \
  --file {{file}} --property hw_firmware_type={{firmware}} --property hw_machine_type=q35"#,
    },
    CommandTemplate {
        kind: "qcow2",
        target: "proxmox",
        title: "Proxmox: the disk of the machine 9000",
        commands: r#"qm importdisk 9000 {{file}} local-lvm
qm template 9000"#,
    },
    CommandTemplate {
        kind: "qcow2",
        target: "kubevirt",
        title: "KubeVirt: a data volume",
        commands: r#"virtctl image-upload dv {{name}} --size {{size}} --image-path {{file}} \
  --access-mode ReadWriteOnce"#,
    },
    CommandTemplate {
        kind: "container_disk",
        target: "kubevirt",
        title: "KubeVirt: a containerDisk",
        commands: r#"winimg publish . --to containerdisk://REGISTRY/windows/{{name}}:1"#,
    },
    CommandTemplate {
        kind: "box_hyperv",
        target: "vagrant",
        title: "Vagrant: a machine on Hyper-V",
        commands: r#"vagrant box add --name {{name}} {{file}}
vagrant init {{name}}
vagrant up --provider hyperv"#,
    },
    CommandTemplate {
        kind: "box_libvirt",
        target: "vagrant",
        title: "Vagrant: a machine on libvirt",
        commands: r#"vagrant box add --name {{name}} {{file}}
vagrant init {{name}}
vagrant up --provider libvirt"#,
    },
];
