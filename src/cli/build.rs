//! `winimg build`, and what is done with a build that runs.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use super::{
    AccelArg, HypervisorArgs, LockArgs, NetworkArgs, PatienceArgs, RecipeArgs, SharedLayersArgs,
    SignArgs,
};
use crate::engine::Layers;
use crate::engine::pause::OnError;
use winimg_recipe::recipe::quantity;

#[derive(Debug, Args)]
pub struct Build {
    #[command(flatten)]
    pub recipe: RecipeArgs,
    #[command(flatten)]
    pub lock: LockArgs,
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
    /// Start two clones as each of the recipe's targets before the records are written
    ///
    /// As `winimg try` does. A clone that does not come up as it should fails the build; the manifest names what was tried.
    #[arg(long = "try", help_heading = "Output")]
    pub tries: bool,
    #[command(flatten)]
    pub patience: PatienceArgs,
    /// Builder URI recorded in the SLSA provenance [default: urn:winimg:workstation]
    #[arg(
        long,
        value_name = "URI",
        env = "WINIMG_BUILDER_ID",
        help_heading = "Output"
    )]
    pub builder_id: Option<String>,
    #[command(flatten)]
    pub sign: SignArgs,
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
    #[arg(long, value_enum, default_value_t = Layers::Auto, help_heading = "Cache")]
    pub layers: Layers,
    /// Ignore cached layers and outputs; rebuild from scratch
    #[arg(long, help_heading = "Cache")]
    pub fresh: bool,
    /// Take the finished disk from a cache or fail; start no machine
    ///
    /// For a job that publishes what another one has built.
    #[arg(long, help_heading = "Cache", conflicts_with_all = ["fresh", "breaks", "debug"])]
    pub from_cache: bool,
    #[command(flatten)]
    pub shared: SharedLayersArgs,
    /// What to do with the VM, its disk and working files after a failure
    #[arg(long, value_enum, default_value_t = OnError::Cleanup, help_heading = "Debugging")]
    pub on_error: OnError,
    /// Pause before this step (its name or number) with the VM running; may be repeated
    #[arg(long = "break", value_name = "STEP", help_heading = "Debugging")]
    pub breaks: Vec<String>,
    /// Pause before every step
    #[arg(long, help_heading = "Debugging")]
    pub debug: bool,
    /// How long a paused build waits for you, such as 30m or 2h
    ///
    /// For --on-error keep or ask, --break and --debug. Without a terminal, `keep` leaves the VM running only with this.
    #[arg(long, value_name = "DURATION", value_parser = quantity::duration, help_heading = "Debugging")]
    pub keep_for: Option<Duration>,
}

/// Which paused build.
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

#[derive(Debug, Args)]
pub struct Watch {
    /// The build's output folder [default: all builds that run on this host]
    pub dir: Option<PathBuf>,
    /// Port on 127.0.0.1 [default: any that is free]
    ///
    /// For a tunnel: ssh -L 8080:127.0.0.1:8080 HOST winimg watch --port 8080
    #[arg(long, default_value_t = 0, hide_default_value = true)]
    pub port: u16,
}
