//! What lies on disks and media, read and written.
//!
//! Bytes in, values out: no format knows what a recipe wants of it. Refuses what it does not understand.

pub mod archive;
mod bytes;
pub mod disk;
pub mod driver;
pub mod evtx;
pub mod hive;
pub mod iso;
pub mod udf;
pub mod wim;
