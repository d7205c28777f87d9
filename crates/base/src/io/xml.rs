//! Reads users' XML files in the encodings that Windows supports: UTF-8, and UTF-16 with a
//! byte order mark.
//!
//! Refuses a declaration that contradicts the bytes, like the XML parser of Windows.

use std::io;
use std::path::Path;

use super::read_limited;
use crate::markup::{declared_encoding, is_wide_encoding};

/// Cure for a file with the wrong encoding.
const CURE: &str = "save the file as UTF-8 and declare encoding=\"utf-8\": in Notepad under \
                    Encoding, in Windows PowerShell with Set-Content -Encoding UTF8";

/// Reads a whole XML file of at most `limit` bytes. The text has no byte order mark and declares no
/// UTF-16, so that it can be written as UTF-8. The error for a file that is not text has the offset
/// of its first invalid byte.
pub fn read_xml_limited(path: &Path, limit: u64) -> io::Result<String> {
    let bytes = read_limited(path, limit)?;
    decode(&bytes).map_err(|why| {
        let why = format!("{why}; {CURE}");
        io::Error::new(io::ErrorKind::InvalidData, why)
    })
}

fn decode(bytes: &[u8]) -> Result<String, String> {
    match bytes {
        [0xff, 0xfe, 0, 0, ..] | [0, 0, 0xfe, 0xff, ..] => Err("it is UTF-32".to_owned()),
        [0xff, 0xfe, rest @ ..] => utf_16(rest, u16::from_le_bytes),
        [0xfe, 0xff, rest @ ..] => utf_16(rest, u16::from_be_bytes),
        [b'<', 0, ..] | [0, b'<', ..] => {
            Err("it is UTF-16 without a byte order mark at its beginning".to_owned())
        }
        [0xef, 0xbb, 0xbf, rest @ ..] => utf_8(rest, 3),
        _ => utf_8(bytes, 0),
    }
}

/// Decodes UTF-8; `offset` is the offset of these bytes in the file.
fn utf_8(bytes: &[u8], offset: usize) -> Result<String, String> {
    std::str::from_utf8(bytes)
        .map(str::to_owned)
        .map_err(|e| format!("byte {} is not UTF-8", offset + e.valid_up_to()))
}

/// Decodes UTF-16 after a byte order mark of two bytes.
fn utf_16(bytes: &[u8], unit: fn([u8; 2]) -> u16) -> Result<String, String> {
    let (pairs, odd) = bytes.as_chunks::<2>();
    let mut text = String::with_capacity(pairs.len());
    let mut offset = 2;
    for decoded in char::decode_utf16(pairs.iter().copied().map(unit)) {
        let c = decoded.map_err(|_| {
            format!(
                "the file is UTF-16, and bytes {offset} and {} are half a character",
                offset + 1
            )
        })?;
        offset += 2 * c.len_utf16();
        text.push(c);
    }
    if !odd.is_empty() {
        return Err(format!(
            "the file is UTF-16, and its last character, at byte {offset}, is truncated"
        ));
    }
    let Some(declared) = declared_encoding(&text) else {
        return Ok(text);
    };
    let name = &text[declared.clone()];
    if !is_wide_encoding(name) {
        return Err(format!(
            "its bytes are UTF-16, but its first line declares encoding=\"{name}\", which the XML \
             parser of Windows refuses"
        ));
    }
    text.replace_range(declared, "utf-8");
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wide(mark: [u8; 2], unit: fn(u16) -> [u8; 2], text: &str) -> Vec<u8> {
        let units = text.encode_utf16().flat_map(unit);
        mark.into_iter().chain(units).collect()
    }

    fn little(text: &str) -> Vec<u8> {
        wide([0xff, 0xfe], u16::to_le_bytes, text)
    }

    fn big(text: &str) -> Vec<u8> {
        wide([0xfe, 0xff], u16::to_be_bytes, text)
    }

    #[test]
    fn every_encoding_that_windows_reads_gives_the_same_text() {
        let text =
            "<?xml version=\"1.0\" encoding=\"utf-8\"?>\r\n<a>\u{fc}\u{1f600}{{language}}</a>";
        let marked = [b"\xef\xbb\xbf", text.as_bytes()].concat();
        assert_eq!(decode(text.as_bytes()), Ok(text.to_owned()));
        assert_eq!(decode(&marked), Ok(text.to_owned()));
        for name in ["utf-16", "UTF-16", "utf-16LE", "Unicode"] {
            let declared = text.replace("utf-8", name);
            assert_eq!(decode(&little(&declared)), Ok(text.to_owned()), "{name}");
            assert_eq!(decode(&big(&declared)), Ok(text.to_owned()), "{name}");
        }
        let bare = "<a>\u{fc}</a>";
        assert_eq!(decode(&little(bare)), Ok(bare.to_owned()));
        assert_eq!(decode(b""), Ok(String::new()));
    }

    #[test]
    fn what_is_no_text_is_refused_at_its_offset() {
        let cut = |mut bytes: Vec<u8>| {
            bytes.pop();
            bytes
        };
        for (bytes, why) in [
            (b"<a>\xfc</a>".to_vec(), "byte 3 is not UTF-8"),
            (b"\xef\xbb\xbf<a>\xfc".to_vec(), "byte 6 is not UTF-8"),
            (
                cut(little("<a>")),
                "the file is UTF-16, and its last character, at byte 6, is truncated",
            ),
            (
                [little("<\u{1f600}"), vec![0x3d, 0xd8, b'<', 0]].concat(),
                "the file is UTF-16, and bytes 8 and 9 are half a character",
            ),
            (
                [big("<"), vec![0xdc, 0x00]].concat(),
                "the file is UTF-16, and bytes 4 and 5 are half a character",
            ),
            (
                little("<a/>")[2..].to_vec(),
                "it is UTF-16 without a byte order mark at its beginning",
            ),
            (
                big("<a/>")[2..].to_vec(),
                "it is UTF-16 without a byte order mark at its beginning",
            ),
            (b"\xff\xfe\0\0<\0\0\0".to_vec(), "it is UTF-32"),
            (
                little("<?xml version='1.0' encoding='utf-8'?><a/>"),
                "its bytes are UTF-16, but its first line declares encoding=\"utf-8\", which the XML parser of Windows refuses",
            ),
        ] {
            assert_eq!(decode(&bytes), Err(why.to_owned()));
        }
    }

    #[test]
    fn the_error_of_a_file_says_how_to_save_it() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("a.xml");
        std::fs::write(&path, b"<a>\xfc</a>").expect("the file");
        let error = read_xml_limited(&path, 1 << 20).expect_err("it is no text");
        assert_eq!(
            error.to_string(),
            "byte 3 is not UTF-8; save the file as UTF-8 and declare encoding=\"utf-8\": in Notepad under Encoding, in \
             Windows PowerShell with Set-Content -Encoding UTF8"
        );
    }
}
