//! The command line: what can be typed, and what each word means.
//!
//! Parses and nothing else; `cmd` carries out.

mod unknown;

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand, ValueEnum};

use crate::engine::Layers;
use winimg_machine::vm::Accel;
use winimg_recipe::recipe::quantity;

/// Builds Windows Kubernetes node images from a recipe. The guest needs no network.
#[derive(Debug, Parser)]
#[command(name = "winimg", version, propagate_version = true)]
pub struct Cli {
    #[command(subcommand)]
    pub command: Command,

    /// Format of progress and error output on stderr
    #[arg(long, global = true, value_enum, default_value_t = LogFormat::Text, env = "WINIMG_LOG_FORMAT")]
    pub log_format: LogFormat,
}

/// What was typed; ends the process with a message where that is no command.
pub fn parse() -> Cli {
    Cli::try_parse().unwrap_or_else(|error| unknown::with_tip(error).exit())
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    /// Lines for people, with a progress line on a terminal
    Text,
    /// One JSON object per line
    Json,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Write a recipe to start from
    Init(Init),
    /// Check a recipe; fetches nothing and starts no VM
    Validate(Validate),
    /// Show the effective recipe, where each value came from, and the exact guest commands
    Plan(Plan),
    /// Build the image: install Windows, run the steps, seal, export
    Build(Box<Build>),
    /// Open a shell in the guest of a paused build
    Attach(Attach),
    /// Show the screen of a running build's VM
    Screen(Screen),
    /// Fetch what nothing proves yet, show it, and write its digest into the recipe (trust on first use)
    Pin(Pin),
    /// Resolve every input and pin its size and digest in recipe.lock
    Lock(Lock),
    /// Download every input of a build into the cache; starts no VM
    Fetch(Fetch),
    /// Pack recipe, lock and every input into one file that builds without a network
    Bundle(Bundle),
    /// List what the cache holds, and remove what is no longer used
    Cache {
        #[command(subcommand)]
        command: Cache,
    },
    /// Convert a finished image to other formats
    Export(Export),
    /// Check a finished image without booting it
    Verify(Verify),
    /// Sign the manifest and the provenance of a finished build
    Sign(Sign),
    /// Describe a Windows ISO, a disk image or a manifest
    Inspect(Inspect),
    /// Check what this host offers: QEMU, firmware and acceleration, or Hyper-V
    Doctor(Doctor),
    /// Print the JSON Schema of the manifest, or of recipes (for editors)
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
    /// The file to write with one of winimg's recipes [default: my-NAME.toml]
    pub file: Option<PathBuf>,
}

/// What changes a recipe from the command line.
#[derive(Debug, Args)]
pub struct RecipeArgs {
    /// The recipe or a bundle; `-` reads a recipe from stdin (not for build, lock, pin and bundle)
    pub recipe: PathBuf,
    /// Set a variable; may be repeated, the last one wins (also as WINIMG_VAR_NAME)
    #[arg(long = "var", value_name = "NAME=VALUE")]
    pub vars: Vec<String>,
    /// Read image-builder's variables; those that the recipe does not declare are ignored
    #[arg(long = "image-builder-vars", value_name = "FILE")]
    pub image_builder_vars: Vec<PathBuf>,
    /// Read variables from a TOML or JSON file; the recipe must declare them
    #[arg(long = "var-file", value_name = "FILE")]
    pub var_files: Vec<PathBuf>,
    /// Set any value of the recipe, such as components.kubelet.url=…
    #[arg(long = "set", value_name = "PATH=VALUE")]
    pub set: Vec<String>,
}

/// Which lock is used.
#[derive(Debug, Default, Args)]
pub struct LockArgs {
    /// The lock to use [default: NAME.lock beside NAME.toml, if there is one]
    #[arg(long, value_name = "FILE", conflicts_with = "no_lock")]
    pub lock: Option<PathBuf>,
    /// Ignore the lock
    #[arg(long)]
    pub no_lock: bool,
}

