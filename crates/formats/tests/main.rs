//! Disks, hives and media as other programs make them, and as no program should.

mod disk_extent;
mod disk_hostile;
mod disk_usage;
mod disk_vhdx;
mod disk_vma;
mod drivers;
mod evtx;
mod hive;
mod media_boot;
mod media_damage;
mod media_read;
mod media_udf;
mod media_write;
