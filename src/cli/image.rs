//! The commands about a finished image, its records, and this host.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};

use super::{AccelArg, HypervisorArgs};
use crate::trial::result::Network;
use winimg_recipe::recipe::quantity;

#[derive(Debug, Args)]
pub struct Export {
    /// Finished image, in any format that winimg reads
    pub image: PathBuf,
    /// Formats to write, separated by commas
    #[arg(long, value_delimiter = ',', required = true)]
    pub to: Vec<Format>,
    /// Output folder [default: the folder of the image]
    #[arg(long, short, value_name = "DIR")]
    pub output: Option<PathBuf>,
    /// Manifest of the build that made the image [default: manifest.json beside the image]
    ///
    /// The processors, the memory, the firmware, the disk's controller and the time of the build are taken from it when it
    /// lists the image by its digest.
    #[arg(long, value_name = "FILE")]
    pub manifest: Option<PathBuf>,
    /// Replace artifacts of a build that are in the output folder
    #[arg(long)]
    pub replace: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Format {
    Raw,
    /// Fixed
    Vhd,
    #[value(name = "vhd_dynamic")]
    VhdDynamic,
    /// Dynamic
    Vhdx,
    #[value(name = "vhdx_fixed")]
    VhdxFixed,
    Ova,
    /// Stream-optimised
    Vmdk,
    /// Extent and descriptor, as in an ESXi datastore
    #[value(name = "vmdk_flat")]
    VmdkFlat,
    Ami,
    Qcow2,
    /// Proxmox VE's backup, for qmrestore
    Vma,
    /// Vagrant
    #[value(name = "box_hyperv")]
    BoxHyperv,
    #[value(name = "box_libvirt")]
    BoxLibvirt,
    #[value(name = "box_virtualbox")]
    BoxVirtualbox,
    /// KubeVirt
    #[value(name = "container_disk")]
    ContainerDisk,
}

#[derive(Debug, Args)]
pub struct Publish {
    /// A build's output folder, or its manifest.json
    pub image: PathBuf,
    /// Where the files go: s3://, ami://, azblob://, azure://, gs://, glance://, vsphere://, https://, oci:// or containerdisk://
    ///
    /// s3://BUCKET/FOLDER, azblob://ACCOUNT/CONTAINER/FOLDER and https://HOST/FOLDER hold the files by their names. oci://REGISTRY/REPOSITORY:TAG is one OCI artifact of
    /// them all, containerdisk://REGISTRY/REPOSITORY:TAG the image's containerDisk; records are attached to both.
    /// ami://BUCKET/FOLDER sends the disk of the output `ami` to the bucket and imports it as an AMI.
    /// azure://SUBSCRIPTION/GROUP/ACCOUNT/CONTAINER[/FOLDER] sends the VHD to the container and makes a managed image of it, or a version
    /// in a gallery (--gallery).
    /// gs://BUCKET/FOLDER holds the files in Google Cloud Storage.
    /// glance://[NAME] makes an image in OpenStack of the output `qcow2`, otherwise of `raw`.
    /// vsphere://VCENTER/LIBRARY[/ITEM] sends the OVA to a content library, and makes a template of it (--template).
    #[arg(long, value_name = "URL")]
    pub to: String,
    /// Outputs to send, separated by commas [default: all]
    #[arg(long, value_name = "OUTPUT", value_delimiter = ',')]
    pub only: Vec<String>,
    /// Version to make in a gallery of Azure instead of a managed image
    #[arg(long, value_name = "GALLERY/DEFINITION/VERSION")]
    pub gallery: Option<String>,
    /// Replicas of the gallery's version in each region [default: 1]
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u32).range(1..=100))]
    pub replicas: Option<u32>,
    /// Regions that get a copy of the AMI, or the gallery's version, separated by commas
    #[arg(long, value_name = "REGION", value_delimiter = ',')]
    pub copy_to: Vec<String>,
    /// AWS accounts that may start the AMI, separated by commas
    #[arg(long, value_name = "ACCOUNT", value_delimiter = ',')]
    pub share: Vec<String>,
    /// Property of an image in OpenStack; may be repeated
    ///
    /// Such as hw_scsi_model=virtio-scsi. With an empty value one of winimg's own is left out.
    #[arg(long, value_name = "NAME=VALUE")]
    pub property: Vec<String>,
    /// Template to make in a vCenter's inventory of the OVA: a name, or /DATACENTER/vm/FOLDER/NAME
    ///
    /// Of datacenters, clusters and datastores the one is taken that vCenter has, where it has no others.
    #[arg(long, value_name = "[FOLDER/]NAME")]
    pub template: Option<String>,
    /// Cluster for the template, or a resource pool of it
    #[arg(long, value_name = "CLUSTER[/POOL]")]
    pub cluster: Option<String>,
    /// Datastore for the template
    #[arg(long, value_name = "NAME")]
    pub datastore: Option<String>,
    /// Network that the template's card is in [default: vCenter's choice]
    #[arg(long, value_name = "NAME")]
    pub network: Option<String>,
    /// Show what would be sent; send nothing
    #[arg(long)]
    pub dry_run: bool,
    /// Replace other files, or another image under the same tag
    #[arg(long)]
    pub replace: bool,
}

#[derive(Debug, Args)]
pub struct Verify {
    /// Disk image (raw, qcow2, VHD, VHDX, VMDK, OVA, VMA), or a build's manifest.json to check every artifact it lists
    pub file: PathBuf,
    /// Manifest that says what the image must contain
    ///
    /// Without it only the checks that fit every image are made.
    #[arg(long, value_name = "FILE")]
    pub manifest: Option<PathBuf>,
    /// Public key the manifest and provenance must be signed with
    ///
    /// Minisign, or EC P-256 in PEM; a file, or the key itself.
    #[arg(long, value_name = "KEY")]
    pub key: Option<String>,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Args)]
