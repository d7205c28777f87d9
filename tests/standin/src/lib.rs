//! Stand-in.
pub mod windows;
