//! What winimg's tests share: servers, media, disks and hives that are made by hand, and the one rule for skipped tests.
//!
//! It depends on no crate of winimg: the tests of each of them can use it, and what it makes is not judged by the code that made it.

pub mod archives;
pub mod complaints;
pub mod difference;
pub mod docker_registry;
pub mod evtx;
pub mod golden;
pub mod hive;
pub mod killed;
pub mod media;
pub mod ntfs;
pub mod planted;
pub mod real;
pub mod registry;
pub mod rows;
pub mod screens;
pub mod server;
pub mod skip;
pub mod tree;
pub mod udf;
pub mod unreliable;
pub mod vhdx;
pub mod vma;
pub mod watch;
pub mod windows_disk;
pub mod windows_exe;
