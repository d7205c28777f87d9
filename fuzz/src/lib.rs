//! The parsers of foreign bytes, each behind a function that takes any bytes: a publisher's file, a medium, a disk that a
//! guest wrote, a recipe.
//!
//! A target goes through winimg's own entry points only. It has to end soon, in little memory and without a panic, and
//! what it unpacks or reads has to keep the promises that the entry point makes.

pub mod ground;
pub mod seal;
mod targets;

pub use targets::signatures::{LISTED, SIGNED};
pub use targets::signed::INSIDE;

/// A parser, by the name that `fuzz/run.sh` takes.
pub struct Target {
    pub name: &'static str,
    /// Whether the bytes were understood to their end: the seeds have to be.
    pub run: fn(&[u8]) -> bool,
    /// Bytes of the longest input that is tried.
    pub longest: usize,
}

const KIB: usize = 1 << 10;

/// In the order of the table that `fuzz/run.sh` prints.
pub const TARGETS: &[Target] = &[
    new("authenticode", targets::signatures::authenticode, 64 * KIB),
    new("catalog", targets::signatures::catalog, 16 * KIB),
    new("certificates", targets::signatures::certificates, 16 * KIB),
    new("cms", targets::signatures::cms, 16 * KIB),
    new("cosign", targets::signatures::cosign, 16 * KIB),
    new("minisign", targets::signatures::minisign, 4 * KIB),
    new("openpgp", targets::signatures::openpgp, 16 * KIB),
    new("signed-text", targets::signatures::signed_text, 16 * KIB),
    new("signify", targets::signatures::signify, 4 * KIB),
    new("sigstore", targets::signatures::sigstore, 32 * KIB),
    new("signed-inside", targets::signed::inside, 4 * KIB),
    new("signed-beside", targets::signed::beside_file, 4 * KIB),
    new("keys", targets::signatures::keys, 16 * KIB),
    new("checksum", targets::texts::checksum, 8 * KIB),
    new("recipe", targets::texts::recipe, 16 * KIB),
    new("answer-file", targets::texts::answer_file, 32 * KIB),
    new("driver-inf", targets::texts::driver_inf, 16 * KIB),
    new("zip", targets::archives::zip, 16 * KIB),
    new("tar", targets::archives::tar, 32 * KIB),
    new("packed-tar", targets::archives::packed, 16 * KIB),
    new("ova", targets::disks::ova, 160 * KIB),
    new("iso", targets::media::iso, 160 * KIB),
    new("udf", targets::media::udf, 4 * KIB),
    new("wim", targets::media::wim, 32 * KIB),
    new("gpt", targets::disks::gpt, 48 * KIB),
    new("ntfs", targets::disks::ntfs, 4 * KIB),
    new("vhd", targets::disks::vhd, 4 * KIB),
    new("vhdx", targets::disks::vhdx, 4 * KIB),
    new("vmdk", targets::disks::vmdk, 4 * KIB),
    new("vma", targets::disks::vma, 4 * KIB),
    new("hive", targets::guest::hive, 48 * KIB),
    new("evtx", targets::guest::evtx, 72 * KIB),
    new("security", targets::guest::security, 4 * KIB),
    new("metadata", targets::metadata::request, 24 * KIB),
];

const fn new(name: &'static str, run: fn(&[u8]) -> bool, longest: usize) -> Target {
    Target { name, run, longest }
}

pub fn target(name: &str) -> Option<&'static Target> {
    TARGETS.iter().find(|t| t.name == name)
}
