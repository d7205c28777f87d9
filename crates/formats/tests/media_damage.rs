//! Media with changed bytes, read as far as they can be.

use std::path::Path;
use std::sync::Arc;

use winimg_formats::udf::Medium;
use winimg_formats::wim::MediaFacts;

/// Reads whatever can be read; only a panic, a hang or endless memory would be wrong.
fn exercise(bytes: Vec<u8>) {
    let Ok(medium) = Medium::from_bytes(Arc::new(bytes), Path::new("x")) else {
        return;
    };
    let mut todo = vec![String::new()];
    for _ in 0..64 {
        let Some(at) = todo.pop() else { break };
        let Ok(entries) = medium.read_dir(&at) else {
            continue;
        };
        for entry in entries.into_iter().take(64) {
            let path = format!("{at}/{}", entry.name);
            let _ = medium.read(&entry, 1 << 20);
            if entry.is_dir {
                todo.push(path);
            }
        }
    }
    let _ = MediaFacts::read(&medium);
    let _ = winimg_formats::iso::BootCatalog::read(medium.bytes());
}

/// Changes bytes of a medium, so many times from the whole one on, and reads what is left.
pub fn damage(whole: &[u8], times: usize) {
    exercise(whole.to_vec());
    // Wherever the medium has structures, change bytes: a fixed generator, so that a failure can be
    // repeated.
    let busy: Vec<usize> = (0..whole.len()).filter(|i| whole[*i] != 0).collect();
    let mut state = 0x2545_f491_4f6c_dd1du64;
    let mut random = move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state as usize
    };
    for _ in 0..times {
        let mut bytes = whole.to_vec();
        for _ in 0..1 + random() % 4 {
            let at = busy[random() % busy.len()];
            bytes[at] = random() as u8;
            // Let half of the changes pass the checks of the tags.
            if random() % 2 == 0 {
                reseal(&mut bytes, at);
            }
        }
        if random() % 8 == 0 {
            bytes.truncate(random() % whole.len());
        }
        exercise(bytes);
    }
}

/// Makes the UDF tag of the sector around `at` valid again.
fn reseal(bytes: &mut [u8], at: usize) {
    let start = at / 2048 * 2048;
    let Some(sector) = bytes.get_mut(start..start + 2048) else {
        return;
    };
    let length = usize::from(u16::from_le_bytes([sector[10], sector[11]])).min(2032);
    let crc = sector[16..16 + length].iter().fold(0u16, |mut crc, b| {
        crc ^= u16::from(*b) << 8;
        for _ in 0..8 {
            crc = (crc << 1) ^ if crc & 0x8000 == 0 { 0 } else { 0x1021 };
        }
        crc
    });
    sector[8..10].copy_from_slice(&crc.to_le_bytes());
    sector[4] = 0;
    sector[4] = sector[..16].iter().fold(0u8, |s, b| s.wrapping_add(*b));
}
