//! The commands about a recipe's inputs, and the flags for the lock and the network.

use std::path::PathBuf;

use clap::Args;
use clap::builder::Resettable;

use super::{RecipeArgs, SharedCacheArgs};

/// Selects the lock file.
#[derive(Debug, Default, Args)]
#[command(next_help_heading = "Inputs")]
pub struct LockFileArgs {
    /// Lock file to use [default: NAME.lock beside NAME.toml, if it exists]
    #[arg(long, value_name = "FILE", conflicts_with = "no_lock")]
    pub lock: Option<PathBuf>,
    /// Ignore the lock file
    #[arg(long)]
    pub no_lock: bool,
    /// Matrix that the recipe is a variant of; each variant has its own lock
    #[arg(long, value_name = "MATRIX", hide = true)]
    pub variant_of: Option<PathBuf>,
}

/// Network access.
#[derive(Debug, Args)]
#[command(next_help_heading = "Inputs")]
pub struct NetworkArgs {
    /// Do not use the network
    ///
    /// An input that is neither in the cache nor a local file is an error.
    #[arg(
        long,
        env = "WINIMG_OFFLINE",
        value_parser = clap::builder::FalseyValueParser::new()
    )]
    pub offline: bool,
}

#[derive(Debug, Args)]
pub struct PinArgs {
    /// Download and show the digests; do not change the recipe
    #[arg(long)]
    pub dry_run: bool,
    #[command(flatten)]
    pub recipe: RecipeArgs,
    /// Inputs to pin, such as kubelet or media.virtio [default: every input without a digest or
    /// signature]
    ///
    /// An input named here is pinned even if it is marked `unverified`.
    #[arg(value_name = "INPUT", help_heading = Resettable::Reset)]
    pub inputs: Vec<String>,
    #[command(flatten)]
    pub network: NetworkArgs,
}

#[derive(Debug, Args)]
pub struct LockArgs {
    /// Upgrade all components, or only this one, to the latest listed version; may be repeated
    ///
    /// Stays within the series (1.36 of 1.36.4), as `winimg outdated` lists it. The new versions
    /// are written into the recipe, with new digests where it pins digests. An input named here
    /// that has no version list is resolved again, as with --refresh.
    #[arg(long, value_name = "NAME", num_args = 0..=1, default_missing_value = "")]
    pub upgrade: Vec<String>,
    /// Upgrade this component to the newest version, even of another series; may be repeated
    #[arg(long, value_name = "NAME")]
    pub newest: Vec<String>,
    /// Re-resolve this input; may be repeated
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
    /// Also accepts a lock that is older than one used here before.
    #[arg(long)]
    pub allow_rollback: bool,
    #[command(flatten)]
    pub recipe: RecipeArgs,
    #[command(flatten)]
    pub network: NetworkArgs,
}

#[derive(Debug, Args)]
pub struct FetchArgs {
    /// Print JSON
    #[arg(long)]
    pub json: bool,
    /// Accept a lock that is older than one used here before
    #[arg(long)]
    pub allow_rollback: bool,
    #[command(flatten)]
    pub recipe: RecipeArgs,
    #[command(flatten)]
    pub lock: LockFileArgs,
    #[command(flatten)]
    pub network: NetworkArgs,
    #[command(flatten)]
    pub shared: SharedCacheArgs,
}

#[derive(Debug, Args)]
pub struct BundleArgs {
    /// File to write
    #[arg(long, value_name = "FILE.tar")]
    pub to: PathBuf,
    /// Accept a lock that is older than one used here before
    #[arg(long)]
    pub allow_rollback: bool,
    #[command(flatten)]
    pub recipe: RecipeArgs,
    #[command(flatten)]
    pub lock: LockFileArgs,
    #[command(flatten)]
    pub network: NetworkArgs,
}

#[derive(Debug, Args)]
pub struct OutdatedArgs {
    /// Print JSON
    #[arg(long)]
    pub json: bool,
    /// Also check that every URL of the recipe still exists
    ///
    /// Requests the headers of all files, checksum files, signatures and lists. Exits with status
    /// 14 if one is gone.
    #[arg(long)]
    pub urls: bool,
    #[command(flatten)]
    pub recipe: RecipeArgs,
}
