//! Exports of small disks, judged by other programs: qemu-img, openssl, tar, xmllint.

mod ami;
mod blocks;
mod boxes;
mod disks;
mod faults;
pub mod fixture;
mod formats;
mod layers;
mod ova;
mod real_ovf;
mod security;
mod shrink;
mod virtual_disks;
mod vma;
mod vsphere;
