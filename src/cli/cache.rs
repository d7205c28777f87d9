//! `winimg cache`, and the cache that machines share.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand, ValueEnum};

use super::{HypervisorArgs, LockArgs, RecipeArgs};
use winimg_recipe::recipe::quantity;

/// A cache in an OCI registry that several machines share.
#[derive(Debug, Default, Args)]
#[command(next_help_heading = "Shared cache")]
pub struct SharedCacheArgs {
    /// OCI registry to look in first, such as oci://registry.example.com/team/winimg-cache
    #[arg(long, value_name = "ADDRESS", env = "WINIMG_CACHE_REMOTE")]
    pub cache_remote: Option<String>,
}

/// Layers of a shared cache, and what is written to it.
#[derive(Debug, Default, Args)]
#[command(next_help_heading = "Shared cache")]
pub struct SharedLayersArgs {
    #[command(flatten)]
    pub shared: SharedCacheArgs,
    /// Minisign public key that layers must be signed with; may be repeated
    ///
    /// The key itself or a file. Also read from WINIMG_CACHE_KEY.
    #[arg(long = "cache-key", value_name = "KEY")]
    pub cache_keys: Vec<String>,
    /// Also upload layers and inputs to the shared cache
    #[arg(
        long,
        value_enum,
        value_name = "HOW",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "try"
    )]
    pub cache_push: Option<CachePush>,
    /// Minisign secret key that signs the uploaded layers
    ///
    /// WINIMG_CACHE_SIGN_KEY holds the key itself instead of a file's name; WINIMG_SIGN_PASSWORD holds its password.
    #[arg(long, value_name = "FILE")]
    pub cache_sign_key: Option<PathBuf>,
}

/// What an upload that fails is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum CachePush {
    /// What could not be uploaded is a warning
    Try,
    /// The build fails when the shared cache does not have its finished disk
    Required,
}

#[derive(Debug, Subcommand)]
pub enum Cache {
    /// List layers, files and leftovers, with size and last use
    Ls(CacheLs),
    /// Show which parts of a recipe's build are cached and why others are stale
    Explain(CacheExplain),
    /// Remove leftovers, and old or excess layers and files
    ///
    /// --older-than and --max-size choose what goes besides the leftovers of dead builds. What a lock names or a running build
    /// uses is never removed.
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
    /// Print JSON
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub recipe: RecipeArgs,
    #[command(flatten)]
    pub lock: LockArgs,
    #[command(flatten)]
    pub hypervisor: HypervisorArgs,
}

#[derive(Debug, Args)]
pub struct CachePrune {
    /// Remove what was not used for this long, such as 30d or 12h
    #[arg(long, value_name = "TIME", value_parser = quantity::duration)]
    pub older_than: Option<Duration>,
    /// Remove the least recently used until the cache is at most this large, such as 50GiB
    #[arg(long, value_name = "SIZE", value_parser = quantity::size)]
    pub max_size: Option<u64>,
    /// Remove nothing; show what would be removed
    #[arg(long)]
    pub dry_run: bool,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}
