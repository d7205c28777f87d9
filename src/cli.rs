//! The command line: what can be typed, and what each word means.
//!
//! Parses and nothing else; `cmd` carries out.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand, ValueEnum};

use crate::build::Layers;
use crate::recipe::quantity;
use crate::vm::Accel;

/// Builds Windows Kubernetes node images from a recipe. The guest needs no network.
#[derive(Debug, Parser)]
#[command(name = "winimg", version, propagate_version = true)]
pub struct Cli {
    #[command(subcommand)]
    pub command: Command,

    /// How events are told on standard error
    #[arg(long, global = true, value_enum, default_value_t = LogFormat::Text, env = "WINIMG_LOG_FORMAT")]
    pub log_format: LogFormat,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    /// Lines for people; a progress line when it is a terminal
    Text,
    /// One JSON object a line
    Json,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Write a recipe to start from
    Init(Init),
    /// Check a recipe without touching network or machine
    Validate(Validate),
    /// Show the effective recipe, where each value came from, and the exact guest commands
    Plan(Plan),
    /// Build the image: install Windows, run the steps, seal, export
    Build(Box<Build>),
    /// Open a shell into the guest of a build that waits
    Attach(Attach),
    /// Show the screen of a running build's machine
    Screen(Screen),
    /// Fetch what nothing proves yet, show it, and write its digest into the recipe (trust on first use)
    Pin(Pin),
    /// Ask for every input once and write down what it is: recipe.lock
    Lock(Lock),
    /// Bring everything that a build needs into the cache, and nothing else
    Fetch(Fetch),
    /// Put recipe, lock and every input into one file that builds without a network
    Bundle(Bundle),
    /// Look at what the cache keeps, and take away what is no longer used
    Cache {
        #[command(subcommand)]
        command: Cache,
    },
    /// Write other formats from a finished image (any that winimg reads)
    Export(Export),
    /// Check a finished image without starting it
    Verify(Verify),
    /// Sign the manifest and the provenance of a build that is finished
    Sign(Sign),
    /// Look into a Windows ISO, a disk image or a manifest
    Inspect(Inspect),
    /// Look at this host: QEMU, firmware and acceleration, or Hyper-V
    Doctor(Doctor),
    /// Print a JSON Schema: the manifest's, or the recipe's for an editor
    Schema {
        #[arg(value_enum, default_value_t = Schema::Manifest)]
        of: Schema,
    },
    /// Print a completion script
    Completions { shell: clap_complete::Shell },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Schema {
    Manifest,
    Recipe,
}

#[derive(Debug, Args)]
pub struct Init {
    /// One of winimg's recipes to build on (capi-ova, capi-azure, …), or the file to write
    #[arg(default_value = "recipe.toml")]
    pub recipe: PathBuf,
    /// The file to write with one of winimg's recipes; `my-NAME.toml` unless given
    pub file: Option<PathBuf>,
}

/// What changes a recipe from the command line.
#[derive(Debug, Args)]
pub struct RecipeArgs {
    /// The recipe, or a bundle
    pub recipe: PathBuf,
    /// Set a variable; may be repeated, the last one wins (also WINIMG_VAR_NAME)
    #[arg(long = "var", value_name = "NAME=VALUE")]
    pub vars: Vec<String>,
    /// Read image-builder's variables; those that the recipe does not declare are passed over
    #[arg(long = "image-builder-vars", value_name = "FILE")]
    pub image_builder_vars: Vec<PathBuf>,
    /// Read variables from a TOML or JSON file; the recipe must declare them
    #[arg(long = "var-file", value_name = "FILE")]
    pub var_files: Vec<PathBuf>,
    /// Set any value of the recipe, such as components.kubelet.url=…
    #[arg(long = "set", value_name = "PATH=VALUE")]
    pub set: Vec<String>,
}

/// Which lock is obeyed.
#[derive(Debug, Default, Args)]
pub struct LockArgs {
    /// The lock to obey; NAME.lock beside the recipe NAME.toml, where there is one, unless given
    #[arg(long, value_name = "FILE", conflicts_with = "no_lock")]
    pub lock: Option<PathBuf>,
    /// Pass over the lock
    #[arg(long)]
    pub no_lock: bool,
}

/// A cache in an OCI registry that several machines share.
#[derive(Debug, Default, Args)]
pub struct SharedCacheArgs {
    /// Ask a shared cache, such as oci://registry.example.com/team/winimg-cache, before anyone else
    #[arg(long, value_name = "ADDRESS", env = "WINIMG_CACHE_REMOTE")]
    pub cache_remote: Option<String>,
}

/// Layers of a shared cache, and what is written to it.
#[derive(Debug, Default, Args)]
pub struct SharedLayersArgs {
    #[command(flatten)]
    pub shared: SharedCacheArgs,
    /// Believe layers that this minisign public key signed, the key itself or a file; may be repeated. Also keys in
    /// WINIMG_CACHE_KEY
    #[arg(long = "cache-key", value_name = "KEY")]
    pub cache_keys: Vec<String>,
    /// Give layers and inputs to the shared cache, too
    #[arg(long, requires = "cache_remote")]
    pub cache_push: bool,
    /// Sign layers for --cache-push with this minisign secret key. Also the key's text in WINIMG_CACHE_SIGN_KEY; its
    /// password in WINIMG_SIGN_PASSWORD
    #[arg(long, value_name = "FILE")]
    pub cache_sign_key: Option<PathBuf>,
}

/// Whether the network is asked.
#[derive(Debug, Args)]
pub struct NetworkArgs {
    /// Ask nothing of a network: what is neither in the cache nor a local file is an error
    #[arg(long, env = "WINIMG_OFFLINE", value_parser = clap::builder::FalseyValueParser::new())]
    pub offline: bool,
}

#[derive(Debug, Args)]
pub struct Pin {
    #[command(flatten)]
    pub recipe: RecipeArgs,
    /// Pin these inputs alone, such as kubelet or media.virtio; also one that is `unverified`. All without a proof unless
    /// given
    #[arg(value_name = "INPUT")]
    pub inputs: Vec<String>,
    /// Fetch and show, and leave the recipe as it is
    #[arg(long)]
    pub dry_run: bool,
    #[command(flatten)]
    pub network: NetworkArgs,
}

#[derive(Debug, Args)]
pub struct Lock {
    #[command(flatten)]
    pub recipe: RecipeArgs,
    /// Ask for this input anew although nothing changed in the recipe; may be repeated
    #[arg(long, value_name = "NAME")]
    pub upgrade: Vec<String>,
    /// Write nothing; end with status 2 if the lock would change
    #[arg(long)]
    pub check: bool,
    /// The lock to write; NAME.lock beside the recipe NAME.toml unless given
    #[arg(long, value_name = "FILE")]
    pub lock: Option<PathBuf>,
    /// Take a lower version than the locked one, or go on from a lock that is older than one that was built with
    #[arg(long)]
    pub allow_rollback: bool,
    #[command(flatten)]
    pub network: NetworkArgs,
}

#[derive(Debug, Args)]
pub struct Fetch {
    #[command(flatten)]
    pub recipe: RecipeArgs,
    #[command(flatten)]
    pub lock: LockArgs,
    #[command(flatten)]
    pub network: NetworkArgs,
    #[command(flatten)]
    pub shared: SharedCacheArgs,
}

#[derive(Debug, Args)]
pub struct Bundle {
    #[command(flatten)]
    pub recipe: RecipeArgs,
    /// The file to write
    #[arg(long, value_name = "FILE.tar")]
    pub to: PathBuf,
    #[command(flatten)]
    pub lock: LockArgs,
    #[command(flatten)]
    pub network: NetworkArgs,
}

#[derive(Debug, Subcommand)]
pub enum Cache {
    /// List layers, files and leftovers, with size and last use
    Ls(CacheLs),
    /// Tell each part of a recipe's build whether a layer holds it, and why not
    Explain(CacheExplain),
    /// Remove leftovers and, where it is said, what was not used for long or is too much; never what a lock names or a
    /// running build uses
    Prune(CachePrune),
}

#[derive(Debug, Args)]
pub struct CacheLs {
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Args)]
pub struct CacheExplain {
    #[command(flatten)]
    pub recipe: RecipeArgs,
    #[command(flatten)]
    pub lock: LockArgs,
    #[command(flatten)]
    pub hypervisor: HypervisorArgs,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Args)]