pub struct Try {
    /// Disk image (raw, qcow2, VHD, VHDX, VMDK, OVA), or a build's output folder or manifest.json to try what it lists
    pub file: PathBuf,
    /// Target to start clones as; may be repeated [default: the manifest's targets]
    ///
    /// `winimg targets` lists them.
    #[arg(long = "as", value_name = "TARGET")]
    pub targets: Vec<String>,
    /// Manifest that says what clones must hold
    ///
    /// Without it only what fits every image is checked.
    #[arg(long, value_name = "FILE")]
    pub manifest: Option<PathBuf>,
    /// Folder for pages, results and screens [default: try, beside the file]
    #[arg(long, short, value_name = "DIR")]
    pub output: Option<PathBuf>,
    /// File with the user data that each clone is given, as its target's platform would
    ///
    /// They may hold secrets, such as the token of a join: nothing that is written or shown has them.
    #[arg(long, value_name = "FILE", help_heading = "Clones")]
    pub user_data: Option<PathBuf>,
    /// What clones reach beside their metadata
    #[arg(long, value_enum, default_value_t = ReachArg::Isolated, help_heading = "Clones")]
    pub network: ReachArg,
    #[command(flatten)]
    pub patience: PatienceArgs,
    #[command(flatten)]
    pub hypervisor: HypervisorArgs,
    /// Processors of a clone
    #[arg(long, value_name = "COUNT", default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..=64), help_heading = "Virtual machine")]
    pub cpus: u32,
    /// Memory of a clone
    #[arg(long, value_name = "SIZE", default_value = "4GiB", value_parser = quantity::size, help_heading = "Virtual machine")]
    pub memory: u64,
    /// Accelerator to run the clones with [default: auto]
    #[arg(long, value_enum, help_heading = "Virtual machine")]
    pub accel: Option<AccelArg>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ReachArg {
    /// Nothing
    Isolated,
    /// The host and what it reaches, by address translation
    Nat,
}

impl From<ReachArg> for Network {
    fn from(arg: ReachArg) -> Self {
        match arg {
            ReachArg::Isolated => Self::Isolated,
            ReachArg::Nat => Self::Nat,
        }
    }
}

/// How long clones are given.
#[derive(Clone, Copy, Debug, Args)]
pub struct PatienceArgs {
    /// How long nothing may move on a clone until it counts as settled
    #[arg(long, value_name = "DURATION", default_value = "2m", value_parser = quantity::duration, help_heading = "Clones")]
    pub settle: Duration,
    /// How long each boot of a clone may take, with hardware acceleration
    #[arg(long, value_name = "DURATION", default_value = "1h", value_parser = quantity::duration, help_heading = "Clones")]
    pub boot_timeout: Duration,
}

/// What signs the records.
#[derive(Debug, Args)]
#[command(next_help_heading = "Signing")]
pub struct SignArgs {
    /// Secret key that signs: minisign, or EC P-256 in PEM
    ///
    /// May be repeated, once for each kind. WINIMG_SIGN_KEY holds the key itself instead of a file's name;
    /// WINIMG_SIGN_PASSWORD holds the password of a minisign key.
    #[arg(long = "sign-key", value_name = "FILE")]
    pub keys: Vec<PathBuf>,
    /// Program that signs: reads bytes from stdin, prints an ECDSA P-256 signature
    ///
    /// The signature is DER in base64. The program is run without a shell: words are split at blanks, '…' and "…" keep them
    /// together.
    #[arg(long = "sign-command", value_name = "COMMAND", requires = "public_key")]
    pub command: Option<String>,
    /// Public key of --sign-command, in PEM
    #[arg(long = "sign-public-key", value_name = "FILE", requires = "command")]
    pub public_key: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub struct Sign {
    /// A build's manifest.json, with its provenance beside it, or a recipe's NAME.lock
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    #[command(flatten)]
    pub sign: SignArgs,
}

#[derive(Debug, Args)]
pub struct Report {
    /// Output folder of a build, good or failed; it may have come from another host
    #[arg(value_name = "DIR")]
    pub folder: PathBuf,
    /// File to write [default: report.html in the folder]
    #[arg(long, short, value_name = "FILE")]
    pub output: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub struct Diff {
    /// The older one: an output folder, a manifest.json or a disk image
    pub a: PathBuf,
    /// The newer one
    pub b: PathBuf,
    /// Print JSON
    ///
    /// `winimg schema diff` prints its schema.
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Args)]
pub struct Inspect {
    /// Windows ISO, disk image or manifest.json to describe
    ///
    /// A manifest is shown in short: --json prints all of it.
    pub file: PathBuf,
    /// Show how much room each folder of the Windows volume takes
    ///
    /// Of a disk image, or as a build recorded it: its output folder, manifest.json or disk-usage.json.
    #[arg(long)]
    pub usage: bool,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Args)]
pub struct Doctor {
    /// Recipe to compare this host with
    pub recipe: Option<PathBuf>,
    /// Print JSON (`winimg schema doctor`)
    #[arg(long)]
    pub json: bool,
    /// Output folder that the build will have [default: out]
    #[arg(long, short, value_name = "DIR")]
    pub output: Option<PathBuf>,
    #[command(flatten)]
    pub hypervisor: HypervisorArgs,
    /// Accelerator to check [default: auto]
    #[arg(long, value_enum, help_heading = "Virtual machine")]
    pub accel: Option<AccelArg>,
}
