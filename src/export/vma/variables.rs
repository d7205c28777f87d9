//! The variables of a UEFI firmware before its first start: a store with nothing in it, as OVMF comes with one for a flash of
//! 4 MiB. Proxmox keeps it as the machine's `efidisk0`.
//!
//! Without keys: Secure Boot is off until somebody enrols some. Source: edk2, OvmfPkg/VarStore.fdf.inc.

/// Bytes of the volume: variables, a log of events, and room for writing without loss (64, 1, 1 and 66 blocks of 4 KiB).
pub const LEN: usize = 528 << 10;
const VARIABLES: u32 = 256 << 10;
/// Where it is noted what is being rewritten.
const WORKING: usize = 0x41000;
/// Flash that nothing was written to.
const ERASED: u8 = 0xff;
/// gEfiSystemNvDataFvGuid, gEfiAuthenticatedVariableGuid, gEdkiiWorkingBlockSignatureGuid, as they lie in the flash.
const VOLUME_GUID: [u8; 16] = 0xfff1_2b8d_7696_4c8b_a985_2747_075b_4f50_u128.to_be_bytes();
const STORE_GUID: [u8; 16] = 0xaaf3_2c78_947b_439a_a180_2e14_4ec3_7792_u128.to_be_bytes();
const WORKING_GUID: [u8; 16] = 0x9e58_292b_7c68_497d_a0ce_6500_fd9f_1b95_u128.to_be_bytes();

/// The first three fields of a GUID lie with their lowest byte first.
fn in_memory(guid: [u8; 16]) -> [u8; 16] {
    let [a, b, c, d, e, f, g, h, rest @ ..] = guid;
    let mut bytes = [d, c, b, a, f, e, h, g, 0, 0, 0, 0, 0, 0, 0, 0];
    bytes[8..].copy_from_slice(&rest);
    bytes
}

pub fn empty() -> Vec<u8> {
    let mut flash = vec![ERASED; LEN];
    let head = [&volume()[..], &store()].concat();
    flash[..head.len()].copy_from_slice(&head);
    let working = working();
    flash[WORKING..WORKING + working.len()].copy_from_slice(&working);
    flash
}

/// EFI_FIRMWARE_VOLUME_HEADER (UEFI PI specification, volume 3)
fn volume() -> Vec<u8> {
    let mut header = vec![0; 16];
    header.extend(in_memory(VOLUME_GUID));
    header.extend((LEN as u64).to_le_bytes());
    header.extend(b"_FVH");
    header.extend(0x0004_feff_u32.to_le_bytes());
    header.extend(72_u16.to_le_bytes());
    // The sum, no further header, reserved, revision.
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

/// VARIABLE_STORE_HEADER: formatted, healthy. It has what the volume's header leaves of the room for variables.
fn store() -> Vec<u8> {
    let mut header = in_memory(STORE_GUID).to_vec();
    header.extend((VARIABLES - 72).to_le_bytes());
    header.extend([0x5a, 0xfe, 0, 0, 0, 0, 0, 0]);
    header
}

/// EFI_FAULT_TOLERANT_WORKING_BLOCK_HEADER: valid, with an empty queue and its CRC-32, which is taken of erased flash in its place
/// and in that of the state.
fn working() -> Vec<u8> {
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
            hex::encode(volume()),
            "000000000000000000000000000000008d2bf1ff96768b4ca9852747075b4f5000400800000000005f465648fffe0400\
             4800afb80000000284000000001000000000000000000000"
        );
        assert_eq!(
            hex::encode(store()),
            "782cf3aa7b949a43a1802e144ec37792b8ff03005afe000000000000"
        );
        assert_eq!(
            hex::encode(working()),
            "2b29589e687c7d49a0ce6500fd9f1b952caf2c64feffffffe00f000000000000"
        );
    }
}