pub struct CachePrune {
    /// Remove what was not used for this long, such as 30d or 12h
    #[arg(long, value_name = "TIME", value_parser = quantity::duration)]
    pub older_than: Option<Duration>,
    /// Remove the least lately used until what stays is not larger, such as 50GiB
    #[arg(long, value_name = "SIZE", value_parser = quantity::size)]
    pub max_size: Option<u64>,
    /// Remove nothing; say what would be removed
    #[arg(long)]
    pub dry_run: bool,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Args)]
pub struct Validate {
    #[command(flatten)]
    pub recipe: RecipeArgs,
    #[command(flatten)]
    pub lock: LockArgs,
}

#[derive(Debug, Args)]
pub struct Plan {
    #[command(flatten)]
    pub recipe: RecipeArgs,
    #[command(flatten)]
    pub lock: LockArgs,
    #[command(flatten)]
    pub hypervisor: HypervisorArgs,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Args)]
pub struct Build {
    #[command(flatten)]
    pub recipe: RecipeArgs,
    #[command(flatten)]
    pub lock: LockArgs,
    /// Build with a lock that is older than one that was built with before; the manifest says so
    #[arg(long)]
    pub allow_rollback: bool,
    #[command(flatten)]
    pub network: NetworkArgs,
    #[command(flatten)]
    pub shared: SharedLayersArgs,
    /// Where the artifacts go; out/NAME of the recipe unless given
    #[arg(long, short, value_name = "DIR")]
    pub output: Option<PathBuf>,
    /// The accelerator; auto tries the better ones with a boot canary
    #[arg(long, value_enum, default_value_t = AccelArg::Auto)]
    pub accel: AccelArg,
    /// What to do with the machine, its disk and working files after a failure
    #[arg(long, value_enum, default_value_t = OnError::Cleanup)]
    pub on_error: OnError,
    /// Which layers are sealed, so that a later build goes on from the last one that is still right
    #[arg(long, value_enum, default_value_t = LayersArg::Auto)]
    pub layers: LayersArg,
    /// Install Windows and run every step, although layers or a finished image are there
    #[arg(long)]
    pub fresh: bool,
    /// Read the built-in Administrator's password from a file (also WINIMG_ADMIN_PASSWORD); random unless given
    #[arg(long, value_name = "FILE")]
    pub admin_password_file: Option<PathBuf>,
    /// With --on-error keep, ask or --break: how long to wait for a person at most, such as 30m or 2h. Without a terminal,
    /// `keep` leaves the machine running only with this
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    pub keep_for: Option<Duration>,
    /// Stop before this step, by its name or its number, with the machine running; may be repeated
    #[arg(long = "break", value_name = "STEP")]
    pub breaks: Vec<String>,
    /// Stop before every step
    #[arg(long)]
    pub debug: bool,
    /// Export the sealed disk without looking whether it is what the recipe says
    #[arg(long)]
    pub no_verify: bool,
    #[command(flatten)]
    pub sign: SignArgs,
    /// A URI for whoever answers for this machine; the provenance names it. A workstation unless given
    #[arg(long, value_name = "URI", env = "WINIMG_BUILDER_ID")]
    pub builder_id: Option<String>,
    #[command(flatten)]
    pub hypervisor: HypervisorArgs,
}

