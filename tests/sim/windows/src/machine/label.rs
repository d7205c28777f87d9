//! The label that Windows shows of a CD: UDF's before Joliet's before ISO 9660's.
//!
//! Sources: ECMA-119 8.4, Joliet 1.0, ECMA-167 3/10.2 and 3/10.6.

use std::os::unix::fs::FileExt;

const SECTOR: u64 = 2048;

/// `None`: no file system that Windows knows.
pub fn of(disc: &impl FileExt) -> Option<String> {
    udf(disc).or_else(|| iso(disc))
}

fn sector(disc: &impl FileExt, number: u64) -> Option<[u8; SECTOR as usize]> {
    let mut sector = [0; SECTOR as usize];
    disc.read_exact_at(&mut sector, number.checked_mul(SECTOR)?)
        .ok()?;
    Some(sector)
}

fn iso(disc: &impl FileExt) -> Option<String> {
    let (mut plain, mut joliet) = (None, None);
    for number in 16..32 {
        let Some(found) = sector(disc, number) else {
            break;
        };
        if &found[1..6] != b"CD001" {
            break;
        }
        let label = &found[40..72];
        match found[0] {
            1 => plain = Some(String::from_utf8_lossy(label).trim_end().to_owned()),
            2 if found[88..90] == *b"%/" => {
                let units = label
                    .chunks_exact(2)
                    .map(|pair| u16::from_be_bytes([pair[0], pair[1]]));
                let text = String::from_utf16_lossy(&units.collect::<Vec<_>>());
                joliet = Some(text.trim_end_matches([' ', '\0']).to_owned());
            }
            255 => break,
            _ => {}
        }
    }
    joliet.or(plain)
}

/// The logical volume identifier, found from the anchor at sector 256.
fn udf(disc: &impl FileExt) -> Option<String> {
    let word = |bytes: &[u8], at: usize| {
        let bytes: [u8; 4] = bytes[at..at + 4].try_into().ok()?;
        Some(u64::from(u32::from_le_bytes(bytes)))
    };
    let anchor = sector(disc, 256)?;
    if anchor[..2] != [2, 0] {
        return None;
    }
    let (length, first) = (word(&anchor, 16)?, word(&anchor, 20)?);
    for number in first..first + (length / SECTOR).min(64) {
        let found = sector(disc, number)?;
        match found[..2] {
            [6, 0] => return Some(dstring(&found[84..212])),
            [8, 0] => return None,
            _ => {}
        }
    }
    None
}

/// A string of OSTA's compressed Unicode; its last byte is its length.
fn dstring(field: &[u8]) -> String {
    let length = usize::from(field[field.len() - 1]).min(field.len() - 1);
    match field[..length].split_first() {
        Some((8, bytes)) => bytes.iter().map(|byte| char::from(*byte)).collect(),
        Some((16, bytes)) => {
            let units = bytes
                .chunks_exact(2)
                .map(|pair| u16::from_be_bytes([pair[0], pair[1]]));
            String::from_utf16_lossy(&units.collect::<Vec<_>>())
        }
        _ => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn image(sectors: &[(usize, Vec<u8>)]) -> Option<String> {
        let mut bytes = vec![0; 300 * 2048];
        for (number, content) in sectors {
            bytes[number * 2048..number * 2048 + content.len()].copy_from_slice(content);
        }
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), bytes).unwrap();
        of(file.as_file())
    }

    fn descriptor(kind: u8, label: &[u8], escape: &[u8]) -> Vec<u8> {
        let mut sector = vec![0; 2048];
        sector[0] = kind;
        sector[1..6].copy_from_slice(b"CD001");
        sector[40..40 + label.len()].copy_from_slice(label);
        sector[88..88 + escape.len()].copy_from_slice(escape);
        sector
    }

    #[test]
    fn labels() {
        let plain = descriptor(1, b"CONFIG_2                        ", b"");
        assert_eq!(image(&[(16, plain.clone())]).as_deref(), Some("CONFIG_2"));
        let joliet: Vec<u8> = "config-2        "
            .encode_utf16()
            .flat_map(u16::to_be_bytes)
            .collect();
        let both = [(16, plain), (17, descriptor(2, &joliet, b"%/E"))];
        assert_eq!(image(&both).as_deref(), Some("config-2"));
        assert_eq!(image(&[]), None);
        let mut anchor = vec![2, 0];
        anchor.resize(16, 0);
        anchor.extend([0, 8, 0, 0, 32, 0, 0, 0]);
        let mut volume = vec![6, 0];
        volume.resize(84, 0);
        volume.extend(b"\x08cidata");
        volume.resize(84 + 127, 0);
        volume.push(7);
        assert_eq!(
            image(&[(256, anchor), (32, volume)]).as_deref(),
            Some("cidata")
        );
    }
}
