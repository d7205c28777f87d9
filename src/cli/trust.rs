//! `winimg trust`: what this host trusts beside the keys of recipes.

use std::path::PathBuf;

use clap::{Args, Subcommand};

#[derive(Debug, Subcommand)]
pub enum Trust {
    /// Refresh Sigstore's trust root from its TUF repository
    ///
    /// Written to trust/trusted_root.json beside the user's configuration file; keyless signatures are judged by it from then
    /// on where a recipe names no trusted_root.
    Update(TrustUpdate),
}

#[derive(Debug, Args)]
pub struct TrustUpdate {
    /// TUF repository to ask [default: Sigstore's public good instance]
    #[arg(long, value_name = "URL", requires = "to")]
    pub url: Option<String>,
    /// First root metadata that is trusted, of the repository at --url
    #[arg(long, value_name = "FILE", requires = "url")]
    pub root: Option<PathBuf>,
    /// File to write instead, for `trusted_root` in recipes
    ///
    /// What was seen of the repository is kept beside it, in FILE.tuf.
    #[arg(long, value_name = "FILE")]
    pub to: Option<PathBuf>,
}
