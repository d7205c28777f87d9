//! The command line: commands, flags and their help.
//!
//! Only parses; `cmd` runs the commands. `-h` shows only the first line of a flag's help; the text
//! after the blank line is for `--help`.

mod build;
mod cache;
mod groups;
mod image;
mod inputs;
mod matrix;
mod names;
mod publish;
mod recipe;
mod trust;
mod unknown;

use clap::{CommandFactory as _, FromArgMatches as _, Parser, Subcommand, ValueEnum};

pub use self::build::{AttachArgs, BuildArgs, ScreenArgs, WatchArgs};
pub use self::cache::{
    CacheCommand, CacheExplainArgs, CacheLsArgs, CachePruneArgs, CachePushMode, SharedCacheArgs,
    SharedLayersArgs,
};
pub use self::image::{
    CloneTimeoutArgs, DiffArgs, DoctorArgs, ExportArgs, InspectArgs, ReportArgs, SignArgs,
    SigningArgs, TryArgs, VerifyArgs,
};
pub use self::inputs::{
    BundleArgs, FetchArgs, LockArgs, LockFileArgs, NetworkArgs, OutdatedArgs, PinArgs,
};
pub use self::matrix::{
    MatrixArgs, MatrixBuildArgs, MatrixCommand, MatrixLockArgs, MatrixPlanArgs, MatrixRenderArgs,
    MatrixReportArgs,
};
pub use self::names::quote_command_line;
pub use self::publish::PublishArgs;
pub use self::recipe::{
    AccelArg, HypervisorArgs, InitArgs, PlanArgs, RecipeArgs, TargetsArgs, ValidateArgs,
};
pub use self::trust::{TrustCommand, TrustUpdateArgs};

/// Builds Windows Kubernetes node images from a recipe. The guest needs no network.
#[derive(Debug, Parser)]
#[command(name = "winimg", version, propagate_version = true)]
pub struct Cli {
    #[command(subcommand)]
    pub command: CliCommand,

    /// Configuration file of this host to read instead of the user's and the system's; `none` reads
    /// none
    ///
    /// By default reads /etc/winimg/config.toml and then ~/.config/winimg/config.toml; on Windows,
    /// %APPDATA%\\winimg\\config.toml. Flags and environment variables override it. `winimg doctor`
    /// shows what is set.
    #[arg(
        long,
        global = true,
        value_name = "FILE",
        env = "WINIMG_CONFIG",
        help_heading = "Configuration"
    )]
    pub config: Option<std::ffi::OsString>,

    /// Format of progress and error output on stderr
    #[arg(
        long,
        global = true,
        value_enum,
        default_value_t = LogFormat::Text,
        env = "WINIMG_LOG_FORMAT",
        help_heading = "Logging"
    )]
    pub log_format: LogFormat,

    /// Also log decisions to stderr; -vv: every exchange with QEMU and the guest
    ///
    /// WINIMG_LOG filters by module, such as winimg_supply=trace. Not with --log-format json.
    #[arg(long, short, global = true, action = clap::ArgAction::Count, help_heading = "Logging")]
    pub verbose: u8,

    /// Print only warnings, errors and the result; no progress
    #[arg(
        long,
        short,
        global = true,
        conflicts_with = "verbose",
        help_heading = "Logging"
    )]
    pub quiet: bool,
}

/// Parses the command line; exits with a message if it is invalid.
pub fn parse() -> Cli {
    groups::group_commands(Cli::command())
        .try_get_matches()
        .and_then(|matches| Cli::from_arg_matches(&matches))
        .unwrap_or_else(|error| unknown::with_tip(error).exit())
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    /// Lines of text, with a progress line on a terminal, and groups on GitHub and GitLab
    Text,
    /// One JSON object per line
    Json,
}

