//! The targets, by what the bytes are.

pub mod archives;
pub mod disks;
pub mod guest;
pub mod media;
pub mod metadata;
pub mod signatures;
pub mod signed;
pub mod texts;
