//! The commands about a finished image, its records, and this host.

use std::path::PathBuf;
use std::time::Duration;

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use clap::{Args, ValueEnum};

use super::{AccelArg, HypervisorArgs};
use crate::export;
use crate::trial::result::TrialNetwork;
use winimg_formats::disk::ImageFormat;
use winimg_recipe::{OutputFormat, quantity};

#[derive(Debug, Args)]
pub struct ExportArgs {
    /// Finished image, in any format that winimg reads
    pub image: PathBuf,
    /// Formats to write, separated by commas
    #[arg(long, value_delimiter = ',', required = true, value_parser = output_parser())]
    pub to: Vec<OutputFormat>,
    /// Output folder [default: the folder of the image]
    #[arg(long, short, value_name = "DIR")]
    pub output: Option<PathBuf>,
    /// Manifest of the build that made the image [default: manifest.json beside the image]
    ///
    /// If it lists the image's digest, the CPUs, memory, firmware, disk controller and build time
    /// are taken from it.
    #[arg(long, value_name = "FILE")]
    pub manifest: Option<PathBuf>,
    /// Replace existing files in the output folder, but never the image itself
    #[arg(long)]
    pub replace: bool,
}

/// Parses the name of an output format.
fn output_parser() -> impl TypedValueParser<Value = OutputFormat> {
    let names = OutputFormat::ALL.map(|format| {
        let name = PossibleValue::new(format.name());
        match export::find_spec(format).about {
            "" => name,
            about => name.help(about),
        }
    });
    PossibleValuesParser::new(names).try_map(|name| OutputFormat::from_name(&name).ok_or("unknown"))
}

#[derive(Debug, Args)]
pub struct VerifyArgs {
    #[arg(help = format!(
        "Disk image ({}), or a build's manifest.json to check every artifact it lists",
        ImageFormat::list()
    ))]
    pub file: PathBuf,
    /// Manifest that says what the image must contain
    ///
    /// Without it only checks that apply to every image are made.
    #[arg(long, value_name = "FILE")]
    pub manifest: Option<PathBuf>,
    /// Public key the manifest and provenance must be signed with
    ///
    /// Minisign, or EC P-256 in PEM; the key itself or a file.
    #[arg(long, value_name = "KEY")]
    pub key: Option<String>,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Args)]
pub struct TryArgs {
    #[arg(help = format!(
        "Disk image ({}), or a build's output folder or manifest.json to try its artifacts",
        ImageFormat::list_for_qemu()
    ))]
    pub file: PathBuf,
    /// Target to boot clones as; may be repeated [default: the manifest's targets]
    ///
    /// `winimg targets` lists them.
    #[arg(long = "as", value_name = "TARGET")]
    pub targets: Vec<String>,
    /// Manifest that says what clones must contain
    ///
    /// Without it only checks that apply to every image are made.
    #[arg(long, value_name = "FILE")]
    pub manifest: Option<PathBuf>,
    /// Folder for pages, results and screenshots [default: try, beside the file]
    #[arg(long, short, value_name = "DIR")]
    pub output: Option<PathBuf>,
    /// File with user data for each clone, provided the way its target's platform does
    ///
    /// It may contain secrets, such as a join token; it is never printed or written to the results.
    #[arg(long, value_name = "FILE", help_heading = "Clones")]
    pub user_data: Option<PathBuf>,
    /// Network access of clones besides their metadata
    #[arg(
        long,
        value_enum,
        default_value_t = CloneNetworkArg::Isolated,
        help_heading = "Clones"
    )]
    pub network: CloneNetworkArg,
    #[command(flatten)]
    pub patience: CloneTimeoutArgs,
    #[command(flatten)]
    pub hypervisor: HypervisorArgs,
    /// Processors of a clone
    #[arg(
        long,
        value_name = "COUNT",
        default_value_t = 2,
        value_parser = clap::value_parser!(u32).range(1..=64),
        help_heading = "Virtual machine"
    )]
    pub cpus: u32,
    /// Memory of a clone
    #[arg(
        long,
        value_name = "SIZE",
        default_value = "4GiB",
        value_parser = quantity::size,
        help_heading = "Virtual machine"
    )]
    pub memory: u64,
    /// Accelerator to run the clones with [default: auto]
    #[arg(long, value_enum, help_heading = "Virtual machine")]
    pub accel: Option<AccelArg>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum CloneNetworkArg {
    /// Nothing
    Isolated,
    /// The host and everything it can reach, through NAT
    Nat,
}

