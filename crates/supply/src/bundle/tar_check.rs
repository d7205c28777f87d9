//! Checks the headers of an untrusted tar file before a library parses it: only regular files, and
//! only the short extended headers that winimg writes (POSIX.1-2017, pax; GNU tar: Extensions to
//! the Archive Format).

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};

use tar::{EntryType, Header, PaxExtensions};

const BLOCK: u64 = 512;

/// Maximum bytes of the zeros at the end: programs pad to their own block sizes.
const MAX_PADDING: u64 = 1 << 20;

/// Maximum bytes of a long name or an extended header.
const MAX_EXTENSION_SIZE: u64 = 64 << 10;

/// Checks all headers up to the end mark and rewinds the file. The error is a sentence.
pub fn check(mut file: &File) -> Result<(), String> {
    let cut_off = "the bundle is truncated";
    let length = file.metadata().map_err(unreadable)?.len();
    let mut at = 0_u64;
    // Size of the next member, from an extended header.
    let mut pax_size = None;
    loop {
        let mut block = [0; BLOCK as usize];
        if length.saturating_sub(at) < BLOCK {
            return Err(cut_off.into());
        }
        file.seek(SeekFrom::Start(at)).map_err(unreadable)?;
        file.read_exact(&mut block).map_err(unreadable)?;
        if block.iter().all(|b| *b == 0) {
            check_end(file, length - at)?;
            break;
        }
        let header = Header::from_byte_slice(&block);
        let own = header.entry_size().map_err(unreadable)?;
        let size = match header.entry_type() {
            EntryType::XHeader | EntryType::GNULongName if own > MAX_EXTENSION_SIZE => {
                return Err(format!(
                    "the bundle has an extended header of {own} bytes; the maximum is \
                     {MAX_EXTENSION_SIZE}"
                ));
            }
            EntryType::XHeader => {
                let mut bytes = vec![0; own as usize];
                file.read_exact(&mut bytes).map_err(|_| cut_off)?;
                pax_size = Some(size_in(&bytes)?);
                own
            }
            EntryType::GNULongName => own,
            EntryType::XGlobalHeader => {
                return Err(
                    "the bundle has a global extended header, which winimg does not write".into(),
                );
            }
            _ => pax_size.take().unwrap_or(own),
        };
        let blocks = size.div_ceil(BLOCK).checked_mul(BLOCK);
        let next = blocks.and_then(|b| at.checked_add(BLOCK)?.checked_add(b));
        at = next
            .filter(|next| *next <= length)
            .ok_or_else(|| cut_off.to_string())?;
    }
    file.seek(SeekFrom::Start(0)).map_err(unreadable)?;
    Ok(())
}

fn unreadable(error: std::io::Error) -> String {
    format!("the bundle cannot be read: {error}")
}

/// Checks that the last `rest` bytes are the end-of-archive marker and zeros. Readers ignore
/// anything after the marker, so another archive could be hidden there.
fn check_end(mut file: &File, rest: u64) -> Result<(), String> {
    file.seek(SeekFrom::End(-(rest.min(MAX_PADDING) as i64)))
        .map_err(unreadable)?;
    let mut bytes = Vec::new();
    file.take(MAX_PADDING)
        .read_to_end(&mut bytes)
        .map_err(unreadable)?;
    if rest <= MAX_PADDING && bytes.iter().all(|byte| *byte == 0) {
        Ok(())
    } else {
        Err("the bundle has data after its end".into())
    }
}

/// Parses the size, the only member of an extended header in bundles.
fn size_in(bytes: &[u8]) -> Result<u64, String> {
    let mut size = None;
    for extension in PaxExtensions::new(bytes) {
        let broken = "the bundle has an extended header that cannot be read";
        let extension = extension.map_err(|_| broken)?;
        match (extension.key(), extension.value()) {
            (Ok("size"), Ok(value)) if size.is_none() => {
                size = Some(value.parse().map_err(|_| broken)?);
            }
            _ => {
                return Err(
                    "the bundle has an extended header with fields other than `size`".into(),
                );
            }
        }
    }
    size.ok_or_else(|| "the bundle has an empty extended header".into())
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    fn archive() -> Vec<u8> {
        let mut builder = tar::Builder::new(Vec::new());
        let mut header = Header::new_gnu();
        header.set_size(3);
        header.set_cksum();
        builder
            .append_data(&mut header, "BUNDLE.toml", b"abc".as_slice())
            .unwrap();
        builder.into_inner().unwrap()
    }

    fn judged(bytes: &[u8]) -> Result<(), String> {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(bytes).unwrap();
        check(&file)
    }

    #[test]
    fn behind_the_end_there_is_only_padding() {
        let bundle = archive();
        let padded = |by: usize| [bundle.as_slice(), &vec![0; by]].concat();
        // GNU tar fills up records of twenty blocks.
        for by in [0, 512, 9 * 1024, 512 << 10] {
            assert_eq!(judged(&padded(by)), Ok(()), "{by}");
        }
        let beyond = Err("the bundle has data after its end".to_owned());
        assert_eq!(judged(&[bundle.clone(), bundle.clone()].concat()), beyond);
        assert_eq!(judged(&[padded(512), vec![1]].concat()), beyond);
        assert_eq!(judged(&padded(2 << 20)), beyond);
    }
}
