//! Reads and writes the formats of disks and media.
//!
//! Bytes in, values out: no format knows about recipes. Input that is not understood is refused.

pub mod archive;
mod bytes;
pub mod disk;
pub mod driver;
pub mod evtx;
pub mod hive;
pub mod iso;
pub mod udf;
pub mod wim;