impl From<CloneNetworkArg> for TrialNetwork {
    fn from(arg: CloneNetworkArg) -> Self {
        match arg {
            CloneNetworkArg::Isolated => Self::Isolated,
            CloneNetworkArg::Nat => Self::Nat,
        }
    }
}

/// Timeouts of clones.
#[derive(Clone, Copy, Debug, Args)]
pub struct CloneTimeoutArgs {
    /// Idle time after which a clone counts as booted
    #[arg(
        long,
        value_name = "DURATION",
        default_value = "2m",
        value_parser = quantity::parse_duration,
        help_heading = "Clones"
    )]
    pub settle: Duration,
    /// Time limit for each boot of a clone, with hardware acceleration
    #[arg(
        long,
        value_name = "DURATION",
        default_value = "1h",
        value_parser = quantity::parse_duration,
        help_heading = "Clones"
    )]
    pub boot_timeout: Duration,
}

/// Selects the signers of the records.
#[derive(Debug, Args)]
#[command(next_help_heading = "Signing")]
pub struct SigningArgs {
    /// Secret key to sign with: minisign, or EC P-256 in PEM
    ///
    /// May be repeated, once for each kind. Or set WINIMG_SIGN_KEY to the key itself.
    /// WINIMG_SIGN_PASSWORD is the password of a minisign key.
    #[arg(long = "sign-key", value_name = "FILE")]
    pub keys: Vec<PathBuf>,
    /// Program that signs: reads bytes from stdin, prints an ECDSA P-256 signature
    ///
    /// The signature is base64-encoded DER. The program is run without a shell: the command is
    /// split at spaces outside of '…' and "…".
    #[arg(long = "sign-command", value_name = "COMMAND", requires = "public_key")]
    pub command: Option<String>,
    /// Public key of --sign-command, in PEM
    #[arg(long = "sign-public-key", value_name = "FILE", requires = "command")]
    pub public_key: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub struct SignArgs {
    /// A build's manifest.json, with its provenance beside it, or a recipe's NAME.lock
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    #[command(flatten)]
    pub sign: SigningArgs,
}

#[derive(Debug, Args)]
pub struct ReportArgs {
    /// Output folder of a finished or failed build; it may come from another host
    #[arg(value_name = "DIR")]
    pub folder: PathBuf,
    /// File to write [default: report.html in the folder]
    #[arg(long, short, value_name = "FILE")]
    pub output: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub struct DiffArgs {
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
pub struct InspectArgs {
    /// Windows ISO, disk image or manifest.json to describe
    ///
    /// A manifest is summarized; --json prints all of it.
    pub file: PathBuf,
    /// Show disk usage by folder of the Windows volume
    ///
    /// Reads a disk image, or a build's record: its output folder, manifest.json or
    /// disk-usage.json.
    #[arg(long)]
    pub usage: bool,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Args)]
pub struct DoctorArgs {
    /// Recipe to compare this host with
    pub recipe: Option<PathBuf>,
    /// Print JSON (`winimg schema doctor`)
    #[arg(long)]
    pub json: bool,
    /// Output folder of the planned build [default: out]
    #[arg(long, short, value_name = "DIR")]
    pub output: Option<PathBuf>,
    #[command(flatten)]
    pub hypervisor: HypervisorArgs,
    /// Accelerator to check [default: auto]
    #[arg(long, value_enum, help_heading = "Virtual machine")]
    pub accel: Option<AccelArg>,
}
