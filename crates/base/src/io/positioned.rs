//! Reading and writing at a place in a file, from several threads at once.
//!
//! The systems name it differently, and only here. On Windows it also moves the file's own position: nobody may count
//! on that one in a file that is read or written so.

use std::fs::File;
use std::io;

/// Whole buffers at an offset in bytes.
pub trait Positioned {
    /// Fills the buffer, or fails with `UnexpectedEof`.
    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()>;

    fn write_all_at(&self, bytes: &[u8], offset: u64) -> io::Result<()>;
}

#[cfg(unix)]
impl Positioned for File {
    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        std::os::unix::fs::FileExt::read_exact_at(self, buffer, offset)
    }

    fn write_all_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        std::os::unix::fs::FileExt::write_all_at(self, bytes, offset)
    }
}

#[cfg(windows)]
impl Positioned for File {
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
