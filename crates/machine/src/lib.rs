//! Virtual machines and their guests.
//!
//! Decides nothing about what a recipe does in a guest.

pub mod guest;
pub mod host;
pub mod vm;
