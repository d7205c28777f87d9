//! The command line: what can be typed, and what each word means.
//!
//! Parses and nothing else; `cmd` carries out. A flag's first line is a plain statement and is all that `-h` shows; what
//! follows a blank line is for `--help`.

mod build;
mod cache;
mod groups;
mod image;
mod inputs;
mod matrix;
mod names;
mod recipe;
mod trust;
mod unknown;

use clap::{CommandFactory as _, FromArgMatches as _, Parser, Subcommand, ValueEnum};

pub use self::build::{Attach, Build, Screen, Watch};
pub use self::cache::{
    Cache, CacheExplain, CacheLs, CachePrune, CachePush, SharedCacheArgs, SharedLayersArgs,
};
pub use self::image::{
    Diff, Doctor, Export, Format, Inspect, PatienceArgs, Publish, Report, Sign, SignArgs, Try,
    Verify,
};
pub use self::inputs::{Bundle, Fetch, Lock, LockArgs, NetworkArgs, Outdated, Pin};
pub use self::matrix::{
    Matrix, MatrixArgs, MatrixBuild, MatrixLock, MatrixPlan, MatrixRender, MatrixReport,
};
pub use self::names::typed;
pub use self::recipe::{AccelArg, HypervisorArgs, Init, Plan, RecipeArgs, Targets, Validate};
pub use self::trust::{Trust, TrustUpdate};

/// Builds Windows Kubernetes node images from a recipe. The guest needs no network.
#[derive(Debug, Parser)]
#[command(name = "winimg", version, propagate_version = true)]
pub struct Cli {
    #[command(subcommand)]
    pub command: Command,

    /// Configuration file of this host to read instead of the user's and the system's; `none` reads none
    ///
    /// Otherwise /etc/winimg/config.toml and then ~/.config/winimg/config.toml are read, on Windows %APPDATA%\\winimg\\config.toml.
    /// Flags and the environment win over what they say. `winimg doctor` shows it.
    #[arg(
        long,
        global = true,
        value_name = "FILE",
        env = "WINIMG_CONFIG",
        help_heading = "Configuration"
    )]
    pub config: Option<std::ffi::OsString>,

    /// Format of progress and error output on stderr
    #[arg(long, global = true, value_enum, default_value_t = LogFormat::Text, env = "WINIMG_LOG_FORMAT", help_heading = "Logging")]
    pub log_format: LogFormat,

    /// Also log decisions to stderr; -vv: every exchange with QEMU and the guest
    ///
    /// WINIMG_LOG selects parts, such as winimg_supply=trace. Not with --log-format json.
    #[arg(long, short, global = true, action = clap::ArgAction::Count, help_heading = "Logging")]
    pub verbose: u8,

    /// Print no progress: only warnings, errors and the result
    #[arg(
        long,
        short,
        global = true,
        conflicts_with = "verbose",
        help_heading = "Logging"
    )]
    pub quiet: bool,
}

/// What was typed; ends the process with a message where that is no command.
pub fn parse() -> Cli {
    let matches = groups::grouped(Cli::command()).try_get_matches();
    matches
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

/// The commands; `groups` says under which heading each one stands in `winimg --help`.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Write a recipe to start from
    Init(Init),
    /// Check a recipe; downloads nothing and starts no VM
    Validate(Validate),
    /// Show what a build would do; starts no VM
    ///
    /// Prints the effective recipe, where each value comes from, what is cached, and the exact guest commands.
    Plan(Plan),
    /// List the platforms an image can be for, or show the rules of one
    ///
    /// A recipe names its targets: target = ["vsphere"]. validate and plan judge it by their rules, and try starts clones as they
    /// would.
    Targets(Targets),
    /// Build an image: install Windows, run the steps, seal, export
    Build(Box<Build>),
    /// Plan, lock and build many variants from one file
    Matrix {
        #[command(subcommand)]
        command: Matrix,
    },
    /// Show builds in a browser on this host while they run
    ///
    /// Serves each build's page on 127.0.0.1, with the screen of its VM, and prints the address, which holds a token. Ctrl-C ends it.
    Watch(Watch),
    /// Open a shell in the guest of a paused build
    Attach(Attach),
    /// Show the screen of a running build's VM
    Screen(Screen),
    /// Write the digests of unpinned inputs into the recipe
    ///
    /// Downloads every input that has no digest, checksum or signature yet, shows what came, and writes its SHA-256 into the
    /// recipe (trust on first use).
    Pin(Pin),
    /// Resolve every input and pin its size and digest in recipe.lock
    Lock(Lock),
    /// Download every input of a build into the cache; starts no VM
    Fetch(Fetch),
    /// Show which pinned versions have successors
    ///
    /// Reads the publishers' own lists, which the recipe or its packs name under `versions`. Exits with status 13 if there is a later
    /// version.
    Outdated(Outdated),
    /// Pack recipe, lock and inputs into one file for an offline build
    Bundle(Bundle),
    /// List, explain or prune cached layers and downloads
    Cache {
        #[command(subcommand)]
        command: Cache,
    },
    /// Convert a finished image to other formats
    Export(Export),
    /// Send a finished image to a bucket, a server or a registry
    ///
    /// Shows what is there and what is sent, sends it, and records it in published.json beside the manifest. What is there already is
    /// not sent again.
    Publish(Publish),
    /// Check a finished image without booting it
    Verify(Verify),
    /// Start two clones of an image as a platform would, and check them
    ///
    /// Each clone is a throw-away machine with the target's hardware and metadata, on a network that holds nothing else, and is
    /// started twice. Then their disks are read: Setup and the agent have to be done, and the two have to be two machines. The
    /// image is not changed. Results go to try/TARGET.html, a page for people, and try/TARGET.json.
    Try(Try),
    /// Write a build's page, report.html, again from its output folder
    ///
    /// A build writes it itself, good or failed. The folder may have been moved to another host; nothing in it is changed but the page.
    Report(Report),
    /// Sign the records of a finished build, or a recipe's lock
    Sign(Sign),
    /// Show what differs between two builds or images
    ///
    /// A build's output folder or manifest.json is compared by its records: components, files, registry values, services and settings of
    /// steps, targets, artifact sizes, size by folder. A disk image is read: its services, Windows packages and folders, and the
    /// manifest beside it that lists it. Ends with 0 where nothing differs, with 12 where something does.
    Diff(Diff),
    /// Describe a Windows ISO, a disk image or a manifest
    Inspect(Inspect),
    /// Check this host: hypervisor, programs, room, memory, clock
    ///
    /// Each lack comes with the line that mends it on this system. Shows which configuration files were read, and what they set.
    Doctor(Doctor),
    /// Refresh what keyless signatures are judged by
    Trust {
        #[command(subcommand)]
        command: Trust,
    },
    /// Print the JSON Schema of a file that winimg reads or writes
    Schema {
        /// Which schema to print
        #[arg(value_enum, default_value_t = Schema::Manifest)]
        of: Schema,
    },
    /// One connection of a clone to its metadata: what `try` has QEMU start
    #[command(hide = true)]
    Relay {
        /// The socket of the metadata's server
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
pub enum Schema {
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
