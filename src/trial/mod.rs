//! Trial boots of a finished image: starts two clones the way a platform would, and judges them.
//!
//! Never writes to the image. Rejects an image whose firmware the target does not support. The
//! result's remarks and docs/try.md list the parts of a target that QEMU cannot reproduce.

#[cfg(unix)]
mod clone;
pub mod compare;
#[cfg(unix)]
pub mod hardware;
#[cfg(unix)]
mod identity;
pub mod judge;
pub mod metadata;
pub mod page;
#[cfg(unix)]
mod redaction;
#[cfg(unix)]
mod request;
pub mod result;
#[cfg(unix)]
mod run;
pub mod state;
pub mod user_data;

/// Names of the two clones. Windows computer names have at most 15 characters.
pub const HOST_NAMES: [&str; 2] = ["winimg-try-1", "winimg-try-2"];

#[cfg(unix)]
pub use request::TrialRequest;
#[cfg(unix)]
pub use run::{detect_firmware, failed_trials_error, page_path, remove_earlier, run};
