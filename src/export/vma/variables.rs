//! An empty store for UEFI variables, like OVMF's for a flash of 4 MiB. Proxmox keeps it as the
//! VM's `efidisk0`.
//!
//! Without keys: Secure Boot is off until keys are enrolled. Source: edk2,
//! OvmfPkg/VarStore.fdf.inc.

/// Size of the volume in bytes: variables, event log, and working and spare blocks (64, 1, 1 and 66
/// blocks of 4 KiB).
pub const LEN: usize = 528 << 10;
const VARIABLES: u32 = 256 << 10;
/// Offset of the working block, the journal of rewrites.
const WORKING: usize = 0x41000;
/// Value of erased flash.
const ERASED: u8 = 0xff;
/// gEfiSystemNvDataFvGuid, gEfiAuthenticatedVariableGuid, gEdkiiWorkingBlockSignatureGuid.
const VOLUME_GUID: [u8; 16] = 0xfff1_2b8d_7696_4c8b_a985_2747_075b_4f50_u128.to_be_bytes();
const STORE_GUID: [u8; 16] = 0xaaf3_2c78_947b_439a_a180_2e14_4ec3_7792_u128.to_be_bytes();
const WORKING_GUID: [u8; 16] = 0x9e58_292b_7c68_497d_a0ce_6500_fd9f_1b95_u128.to_be_bytes();

/// Converts a GUID to its layout in memory, with the first three fields in little-endian order.
fn in_memory(guid: [u8; 16]) -> [u8; 16] {
    let [a, b, c, d, e, f, g, h, rest @ ..] = guid;
    let mut bytes = [d, c, b, a, f, e, h, g, 0, 0, 0, 0, 0, 0, 0, 0];
    bytes[8..].copy_from_slice(&rest);
    bytes
}

pub fn build_empty() -> Vec<u8> {
    let mut flash = vec![ERASED; LEN];
    let head = [&build_volume_header()[..], &store()].concat();
    flash[..head.len()].copy_from_slice(&head);
    let working = build_working_header();
    flash[WORKING..WORKING + working.len()].copy_from_slice(&working);
    flash
}

/// EFI_FIRMWARE_VOLUME_HEADER (UEFI PI specification, volume 3)
fn build_volume_header() -> Vec<u8> {
    let mut header = vec![0; 16];
    header.extend(in_memory(VOLUME_GUID));
    header.extend((LEN as u64).to_le_bytes());
    header.extend(b"_FVH");
    header.extend(0x0004_feff_u32.to_le_bytes());
    header.extend(72_u16.to_le_bytes());
    // Checksum, no extended header, reserved, revision.
    header.extend([0, 0, 0, 0, 0, 2]);
    for (blocks, bytes) in [(LEN as u32 / 4096, 4096_u32), (0, 0)] {
        header.extend(blocks.to_le_bytes());
        header.extend(bytes.to_le_bytes());
    }
    let words = header.chunks(2).map(|w| u16::from_le_bytes([w[0], w[1]]));
    let sum = words.fold(0_u16, u16::wrapping_add);
    header[50..52].copy_from_slice(&sum.wrapping_neg().to_le_bytes());
    header
}

/// VARIABLE_STORE_HEADER: formatted, healthy. The volume's header takes some of the space for
/// variables.
fn store() -> Vec<u8> {
    let mut header = in_memory(STORE_GUID).to_vec();
    header.extend((VARIABLES - 72).to_le_bytes());
    header.extend([0x5a, 0xfe, 0, 0, 0, 0, 0, 0]);
    header
}

/// EFI_FAULT_TOLERANT_WORKING_BLOCK_HEADER: valid, with an empty queue. The CRC-32 is computed with
/// erased flash in place of itself and the state.
fn build_working_header() -> Vec<u8> {
    let queue = (4096_u64 - 32).to_le_bytes();
    let mut header = in_memory(WORKING_GUID).to_vec();
    let erased = [&header[..], &[ERASED; 8], &queue].concat();
    header.extend(libdeflater::crc32(&erased).to_le_bytes());
    header.extend([0xfe, ERASED, ERASED, ERASED]);
    header.extend(queue);
    header
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_headers_are_those_of_ovmf() {
        assert_eq!(
            hex::encode(build_volume_header()),
            "000000000000000000000000000000008d2bf1ff96768b4ca9852747075b4f5000400800000000005f465648fffe0400\
             4800afb80000000284000000001000000000000000000000"
        );
        assert_eq!(
            hex::encode(store()),
            "782cf3aa7b949a43a1802e144ec37792b8ff03005afe000000000000"
        );
        assert_eq!(
            hex::encode(build_working_header()),
            "2b29589e687c7d49a0ce6500fd9f1b952caf2c64feffffffe00f000000000000"
        );
    }
}
