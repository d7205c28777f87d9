//! `winimg cache`, and the shared cache.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand, ValueEnum};

use super::{HypervisorArgs, LockFileArgs, RecipeArgs};
use winimg_recipe::quantity;

/// A shared cache in an OCI registry.
#[derive(Debug, Default, Args)]
#[command(next_help_heading = "Shared cache")]
pub struct SharedCacheArgs {
    /// OCI registry to try first, such as oci://registry.example.com/team/winimg-cache
    #[arg(long, value_name = "ADDRESS", env = "WINIMG_CACHE_REMOTE")]
    pub cache_remote: Option<String>,
}

/// Signed layers of a shared cache, and uploads to it.
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
    pub cache_push: Option<CachePushMode>,
    /// Minisign secret key that signs the uploaded layers
    ///
    /// Or set WINIMG_CACHE_SIGN_KEY to the key itself. WINIMG_SIGN_PASSWORD is its password.
    #[arg(long, value_name = "FILE")]
    pub cache_sign_key: Option<PathBuf>,
}

/// Severity of a failed upload.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum CachePushMode {
    /// A failed upload is a warning
    Try,
    /// The build fails if its finished disk is not in the shared cache afterwards
    Required,
}

#[derive(Debug, Subcommand)]
pub enum CacheCommand {
    /// List layers, files and leftovers, with size and last use
    Ls(CacheLsArgs),
    /// Show which parts of a recipe's build are cached and why others are stale
    Explain(CacheExplainArgs),
    /// Remove leftovers, and old or excess layers and files
    ///
    /// Always removes the leftovers of dead builds; --older-than and --max-size select more. Files
    /// that a lock names or a running build uses are never removed.
    Prune(CachePruneArgs),
}

#[derive(Debug, Args)]
pub struct CacheLsArgs {
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Args)]
pub struct CacheExplainArgs {
    /// Print JSON
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub recipe: RecipeArgs,
    #[command(flatten)]
    pub lock: LockFileArgs,
    #[command(flatten)]
    pub hypervisor: HypervisorArgs,
}

#[derive(Debug, Args)]
pub struct CachePruneArgs {
    /// Remove items not used for this long, such as 30d or 12h
    #[arg(long, value_name = "TIME", value_parser = quantity::parse_duration)]
    pub older_than: Option<Duration>,
    /// Remove the least recently used items until the cache is at most this large, such as 50GiB
    #[arg(long, value_name = "SIZE", value_parser = quantity::size)]
    pub max_size: Option<u64>,
    /// Remove nothing; show what would be removed
    #[arg(long)]
    pub dry_run: bool,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}
