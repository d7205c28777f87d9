//! The headers of a tar file from a stranger, before a library follows them: only plain files, and of the extensions only
//! those that a bundle is written with, none of them long (POSIX.1-2017, pax; GNU tar: Extensions to the Archive Format).

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};

use tar::{EntryType, Header, PaxExtensions};

const BLOCK: u64 = 512;

/// Bytes of the zeros at the end: programs fill up blocks of their own.
const PADDING: u64 = 1 << 20;

/// Bytes of a long name, or of an extended header.
const EXTENSION: u64 = 64 << 10;

/// Goes from header to header to the end mark; what is wrong, as a sentence. The file stands at its beginning then.
pub fn check(mut file: &File) -> Result<(), String> {
    let unreadable = |e: std::io::Error| format!("the bundle cannot be read: {e}");
    let cut_off = "the bundle is cut off";
    let length = file.metadata().map_err(unreadable)?.len();
    let mut at = 0_u64;
    // What an extended header says of the member after it.
    let mut announced = None;
    loop {
        let mut block = [0; BLOCK as usize];
        if length.saturating_sub(at) < BLOCK {
            return Err(cut_off.into());
        }
        file.seek(SeekFrom::Start(at)).map_err(unreadable)?;
        file.read_exact(&mut block).map_err(unreadable)?;
        if block.iter().all(|b| *b == 0) {
            ends(file, length - at).map_err(unreadable)??;
            break;
        }
        let header = Header::from_byte_slice(&block);
        let own = header
            .entry_size()
            .map_err(|e| format!("the bundle cannot be read: {e}"))?;
        let size = match header.entry_type() {
            EntryType::XHeader | EntryType::GNULongName if own > EXTENSION => {
                return Err(format!(
                    "the bundle has an extended header of {own} bytes; {EXTENSION} are the most"
                ));
            }
            EntryType::XHeader => {
                let mut bytes = vec![0; own as usize];
                file.read_exact(&mut bytes).map_err(|_| cut_off)?;
                announced = Some(size_in(&bytes)?);
                own
            }
            EntryType::GNULongName => own,
            EntryType::XGlobalHeader => {
                return Err(
                    "the bundle has a header for all members, which winimg does not write".into(),
                );
            }
            _ => announced.take().unwrap_or(own),
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

/// Whether the last `rest` bytes are an end mark and padding. No reader looks behind it, so that another archive could be hidden there.
fn ends(mut file: &File, rest: u64) -> std::io::Result<Result<(), String>> {
    file.seek(SeekFrom::End(-(rest.min(PADDING) as i64)))?;
    let mut bytes = Vec::new();
    file.take(PADDING).read_to_end(&mut bytes)?;
    let is_end = rest <= PADDING && bytes.iter().all(|byte| *byte == 0);
    Ok(if is_end {
        Ok(())
    } else {
        Err("the bundle goes on behind its end".into())
    })
}

/// The one thing that an extended header of a bundle says.
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
                    "the bundle has an extended header that says more than a member's size".into(),
                );
            }
        }
    }
    size.ok_or_else(|| "the bundle has an extended header that says nothing".into())
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
        let beyond = Err("the bundle goes on behind its end".to_owned());
        assert_eq!(judged(&[bundle.clone(), bundle.clone()].concat()), beyond);
        assert_eq!(judged(&[padded(512), vec![1]].concat()), beyond);
        assert_eq!(judged(&padded(2 << 20)), beyond);
    }
}
