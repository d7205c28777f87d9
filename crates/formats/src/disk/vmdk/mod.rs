//! VMDKs in one file: stream-optimised ones, and those in uncompressed grains.

pub mod sparse;
pub mod stream;

use std::path::Path;

use serde_json::Value;

use super::qemu_img;
use crate::bytes::u32_le;
use winimg_base::error::Result;

const MAGIC: &[u8; 4] = b"KDMV";
/// Beginning of a descriptor, whose disk is in other files.
const DESCRIPTOR: &[u8] = b"# Disk DescriptorFile";
/// Grains per grain table; VMware's library supports no other number.
pub const TABLE_GRAINS: u64 = 512;
/// Flags of a header: compressed grains, markers.
const STREAM: u32 = 0x0003_0000;

/// Returns true for the header of a VMDK with compressed grains or markers.
fn is_stream(header: &[u8]) -> bool {
    u32_le(header, 8) & STREAM != 0
}

fn build_node(file: &Path, _: u64) -> Result<Value> {
    Ok(qemu_img::build_node("vmdk", file))
}