/// What machines run on.
#[derive(Debug, Args)]
pub struct HypervisorArgs {
    /// `qemu` or, on Windows, `hyperv`. A layer of the one is none of the other
    #[arg(long, value_name = "NAME", default_value = DEFAULT_HYPERVISOR)]
    pub hypervisor: String,
}

const DEFAULT_HYPERVISOR: &str = if cfg!(windows) { "hyperv" } else { "qemu" };

/// What signs the records.
#[derive(Debug, Args)]
pub struct SignArgs {
    /// Sign manifest and provenance with a minisign secret key or an EC P-256 key in PEM; one of each kind. Also the
    /// key's text in WINIMG_SIGN_KEY; the password of an encrypted minisign key in WINIMG_SIGN_PASSWORD
    #[arg(long = "sign-key", value_name = "FILE")]
    pub keys: Vec<PathBuf>,
    /// Sign with a program: it reads bytes from standard input and prints an ECDSA P-256 signature, DER in base64. Words
    /// are split at blanks, '…' and "…" keep them together; no shell
    #[arg(long = "sign-command", value_name = "COMMAND", requires = "public_key")]
    pub command: Option<String>,
    /// The public key of --sign-command, in PEM
    #[arg(long = "sign-public-key", value_name = "FILE", requires = "command")]
    pub public_key: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub struct Sign {
    /// A build's manifest.json; its provenance lies beside it
    pub manifest: PathBuf,
    #[command(flatten)]
    pub sign: SignArgs,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum OnError {
    /// Keep screens and logs, remove the disk
    Cleanup,
    /// Keep everything, and say where it is; on a terminal, or with --keep-for, the machine runs until Ctrl-C
    Keep,
    /// Ask on the terminal: try the step again, a shell into the guest, keep, or clean up
    Ask,
}

fn duration(text: &str) -> Result<Duration, String> {
    crate::recipe::duration(text)
}

/// Which running build.
#[derive(Debug, Args)]
pub struct Attach {
    /// The build's output directory; the only running build unless given
    pub dir: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub struct Screen {
    /// The build's output directory; the only running build unless given
    pub dir: Option<PathBuf>,
    /// Write a PNG instead of drawing on the terminal
    #[arg(long, value_name = "FILE")]
    pub png: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum LayersArg {
    /// After the installation, after restarts and `checkpoint` steps, and after a minute of steps
    Auto,
    /// After every step too
    Each,
    /// None, and none is used
    None,
}

impl From<LayersArg> for Layers {
    fn from(arg: LayersArg) -> Self {
        match arg {
            LayersArg::Auto => Self::Auto,
            LayersArg::Each => Self::Each,
            LayersArg::None => Self::None,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum AccelArg {
    Auto,
    Kvm,
    Tcg,
    Whpx,
    Hvf,
}

impl From<AccelArg> for Accel {
    fn from(arg: AccelArg) -> Self {
        match arg {
            AccelArg::Auto => Self::Auto,
            AccelArg::Kvm => Self::Kvm,
            AccelArg::Tcg => Self::Tcg,
            AccelArg::Whpx => Self::Whpx,
            AccelArg::Hvf => Self::Hvf,
        }
    }
}

#[derive(Debug, Args)]
pub struct Export {
    /// The finished image
    pub image: PathBuf,
    /// Comma-separated: raw, vhd, ova, ami, qcow2
    #[arg(long, value_delimiter = ',', required = true)]
    pub to: Vec<Format>,
    /// Where the artifacts go; beside the image unless given
    #[arg(long, short, value_name = "DIR")]
    pub output: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Format {
    Raw,
    Vhd,
    Ova,
    Ami,
    Qcow2,
}

#[derive(Debug, Args)]
pub struct Verify {
    /// A disk image (raw, qcow2, VHD, VMDK, OVA), or a build's manifest.json: then every artifact that it lists
    pub file: PathBuf,
    /// The manifest that says what an image has to hold; without it, only what holds for every image is checked
    #[arg(long, value_name = "FILE")]
    pub manifest: Option<PathBuf>,
    /// Whose signatures the manifest and the provenance must have: a public key of minisign, or of EC P-256 in PEM; a
    /// file, or the key itself
    #[arg(long, value_name = "KEY")]
    pub key: Option<String>,
}

#[derive(Debug, Args)]
pub struct Inspect {
    pub file: PathBuf,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Args)]
pub struct Doctor {
    #[arg(long, value_enum, default_value_t = AccelArg::Auto)]
    pub accel: AccelArg,
    #[command(flatten)]
    pub hypervisor: HypervisorArgs,
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    #[test]
    fn the_command_line_is_sound() {
        super::Cli::command().debug_assert();
    }
}
