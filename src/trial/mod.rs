//! The first boot of a finished image: two clones as a platform would start them, and what came of them.
//!
//! Never writes the image. Refuses an image whose firmware the target's machines have not. What QEMU can't show of a target is said in
//! the result's remarks and in docs/try.md.

#[cfg(unix)]
mod clone;
pub mod compare;
#[cfg(unix)]
pub mod hardware;
#[cfg(unix)]
mod hidden;
#[cfg(unix)]
mod identity;
pub mod judge;
pub mod metadata;
pub mod page;
#[cfg(unix)]
mod request;
pub mod result;
#[cfg(unix)]
mod run;
pub mod state;
pub mod user_data;

/// What the two clones are called. Names of Windows computers have at most 15 characters.
pub const HOST_NAMES: [&str; 2] = ["winimg-try-1", "winimg-try-2"];

#[cfg(unix)]
pub use request::Request;
#[cfg(unix)]
pub use run::{failed, firmware, page_of, remove_earlier, run};
