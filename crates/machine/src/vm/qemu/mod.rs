//! QEMU backend.
//!
//! `platform` has its row in the table of hypervisors, `doctor` its checks of a host. `program` and
//! `firmware` find the installed files, `canary` and `accel_choice` select the accelerator, `args`
//! builds the command line, `process`, `qmp` and `commands` control QEMU, `tpm` controls swtpm, and
//! `running` implements the driver. Downloads and configures nothing.

#[cfg(unix)]
mod accel_cache;
#[cfg(unix)]
pub mod accel_choice;
#[cfg(unix)]
pub mod args;
#[cfg(unix)]
pub mod canary;
#[cfg(unix)]
mod commands;
pub mod doctor;
#[cfg(unix)]
pub mod events;
#[cfg(unix)]
pub mod firmware;
#[cfg(unix)]
pub mod firmware_log;
#[cfg(unix)]
mod hypervisor;
pub mod platform;
#[cfg(unix)]
pub mod process;
#[cfg(unix)]
pub mod program;
#[cfg(unix)]
pub mod qmp;
#[cfg(unix)]
pub mod rundir;
#[cfg(unix)]
mod running;
#[cfg(unix)]
pub mod tpm;

#[cfg(unix)]
pub use self::hypervisor::QemuHypervisor;
