//! `winimg build`, and the commands about a running build.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use super::{
    AccelArg, CloneTimeoutArgs, HypervisorArgs, LockFileArgs, NetworkArgs, RecipeArgs,
    SharedLayersArgs, SigningArgs,
};
use crate::engine::LayerPolicy;
use crate::engine::pause::OnError;
use winimg_recipe::quantity;

#[derive(Debug, Args)]
pub struct BuildArgs {
    #[command(flatten)]
    pub recipe: RecipeArgs,
    #[command(flatten)]
    pub lock: LockFileArgs,
    /// Accept a lock that is older than one used by an earlier build
    ///
    /// Recorded in the manifest.
    #[arg(long, help_heading = "Inputs")]
    pub allow_rollback: bool,
    #[command(flatten)]
    pub network: NetworkArgs,
    /// Output folder [default: out/NAME, by the recipe's name]
    #[arg(long, short, value_name = "DIR", help_heading = "Output")]
    pub output: Option<PathBuf>,
    /// Print the result as JSON
    #[arg(long, help_heading = "Output")]
    pub json: bool,
    /// Export the sealed disk without verifying it
    #[arg(long, help_heading = "Output")]
    pub no_verify: bool,
    /// Also boot two clones per target, and fail the build if one does not come up
    ///
    /// Runs `winimg try` for each of the recipe's targets before the records are written; the
    /// manifest records the result.
    #[arg(long = "try", help_heading = "Output")]
    pub tries: bool,
    #[command(flatten)]
    pub patience: CloneTimeoutArgs,
    /// Builder URI recorded in the SLSA provenance [default: urn:winimg:workstation]
    #[arg(
        long,
        value_name = "URI",
        env = "WINIMG_BUILDER_ID",
        help_heading = "Output"
    )]
    pub builder_id: Option<String>,
    #[command(flatten)]
    pub sign: SigningArgs,
    #[command(flatten)]
    pub hypervisor: HypervisorArgs,
    /// Accelerator to run the VM with [default: auto]
    #[arg(long, value_enum, help_heading = "Virtual machine")]
    pub accel: Option<AccelArg>,
    /// File with the built-in Administrator's password [default: a random one]
    ///
    /// Also read from WINIMG_ADMIN_PASSWORD.
    #[arg(long, value_name = "FILE", help_heading = "Virtual machine")]
    pub admin_password_file: Option<PathBuf>,
    /// When to save layers, from which later builds resume
    #[arg(long, value_enum, default_value_t = LayerPolicy::Auto, help_heading = "Cache")]
    pub layers: LayerPolicy,
    /// Ignore cached layers and outputs; rebuild from scratch
    #[arg(long, help_heading = "Cache")]
    pub fresh: bool,
    /// Take the finished disk from a cache or fail; start no VM
    ///
    /// For a job that publishes an image built by another job.
    #[arg(long, help_heading = "Cache", conflicts_with_all = ["fresh", "breaks", "debug"])]
    pub from_cache: bool,
    #[command(flatten)]
    pub shared: SharedLayersArgs,
    /// Handling of the VM, its disk and working files after a failure
    #[arg(
        long,
        value_enum,
        default_value_t = OnError::Cleanup,
        help_heading = "Debugging"
    )]
    pub on_error: OnError,
    /// Pause before this step (its name or number) with the VM running; may be repeated
    #[arg(long = "break", value_name = "STEP", help_heading = "Debugging")]
    pub breaks: Vec<String>,
    /// Pause before every step
    #[arg(long, help_heading = "Debugging")]
    pub debug: bool,
    /// Time that a paused build waits for you, such as 30m or 2h
    ///
    /// For --on-error keep or ask, --break and --debug. Without a terminal, `keep` leaves the VM
    /// running only with this.
    #[arg(
        long,
        value_name = "DURATION",
        value_parser = quantity::parse_duration,
        help_heading = "Debugging"
    )]
    pub keep_for: Option<Duration>,
}

/// Selects a paused build.
#[derive(Debug, Args)]
pub struct AttachArgs {
    /// The build's output folder [default: the only running build]
    pub dir: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub struct ScreenArgs {
    /// The build's output folder [default: the only running build]
    pub dir: Option<PathBuf>,
    /// Write a PNG instead of drawing on the terminal
    #[arg(long, value_name = "FILE")]
    pub png: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub struct WatchArgs {
    /// The build's output folder [default: all running builds on this host]
    pub dir: Option<PathBuf>,
    /// Port on 127.0.0.1 [default: any free port]
    ///
    /// For a tunnel: ssh -L 8080:127.0.0.1:8080 HOST winimg watch --port 8080
    #[arg(long, default_value_t = 0, hide_default_value = true)]
    pub port: u16,
}
