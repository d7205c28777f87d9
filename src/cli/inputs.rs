//! The commands about a recipe's inputs, and where inputs come from: the lock and the network.

use std::path::PathBuf;

use clap::Args;
use clap::builder::Resettable;

use super::{RecipeArgs, SharedCacheArgs};

/// Which lock is used.
#[derive(Debug, Default, Args)]
#[command(next_help_heading = "Inputs")]
pub struct LockArgs {
    /// Lock file to use [default: NAME.lock beside NAME.toml, if it exists]
    #[arg(long, value_name = "FILE", conflicts_with = "no_lock")]
    pub lock: Option<PathBuf>,
    /// Ignore the lock file
    #[arg(long)]
    pub no_lock: bool,
    /// The matrix that the recipe is read for: its variants have locks of their own
    #[arg(long, value_name = "MATRIX", hide = true)]
    pub variant_of: Option<PathBuf>,
}

/// Whether the network is used.
#[derive(Debug, Args)]
#[command(next_help_heading = "Inputs")]
pub struct NetworkArgs {
    /// Do not use the network
    ///
    /// An input that is neither in the cache nor a local file is an error.
    #[arg(long, env = "WINIMG_OFFLINE", value_parser = clap::builder::FalseyValueParser::new())]
    pub offline: bool,
}

#[derive(Debug, Args)]
pub struct Pin {
    /// Download and show; do not change the recipe
    #[arg(long)]
    pub dry_run: bool,
    #[command(flatten)]
    pub recipe: RecipeArgs,
    /// Inputs to pin, such as kubelet or media.virtio [default: every input without a proof]
    ///
    /// An input that is named is pinned even if it is marked `unverified`.
    #[arg(value_name = "INPUT", help_heading = Resettable::Reset)]
    pub inputs: Vec<String>,
    #[command(flatten)]
    pub network: NetworkArgs,
}

#[derive(Debug, Args)]
pub struct Lock {
    /// Take the later versions that publishers list: of all components, or of this one; may be repeated
    ///
    /// Within a series (1.36 of 1.36.4), as `winimg outdated` lists them. They are written into the recipe, with new digests where
    /// it pins digests. An input that is named and has no list of versions is resolved again, as by --refresh.
    #[arg(long, value_name = "NAME", num_args = 0..=1, default_missing_value = "")]
    pub upgrade: Vec<String>,
    /// Take the newest version of this component, also of another series; may be repeated
    #[arg(long, value_name = "NAME")]
    pub newest: Vec<String>,
    /// Resolve this input again although the recipe did not change; may be repeated
    #[arg(long, value_name = "NAME")]
    pub refresh: Vec<String>,
    /// Write nothing; exit with status 2 if the lock would change
    #[arg(long)]
    pub check: bool,
    /// Lock file to write [default: NAME.lock beside NAME.toml]
    #[arg(long, value_name = "FILE")]
    pub lock: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
    /// Accept a lower version than the locked one
    ///
    /// Also accepts a lock that is older than one that was used here before.
    #[arg(long)]
    pub allow_rollback: bool,
    #[command(flatten)]
    pub recipe: RecipeArgs,
    #[command(flatten)]
    pub network: NetworkArgs,
}

#[derive(Debug, Args)]
pub struct Fetch {
    /// Print JSON
    #[arg(long)]
    pub json: bool,
    /// Use a lock that is older than one that was used here before
    #[arg(long)]
    pub allow_rollback: bool,
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
    /// File to write
    #[arg(long, value_name = "FILE.tar")]
    pub to: PathBuf,
    /// Use a lock that is older than one that was used here before
    #[arg(long)]
    pub allow_rollback: bool,
    #[command(flatten)]
    pub recipe: RecipeArgs,
    #[command(flatten)]
    pub lock: LockArgs,
    #[command(flatten)]
    pub network: NetworkArgs,
}

#[derive(Debug, Args)]
pub struct Outdated {
    /// Print JSON
    #[arg(long)]
    pub json: bool,
    /// Also look whether every address of the recipe is still there
    ///
    /// The files, checksum files, signatures and lists are asked for without their content. Exits with status 14 if one is gone.
    #[arg(long)]
    pub urls: bool,
    #[command(flatten)]
    pub recipe: RecipeArgs,
}
