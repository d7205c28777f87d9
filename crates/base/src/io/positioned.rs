//! Reads and writes at an offset in a file, from several threads at once.
//!
//! Hides the differences between systems. On Windows these calls also move the file's own position,
//! so do not rely on it.

use std::fs::File;
use std::io;

/// Reads and writes whole buffers at an offset in bytes.
pub trait PositionedIo {
    /// Fills the buffer, or fails with `UnexpectedEof`.
    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()>;

    fn write_all_at(&self, bytes: &[u8], offset: u64) -> io::Result<()>;
}

#[cfg(unix)]
impl PositionedIo for File {
    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        std::os::unix::fs::FileExt::read_exact_at(self, buffer, offset)
    }

    fn write_all_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        std::os::unix::fs::FileExt::write_all_at(self, bytes, offset)
    }
}

#[cfg(windows)]
impl PositionedIo for File {
    fn read_exact_at(&self, mut buffer: &mut [u8], mut offset: u64) -> io::Result<()> {
        use std::os::windows::fs::FileExt as _;

        while !buffer.is_empty() {
            match self.seek_read(buffer, offset) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(n) => {
                    buffer = &mut buffer[n..];
                    offset += n as u64;
                }
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(e),
            }
        }
        Ok(())
    }

    fn write_all_at(&self, mut bytes: &[u8], mut offset: u64) -> io::Result<()> {
        use std::os::windows::fs::FileExt as _;

        while !bytes.is_empty() {
            match self.seek_write(bytes, offset) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(n) => {
                    bytes = &bytes[n..];
                    offset += n as u64;
                }
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(e),
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_written_at_a_place_is_read_there_and_nothing_beyond_the_end() {
        let file = tempfile::tempfile().unwrap();
        file.write_all_at(b"three", 7).unwrap();
        file.write_all_at(b"one", 0).unwrap();
        let mut read = [1; 12];
        file.read_exact_at(&mut read, 0).unwrap();
        assert_eq!(&read, b"one\0\0\0\0three");
        let beyond = file.read_exact_at(&mut read, 1).unwrap_err();
        assert_eq!(beyond.kind(), io::ErrorKind::UnexpectedEof);
        let mut last = [0; 2];
        file.read_exact_at(&mut last, 10).unwrap();
        assert_eq!(&last, b"ee");
    }
}
