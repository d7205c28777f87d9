//! The headers of a tar file from a stranger, before a library follows them: only plain files, and of the extensions only
//! those that a bundle is written with, none of them long (POSIX.1-2017, pax; GNU tar: Extensions to the Archive Format).

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};

use tar::{EntryType, Header, PaxExtensions};

const BLOCK: u64 = 512;

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