/// A cache in an OCI registry that several machines share.
#[derive(Debug, Default, Args)]
pub struct SharedCacheArgs {
    /// Look in a shared cache first, such as oci://registry.example.com/team/winimg-cache
    #[arg(long, value_name = "ADDRESS", env = "WINIMG_CACHE_REMOTE")]
    pub cache_remote: Option<String>,
}

/// Layers of a shared cache, and what is written to it.
#[derive(Debug, Default, Args)]
pub struct SharedLayersArgs {
    #[command(flatten)]
    pub shared: SharedCacheArgs,
    /// Trust layers signed with this minisign public key, given as the key itself or a file; may be repeated. Also
    /// WINIMG_CACHE_KEY
    #[arg(long = "cache-key", value_name = "KEY")]
    pub cache_keys: Vec<String>,
    /// Also upload layers and inputs to the shared cache
    #[arg(long, requires = "cache_remote")]
    pub cache_push: bool,
    /// Sign the layers of --cache-push with this minisign secret key. Also WINIMG_CACHE_SIGN_KEY, which holds the key
    /// itself; its password is read from WINIMG_SIGN_PASSWORD
    #[arg(long, value_name = "FILE")]
    pub cache_sign_key: Option<PathBuf>,
}

/// Whether the network is used.
#[derive(Debug, Args)]
pub struct NetworkArgs {
    /// Use no network: an input that is neither in the cache nor a local file is an error
    #[arg(long, env = "WINIMG_OFFLINE", value_parser = clap::builder::FalseyValueParser::new())]
    pub offline: bool,
}

#[derive(Debug, Args)]
pub struct Pin {
    #[command(flatten)]
    pub recipe: RecipeArgs,
    /// Pin only these inputs, such as kubelet or media.virtio, even if marked `unverified` [default: every input without a
    /// proof]
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
    /// Resolve this input again although nothing changed in the recipe; may be repeated
    #[arg(long, value_name = "NAME")]
    pub upgrade: Vec<String>,
    /// Write nothing; exit with status 2 if the lock would change
    #[arg(long)]
    pub check: bool,
    /// The lock to write [default: NAME.lock beside NAME.toml]
    #[arg(long, value_name = "FILE")]
    pub lock: Option<PathBuf>,
    /// Accept a lower version than the locked one, or a lock that is older than one used by an earlier build
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
    /// Show which parts of a recipe's build a layer holds, and why the others are stale
    Explain(CacheExplain),
    /// Remove leftovers and, with --older-than or --max-size, what was not used lately; never what a lock names or a
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
    /// Remove the least recently used until the cache is no larger than this, such as 50GiB
    #[arg(long, value_name = "SIZE", value_parser = quantity::size)]
    pub max_size: Option<u64>,
    /// Remove nothing; show what would be removed
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
    /// Accept a lock that is older than one used by an earlier build; recorded in the manifest
    #[arg(long)]
    pub allow_rollback: bool,
    #[command(flatten)]
    pub network: NetworkArgs,
    #[command(flatten)]
    pub shared: SharedLayersArgs,
    /// Output folder [default: out/NAME, by the recipe's name]
    #[arg(long, short, value_name = "DIR")]
    pub output: Option<PathBuf>,
    /// Accelerator; auto tests the faster ones with a short boot first
    #[arg(long, value_enum, default_value_t = AccelArg::Auto)]
    pub accel: AccelArg,
    /// What to do with the VM, its disk and working files after a failure
    #[arg(long, value_enum, default_value_t = OnError::Cleanup)]
    pub on_error: OnError,
    /// When to seal layers, from which later builds resume
    #[arg(long, value_enum, default_value_t = LayersArg::Auto)]
    pub layers: LayersArg,
    /// Ignore cached layers and outputs; rebuild from scratch
    #[arg(long)]
    pub fresh: bool,
    /// File with the built-in Administrator's password (also WINIMG_ADMIN_PASSWORD) [default: a random one]
    #[arg(long, value_name = "FILE")]
    pub admin_password_file: Option<PathBuf>,
    /// With --on-error keep, ask or --break: the longest wait for a person, such as 30m or 2h. Without a terminal, `keep`
    /// leaves the VM running only with this
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    pub keep_for: Option<Duration>,
    /// Pause before this step (its name or number) with the VM running; may be repeated
    #[arg(long = "break", value_name = "STEP")]
    pub breaks: Vec<String>,
    /// Pause before every step
    #[arg(long)]
    pub debug: bool,
    /// Export the sealed disk without verifying it
    #[arg(long)]
    pub no_verify: bool,
    #[command(flatten)]
    pub sign: SignArgs,
    /// Builder URI recorded in the SLSA provenance [default: urn:winimg:workstation]
    #[arg(long, value_name = "URI", env = "WINIMG_BUILDER_ID")]
    pub builder_id: Option<String>,
    #[command(flatten)]
    pub hypervisor: HypervisorArgs,
}