/// The commands; `groups` puts each one under a heading in `winimg --help`.
#[derive(Debug, Subcommand)]
pub enum CliCommand {
    /// Write a recipe to start from
    Init(InitArgs),
    /// Check a recipe; downloads nothing and starts no VM
    Validate(ValidateArgs),
    /// Show what a build would do; starts no VM
    ///
    /// Prints the effective recipe, where each value comes from, what is cached, and the exact
    /// guest commands.
    Plan(PlanArgs),
    /// List the platforms to build images for, or show the rules of one
    ///
    /// A recipe names its targets: target = ["vsphere"]. `validate` and `plan` check it against
    /// their rules, and `try` boots clones with their hardware and metadata.
    Targets(TargetsArgs),
    /// Build an image: install Windows, run the steps, seal, export
    Build(Box<BuildArgs>),
    /// Plan, lock and build many variants from one file
    Matrix {
        #[command(subcommand)]
        command: MatrixCommand,
    },
    /// Show builds in a browser on this host while they run
    ///
    /// Serves each build's page, with the screen of its VM, on 127.0.0.1 and prints the address,
    /// which includes a token. Ctrl-C stops it.
    Watch(WatchArgs),
    /// Open a shell in the guest of a paused build
    Attach(AttachArgs),
    /// Show the screen of a running build's VM
    Screen(ScreenArgs),
    /// Write the digests of unpinned inputs into the recipe
    ///
    /// Downloads every input that has no digest, checksum or signature yet, shows what was
    /// downloaded, and writes its SHA-256 into the recipe (trust on first use).
    Pin(PinArgs),
    /// Resolve every input and pin its size and digest in recipe.lock
    Lock(LockArgs),
    /// Download every input of a build into the cache; starts no VM
    Fetch(FetchArgs),
    /// Show which pinned versions have successors
    ///
    /// Reads the publishers' own version lists, which the recipe or its packs name under
    /// `versions`. Exits with status 13 if there is a later version.
    Outdated(OutdatedArgs),
    /// Pack recipe, lock and inputs into one file for an offline build
    Bundle(BundleArgs),
    /// List, explain or prune cached layers and downloads
    Cache {
        #[command(subcommand)]
        command: CacheCommand,
    },
    /// Convert a finished image to other formats
    Export(ExportArgs),
    /// Upload a finished image to a bucket, a server or a registry
    ///
    /// Lists what is there already and what is to be uploaded, uploads it, and records it in
    /// published.json beside the manifest. Files that are there already are not uploaded again.
    Publish(PublishArgs),
    /// Check a finished image without booting it
    Verify(VerifyArgs),
    /// Boot two clones of an image as a platform would, and check them
    ///
    /// Each clone is a throw-away VM with the target's hardware and metadata, on an isolated
    /// network, and is booted twice. Then its disk is checked: Setup and the agent must have
    /// finished, and the two clones must have distinct identities. The image is not changed. Writes
    /// try/TARGET.html and try/TARGET.json.
    Try(TryArgs),
    /// Regenerate a build's page, report.html, from its output folder
    ///
    /// Every build writes the page itself, even if it fails. The folder may come from another host;
    /// nothing else in it is changed.
    Report(ReportArgs),
    /// Sign the records of a finished build, or a recipe's lock
    Sign(SignArgs),
    /// Show what differs between two builds or images
    ///
    /// An output folder or manifest.json is compared by its records: components, files, registry
    /// values, services and settings of steps, targets, artifact sizes, size by folder. A disk
    /// image is compared by its services, Windows packages and folders, and by the manifest beside
    /// it that lists it. Exits with 0 if nothing differs, otherwise 12.
    Diff(DiffArgs),
    /// Describe a Windows ISO, a disk image or a manifest
    Inspect(InspectArgs),
    /// Check this host: hypervisor, programs, disk space, memory, clock
    ///
    /// Each missing item is listed with the command that fixes it. Shows which configuration files
    /// were read, and what they set.
    Doctor(DoctorArgs),
    /// Refresh the trust root for keyless signatures
    Trust {
        #[command(subcommand)]
        command: TrustCommand,
    },
    /// Print the JSON Schema of a file that winimg reads or writes
    Schema {
        /// Which schema to print
        #[arg(value_enum, default_value_t = SchemaName::Manifest)]
        of: SchemaName,
    },
    /// Relay one connection from a clone to its metadata server (QEMU runs this for `try`)
    #[command(hide = true)]
    Relay {
        /// Socket of the metadata server
        socket: std::path::PathBuf,
    },
    /// Write manual pages, one for each command
    Man {
        /// Folder to write to, such as /usr/local/share/man/man1
        dir: std::path::PathBuf,
    },
    /// Print a shell completion script
    Completions {
        /// Shell to complete for
        shell: clap_complete::Shell,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum SchemaName {
    Manifest,
    Recipe,
    Matrix,
    Target,
    Try,
    Config,
    Doctor,
    Events,
    DiskUsage,
    Diff,
    Published,
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    #[test]
    fn the_command_line_is_valid() {
        super::Cli::command().debug_assert();
    }
}
