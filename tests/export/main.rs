//! Exports of small disks, judged by other programs: qemu-img, openssl, tar, xmllint.

mod ami;
mod blocks;
mod disks;
mod faults;
mod fixture;
mod formats;
mod layers;
#[path = "../ntfs/mounted.rs"]
mod ntfs;
mod ova;
mod security;
#[path = "../skip/mod.rs"]
mod skip;
