//! `winimg trust`: trust anchors of this host.

use std::path::PathBuf;

use clap::{Args, Subcommand};

#[derive(Debug, Subcommand)]
pub enum TrustCommand {
    /// Refresh Sigstore's trust root from its TUF repository
    ///
    /// Writes trust/trusted_root.json beside the user's configuration file. Keyless signatures are
    /// checked against it unless a recipe names a `trusted_root`.
    Update(TrustUpdateArgs),
}

#[derive(Debug, Args)]
pub struct TrustUpdateArgs {
    /// TUF repository to use [default: Sigstore's public good instance]
    #[arg(long, value_name = "URL", requires = "to")]
    pub url: Option<String>,
    /// Initial trusted root metadata of the repository at --url
    #[arg(long, value_name = "FILE", requires = "url")]
    pub root: Option<PathBuf>,
    /// File to write instead, for `trusted_root` in recipes
    ///
    /// The repository's metadata is kept beside it, in FILE.tuf.
    #[arg(long, value_name = "FILE")]
    pub to: Option<PathBuf>,
}
