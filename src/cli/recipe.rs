//! Flags of the commands that read a recipe.

use std::path::PathBuf;

use clap::builder::Resettable;
use clap::{Args, ValueEnum};

use super::LockFileArgs;
use winimg_machine::vm::{Accel, HypervisorKind};

#[derive(Debug, Args)]
pub struct InitArgs {
    /// Built-in recipe to extend (capi-ova, capi-azure, …), or the file to write
    #[arg(default_value = "recipe.toml")]
    pub recipe: PathBuf,
    /// File to write, with a built-in recipe [default: my-NAME.toml]
    pub file: Option<PathBuf>,
}

/// Selects a recipe and overrides its values.
#[derive(Debug, Default, Args)]
#[command(next_help_heading = "Recipe values")]
pub struct RecipeArgs {
    /// Recipe or bundle to use; `-` reads a recipe from stdin
    ///
    /// build, lock, pin and bundle do not read from stdin.
    #[arg(help_heading = Resettable::Reset)]
    pub recipe: PathBuf,
    /// Set a variable of the recipe
    ///
    /// May be repeated; the last one wins. Also read from the environment, as WINIMG_VAR_NAME.
    #[arg(long = "var", value_name = "NAME=VALUE")]
    pub vars: Vec<String>,
    /// Read variables from a TOML or JSON file
    ///
    /// The recipe must declare them.
    #[arg(long = "var-file", value_name = "FILE")]
    pub var_files: Vec<PathBuf>,
    /// Read image-builder's variables from a JSON file
    ///
    /// Variables that the recipe does not declare are ignored.
    #[arg(long = "image-builder-vars", value_name = "FILE")]
    pub image_builder_vars: Vec<PathBuf>,
    /// Override any value of the recipe, such as components.kubelet.url=…
    #[arg(long = "set", value_name = "PATH=VALUE")]
    pub set: Vec<String>,
}

/// Selects the hypervisor.
#[derive(Debug, Args)]
#[command(next_help_heading = "Virtual machine")]
pub struct HypervisorArgs {
    // The text is that of a doc comment, with the names from the table.
    #[arg(
        long,
        value_name = "NAME",
        help = describe_hypervisors(),
        long_help = format!(
            "{}\n\nCached layers are not shared between hypervisors.",
            describe_hypervisors()
        )
    )]
    pub hypervisor: Option<String>,
}

/// `Hypervisor to run VMs on: qemu, or hyperv (the default on Windows)`
fn describe_hypervisors() -> String {
    let names = HypervisorKind::ALL.map(HypervisorKind::name).join(", or ");
    format!("Hypervisor to run VMs on: {names} (the default on Windows)")
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum AccelArg {
    /// The fastest one that passes a short test boot
    Auto,
    /// Linux
    Kvm,
    /// Emulation: works everywhere, but slowly
    Tcg,
    /// macOS
    Hvf,
}

impl From<AccelArg> for Accel {
    fn from(arg: AccelArg) -> Self {
        match arg {
            AccelArg::Auto => Self::Auto,
            AccelArg::Kvm => Self::Kvm,
            AccelArg::Tcg => Self::Tcg,
            AccelArg::Hvf => Self::Hvf,
        }
    }
}

#[derive(Debug, Args)]
pub struct ValidateArgs {
    #[command(flatten)]
    pub recipe: RecipeArgs,
    #[command(flatten)]
    pub lock: LockFileArgs,
}

#[derive(Debug, Args)]
pub struct PlanArgs {
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
pub struct TargetsArgs {
    /// Show this target in full: its hardware, its rules, and the source of each
    pub name: Option<String>,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}