/// What VMs run on.
#[derive(Debug, Args)]
pub struct HypervisorArgs {
    /// Hypervisor to build on, `qemu` or, on Windows, `hyperv`. Cached layers are not shared between hypervisors
    #[arg(long, value_name = "NAME", default_value = DEFAULT_HYPERVISOR)]
    pub hypervisor: String,
}

const DEFAULT_HYPERVISOR: &str = if cfg!(windows) { "hyperv" } else { "qemu" };

/// What signs the records.
#[derive(Debug, Args)]
pub struct SignArgs {
    /// Sign manifest and provenance with a minisign secret key or an EC P-256 key in PEM; one of each kind. Also
    /// WINIMG_SIGN_KEY, which holds the key itself; the password of a minisign key is read from WINIMG_SIGN_PASSWORD
    #[arg(long = "sign-key", value_name = "FILE")]
    pub keys: Vec<PathBuf>,
    /// Sign with a program that reads bytes from stdin and prints an ECDSA P-256 signature (DER in base64). Run without a
    /// shell: words are split at blanks, '…' and "…" keep them together
    #[arg(long = "sign-command", value_name = "COMMAND", requires = "public_key")]
    pub command: Option<String>,
    /// The public key of --sign-command, in PEM
    #[arg(long = "sign-public-key", value_name = "FILE", requires = "command")]
    pub public_key: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub struct Sign {
    /// A build's manifest.json, with its provenance beside it
    pub manifest: PathBuf,
    #[command(flatten)]
    pub sign: SignArgs,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum OnError {
    /// Keep screens and logs, remove the disk
    Cleanup,
    /// Keep everything, and print where it is; on a terminal, or with --keep-for, the VM runs until Ctrl-C
    Keep,
    /// Ask on the terminal: retry the step, open a shell in the guest, keep, or clean up
    Ask,
}

fn duration(text: &str) -> Result<Duration, String> {
    winimg_recipe::recipe::duration(text)
}

/// Which running build.
#[derive(Debug, Args)]
pub struct Attach {
    /// The build's output folder [default: the only running build]
    pub dir: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub struct Screen {
    /// The build's output folder [default: the only running build]
    pub dir: Option<PathBuf>,
    /// Write a PNG instead of drawing on the terminal
    #[arg(long, value_name = "FILE")]
    pub png: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum LayersArg {
    /// After the installation, after restarts and `checkpoint` steps, and after each minute of steps
    Auto,
    /// After every step as well
    Each,
    /// Do not create or reuse layers
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
    /// The finished image, in any format that winimg reads
    pub image: PathBuf,
    /// Comma-separated: raw, vhd, ova, ami, qcow2
    #[arg(long, value_delimiter = ',', required = true)]
    pub to: Vec<Format>,
    /// Output folder [default: the folder of the image]
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
    /// A disk image (raw, qcow2, VHD, VMDK, OVA), or a build's manifest.json for every artifact that it lists
    pub file: PathBuf,
    /// The manifest that says what the image must contain; without it only the checks that fit every image are made
    #[arg(long, value_name = "FILE")]
    pub manifest: Option<PathBuf>,
    /// Public key the manifest and provenance must be signed with: minisign, or EC P-256 in PEM; a file, or the key
    /// itself
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
